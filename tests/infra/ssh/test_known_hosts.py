"""A file of trusted keys is read as OpenSSH reads it: `ssh-keygen -F` says what a line is about."""

import random
import shutil
import subprocess
from pathlib import Path

import paramiko
import pytest

from infra.remote import UntrustedHostError
from infra.ssh.known_hosts import KnownHosts, shown
from tests.attacks import attack
from tests.infra.ssh.lan import make_key

KEYGEN = shutil.which("ssh-keygen") or ""
PLACES = ("gpu1.lab", "gpu2.lab", "bad.lab", "[gpu1.lab]:2222", "10.0.0.7", "GPU1.lab")
PATTERNS = (
    "*.lab,!bad.lab", "!bad.lab,*.lab", "gpu?.lab", "*,!*.lab", "!*", "!gpu1.lab", "10.0.0.*",
    "[gpu1.lab]:2222", "[*.lab]:*", "gpu1.lab,gpu2.lab,!gpu2.lab", "Gpu1.LAB", "*,!GPU2.lab",
)  # fmt: skip


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> paramiko.PKey:
    return paramiko.PKey.from_path(make_key(tmp_path_factory.mktemp("key") / "key"))


def known(tmp_path: Path, text: str) -> KnownHosts:
    path = tmp_path / "known_hosts"
    path.write_text(text)
    return KnownHosts((path,))


@pytest.mark.parametrize("gap", [" ", "\t", "  ", " \t "])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_about_the_hosts_that_openssh_says(
    tmp_path: Path, key: paramiko.PKey, pattern: str, gap: str
) -> None:
    line = gap.join([pattern, key.get_name(), key.get_base64()])
    hosts = known(tmp_path, f"# note\n{line}\n")
    for place in PLACES:
        argv = [KEYGEN, "-F", place, "-f", str(tmp_path / "known_hosts")]
        found = subprocess.run(argv, capture_output=True).returncode == 0
        assert bool(hosts.keys(place)) is found, (place, pattern)


@attack("Low: a negated pattern in known_hosts")
def test_a_host_that_a_pattern_denies_is_not_trusted(tmp_path: Path, key: paramiko.PKey) -> None:
    words = f"{key.get_name()} {key.get_base64()}"
    hosts = known(tmp_path, f"*.lab,!bad.lab {words}\n")
    hosts.check("gpu1.lab", key, "trust it")
    with pytest.raises(UntrustedHostError, match=r"bad\.lab is not known"):
        hosts.check("bad.lab", key, "trust it")


@attack("Low: a revoked key, with tabs in its line")
@pytest.mark.parametrize("gap", [" ", "\t", "\t\t", "  \t"])
@pytest.mark.parametrize("names", ["*", "gpu1.lab", "*.lab,!gpu2.lab", "other,gpu1.lab"])
def test_a_revoked_key_is_refused_however_its_line_is_written(
    tmp_path: Path, key: paramiko.PKey, gap: str, names: str
) -> None:
    words = [key.get_name(), key.get_base64()]
    revoked = gap.join(["@revoked", names, *words, "a comment"])
    hosts = known(tmp_path, f"* {' '.join(words)}\n{gap}{revoked}\n")
    with pytest.raises(UntrustedHostError, match="revoked"):
        hosts.check("gpu1.lab", key, "trust it")
    assert not hosts.has(shown("gpu1.lab", key))


@pytest.mark.parametrize("names", ["gpu2.lab", "*,!gpu1.lab"])
def test_a_key_that_is_revoked_for_others_is_not_for_this_one(
    tmp_path: Path, key: paramiko.PKey, names: str
) -> None:
    words = f"{key.get_name()} {key.get_base64()}"
    hosts = known(tmp_path, f"gpu1.lab {words}\n@revoked {names} {words}\n")
    hosts.check("gpu1.lab", key, "trust it")


def test_broken_lines_are_passed_over(tmp_path: Path, key: paramiko.PKey) -> None:
    rng = random.Random(4)
    words = f"{key.get_name()} {key.get_base64()}"
    good = f"gpu1.lab {words}"
    lines = ["|1|x|y ssh-rsa AAAA", "|1|| ssh-ed25519 AAAA", "@revoked", "@revoked x", "x", "x y",
             "x ssh-rsa !!!!", "x ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA", "@ x y z",
             f"|1|{'A' * 5}|{'B' * 9} {words}", f", {words}", f"! {words}"]  # fmt: skip
    for _ in range(500):
        broken = list(good)
        for _ in range(rng.randint(1, 6)):
            broken[rng.randrange(len(broken))] = chr(rng.randrange(1, 0x250))
        lines.append("".join(broken).replace("gpu1", "gpuX"))
    hosts = known(tmp_path, "\n".join([*lines, good]))
    hosts.check("gpu1.lab", key, "trust it")
