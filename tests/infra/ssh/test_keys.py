"""Keys: whatever the file holds is read by its own type, and each fault has its own message."""

from pathlib import Path

import paramiko
import pytest

from infra.remote import UntrustedHostError
from infra.ssh.keys import KeyFileError, load_key
from infra.ssh.known_hosts import KnownHosts, shown
from tests.infra.ssh.lan import make_key

PASSPHRASE = "correct horse"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (("-t", "ed25519", "-N", ""), "ssh-ed25519"),
        (("-t", "rsa", "-b", "1024", "-N", ""), "ssh-rsa"),
        (("-t", "rsa", "-b", "1024", "-m", "PEM", "-N", ""), "ssh-rsa"),
        (("-t", "ecdsa", "-N", ""), "ecdsa-sha2-nistp256"),
    ],
)
def test_every_usual_key_is_read(tmp_path: Path, options: tuple[str, ...], kind: str) -> None:
    assert load_key(make_key(tmp_path / "key", *options), None).get_name() == kind


def test_an_encrypted_key_takes_a_referenced_passphrase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_key(tmp_path / "key", "-t", "ed25519", "-N", PASSPHRASE)
    with pytest.raises(KeyFileError, match=r"key: it is encrypted: add it to the agent"):
        load_key(path, None)
    with pytest.raises(KeyFileError, match="OUR_PASSPHRASE is not set"):
        load_key(path, "env:OUR_PASSPHRASE")
    monkeypatch.setenv("OUR_PASSPHRASE", "wrong")
    with pytest.raises(KeyFileError, match="does not open it"):
        load_key(path, "env:OUR_PASSPHRASE")
    monkeypatch.setenv("OUR_PASSPHRASE", PASSPHRASE)
    assert load_key(path, "env:OUR_PASSPHRASE").get_name() == "ssh-ed25519"


def test_what_is_no_key_is_told(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="No such file"):
        load_key(tmp_path / "none", None)
    path = make_key(tmp_path / "key")
    with pytest.raises(KeyFileError, match="let others in"):
        load_key(tmp_path / "key.pub", None)
    path.chmod(0o640)
    with pytest.raises(KeyFileError, match="permissions 640 let others in: chmod 600"):
        load_key(path, None)
    path.write_text("no key\n")
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match="no private key that can be read"):
        load_key(path, None)


def key() -> paramiko.PKey:
    return paramiko.ECDSAKey.generate()


def test_a_host_key_is_looked_up_by_address_and_port(tmp_path: Path) -> None:
    path = tmp_path / "sub/known_hosts"
    known = KnownHosts((path,))
    first, other = key(), key()
    with pytest.raises(UntrustedHostError, match=r"\[h\]:2222 is not known.*SHA256:.*TRUST"):
        known.check("[h]:2222", first, "TRUST")
    assert known.add(shown("[h]:2222", first)) == path
    known.check("[h]:2222", first, "")
    with pytest.raises(UntrustedHostError, match="is not known"):
        known.check("h", first, "")
    with pytest.raises(UntrustedHostError) as caught:
        known.check("[h]:2222", other, "")
    assert first.fingerprint in str(caught.value)
    assert other.fingerprint in str(caught.value)
    assert "ssh-keygen -R '[h]:2222'" in str(caught.value)


def test_hashed_names_patterns_and_revoked_keys_are_understood(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    good, bad = key(), key()
    hashed = paramiko.HostKeys.hash_host("h1")
    words = f"{good.get_name()} {good.get_base64()}"
    path.write_text(
        f"# note\n{hashed} {words}\n*.lab {words}\n@revoked * {bad.get_name()} {bad.get_base64()}\n"
        f"h2 {bad.get_name()} {bad.get_base64()}"
    )
    known = KnownHosts((path,))
    known.check("h1", good, "")
    known.check("x.lab", good, "")
    with pytest.raises(UntrustedHostError, match="revoked"):
        known.check("h2", bad, "")
    # The last line had no end.
    known.add(shown("h3", good))
    known.check("h3", good, "")
