"""Configurations that other readers got wrong, each with its source; OpenSSH says what is right."""

import getpass
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from infra.inventory import HostEntry, Inventory
from infra.ssh.config import Hop, route
from infra.ssh.config_words import WordsError, read_line
from infra.ssh.jumps import Jump, jumps
from sweeps.problems import BadInputError
from tests.infra.ssh.configurations import without_openssh

SSH = shutil.which("ssh") or ""
with_openssh = pytest.mark.skipif(not SSH, reason="OpenSSH's client is not installed")

READ: dict[str, str] = {
    # Words, quotes, comments and inclusions that both readers take.
    "comments after values": (
        "Host gpu\n  HostName 10.0.0.5   # rack 4\n  IdentityFile ~/.ssh/lab_key   # example\n"
        "  User ops # the account of the team\n"
    ),
    "a comment after a port": "Host gpu\n  HostName 10.0.0.5\n  Port 2222 # not 22\n",
    "a condition with =": "Match host=gpu*\n    User ops\nHost gpu\n  HostName 10.0.0.5\n",
    "Include=": "Include=MORE\n",
    "Include and a tab": "Include\tMORE\n",
    "%k in known hosts": (
        "Host gpu\n  HostName 10.0.0.5\n  UserKnownHostsFile ~/.ssh/known_hosts.d/%k\n"
    ),
    "known hosts that keep nothing": (
        "Host gpu\n  HostName 10.0.0.5\n  UserKnownHostsFile /dev/null\n"
        "  StrictHostKeyChecking no\n"
    ),
    "an address as jump host": (
        "Host gpu\n  HostName 10.0.0.5\n  ProxyJump ssh://ops@edge.example:2222\n"
    ),
    "microsoft/vscode-remote-release#4393": (
        "Host gpu # thiS iS firsT serveR\n  Hostname 10.1.1.1\n  User user1\n"
        "  IdentityFile ~/.ssh/id_rsa\n# sepaRAted coMMent\nHost other # SECOND\n  User user2\n"
    ),
    "quantumsheep/sshs#121": (
        'Host *\n    UpdateHostKeys yes\nHost "XXX"\n  User root\n'
        "Host gpu                # Name of host\n    HostName 192.168.1.10    # Hostname\n"
        "    User YourCoolUsername      # Username\n"
    ),
    "scop/bash-completion#1199": "Include MORE missing .ssh/baz # do not include\n",
    "apache/mina-sshd#37": "Host\tgpu\n\tHostName\t10.0.0.7\n\tPort\t222\n",
    "paramiko/paramiko#184": (
        'Host "gpu" other\n  HostName "10.0.0.8"\n  IdentityFile "/keys of mine/%h \\"x\\""\n'
        "  IdentityFile /keys\\ of\\ ours/k\n"
    ),
    "mrdaemon/exosphere#340": (
        "Host gpu\n  IdentityFile %d/.ssh/%r@%k.ed25519\n  Hostname myproxy.example.com\n"
        "Match Host myproxy.*\n  IdentityFile %d/.ssh/%r@test2.ed25519\n"
    ),
    "openssh-portable regress/percent.sh": (
        "Host gpu\n  HostName 127.0.0.1\n  HostKeyAlias localhost-with-alias\n  User remuser\n"
        "  IdentityFile /%%/%i/%h/%d/%L/%l/%n/%p/%r/%u\n"
        "  UserKnownHostsFile /k/%%/%i/%h/%L/%l/%n/%p/%r/%u/%k ${HOME}/known\n"
    ),
    "openssh-portable regress/proxyjump.sh, forms": (
        "Host gpu\n  HostName 10.0.0.1\n  ProxyJump user1@jump1:2221,user2@jump2:2222\n"
    ),
    "openssh-portable regress/proxyjump.sh, none first": (
        "Host gpu\n  ProxyJump none\nHost *\n  ProxyJump jump1\n"
    ),
    "openssh-portable regress/proxyjump.sh, jump before command": (
        "Host gpu\n  ProxyJump jump1\nHost g*\n  ProxyCommand foo\n"
    ),
    "openssh-portable regress/cfginclude.sh, inside a block": (
        "Host other\n  Include OTHER\nHost gpu\n  Include MORE\n  User after\n"
    ),
    "openssh-portable regress/cfgmatch.sh, negation": (
        "Match !host other,far\n  User first\nMatch originalhost gpu user first\n  Port 77\n"
        "Host * !gpu\n  HostName never.example\n"
    ),
    "openssh-portable regress/cfgparse.sh, case": (
        "hOsT gpu\n  hostNAME 10.0.0.9\n  PoRt=0022\n".replace("0022", "22")
    ),
    "a list in which one hop has a way of its own": (
        "Host gpu\n  HostName 192.0.2.1\n  ProxyJump dev,jump\nHost jump\n  HostName 10.8.0.8\n"
        "  ProxyJump dev\nHost dev\n  HostName 203.0.113.9\n"
    ),
    "a chain": (
        "Host gpu\n  HostName 192.0.2.117\n  User u3\n  ProxyJump jump\nHost jump\n"
        "  HostName 10.8.0.8\n  User u2\n  ProxyJump dev\nHost dev\n  HostName 203.0.113.9\n"
        "  User u1\n"
    ),
    "tokens in a jump host": (
        "Host gpu\n  HostName 10.0.0.1\n  User ann\n  ProxyJump %r@gate.%h:2200,%n@second\n"
    ),
    "brackets": "Host gpu\n  HostName fd00::7\n  ProxyJump ops@[fd00::1]:2222\n",
    "carriage returns": "Host gpu\r\n  HostName 10.0.0.3\r\n  User ops\r\n",
    "none for keys": "Host gpu\n  IdentityFile none\n  IdentitiesOnly yes\n",
}

JUDGED: dict[str, str] = {
    # Conditions that OpenSSH alone can judge.
    "canonical/libssh#10": (
        "Match host 192.0.2.2\n    Tag test\nMatch tagged test\n    UserKnownHostsFile /dev/null\n"
        "    StrictHostKeyChecking no\n"
    ),
    "a tag that no host has": (
        "Match tagged scratch\n    UserKnownHostsFile /dev/null\n    StrictHostKeyChecking no\n"
        "    User root\nHost gpu\n  HostName 10.0.0.5\n"
    ),
    "ronf/asyncssh#624": (
        "Host gpu\n\tHostname localhost\n\tPort 2022\n\tTag allow_untrusted\n\n"
        "Match tagged allow_untrusted\n   \tUserKnownHostsFile /dev/null\n"
    ),
    "ronf/asyncssh#793": "Match localnetwork 203.0.113.0/24\n  ProxyJump inside\n  Port 99\n",
    "paramiko/paramiko#2494": "Host gpu\n  HostName 10.0.0.1\nMatch final all\n  User late\n",
    "paramiko/paramiko#1907": (
        "Host gpu\n    HostName finally.example.org\n    Port 1001\n\n"
        'Match final host "*.example.org" !host jump.example.org\n    ProxyJump jump\n'
        "    Port 1002\n"
    ),
    "cyjake/ssh-config#58": 'Match exec "test 1 = 2" host gpu\n  User never\n',
    "an exec that holds": 'Match host gpu exec "test 1 = 1"\n  User here\n  Port 1234\n',
    "a negated exec": 'Match !exec "false"\n  HostName 10.7.7.7\n',
    "alebeck/boring#20": (
        "Match final all\n\tGSSAPIAuthentication yes\n\tForwardX11Trusted yes\n\nHost gpu\n"
        "  HostName 10.1.2.3\n"
    ),
    "a canonical name": "Match canonical host gpu\n  User never\n",
    "a version": "Match version OpenSSH_1.*\n  User never\n",
}


def way(folder: Path, text: str, **given: object) -> tuple[Hop, ...]:
    """Return the way to `gpu` by a configuration."""
    (folder / "more").write_text("Host gpu\n  HostName 10.9.9.9\n  User included\n")
    (folder / "other").write_text("Host *\n  HostName 10.6.6.6\n")
    file = folder / "config"
    whole = text.replace("MORE", str(folder / "more")).replace("OTHER", str(folder / "other"))
    file.write_bytes(whole.encode())
    host = HostEntry("it", "gpu", **given)  # type: ignore[arg-type]
    return route(host, Inventory("hosts.toml", (host,)), file)


def answer(folder: Path, name: str = "gpu") -> dict[str, list[str]]:
    """Return what `ssh -G` says, line by line."""
    argv = [SSH, "-F", str(folder / "config"), "-G", name]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        option, _, value = line.partition(" ")
        found.setdefault(option, []).append(value)
    return found


def agrees(hops: tuple[Hop, ...], said: dict[str, list[str]]) -> None:
    """Hold the last hop against the answer of OpenSSH."""
    last = hops[-1]
    assert [last.address, last.user, str(last.port)] == [
        said[option][0] for option in ("hostname", "user", "port")
    ]
    kept = [name for name in said["userknownhostsfile"][0].split() if name != "/dev/null"]
    assert last.keeps_keys is bool(kept)
    if "known_hosts2" not in said["userknownhostsfile"][0]:
        assert [str(path) for path in last.known_hosts[: len(kept)]] == kept
    assert (len(hops) > 1) is ("proxyjump" in said)


@with_openssh
@pytest.mark.parametrize("name", [*READ, *JUDGED])
def test_what_openssh_says_is_taken(tmp_path: Path, name: str) -> None:
    text = {**READ, **JUDGED}[name]
    try:
        hops = way(tmp_path, text)
    except BadInputError as error:
        # This version of OpenSSH does not know the condition; its user is told in its words.
        assert "Bad" in str(error) or "bad" in str(error)
        assert name not in READ
        return
    agrees(hops, answer(tmp_path))


@pytest.mark.parametrize("name", READ)
def test_the_reader_without_openssh_takes_it_too(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = way(tmp_path, READ[name]) if SSH else None
    monkeypatch.setenv("PATH", without_openssh(tmp_path / "bin"))
    read = way(tmp_path, READ[name])
    assert asked is None or read == asked


@pytest.mark.parametrize("name", JUDGED)
def test_without_openssh_a_condition_that_it_alone_can_judge_never_applies(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", without_openssh(tmp_path / "bin"))
    with pytest.raises(BadInputError, match=r"OpenSSH|not supported") as caught:
        way(tmp_path, JUDGED[name])
    assert "config line" in str(caught.value)
    whole = {
        "user": "ops", "port": 22, "key": "/k", "jump": "none", "known_hosts": "/known",
    }  # fmt: skip
    (hop,) = way(tmp_path, JUDGED[name], **whole)
    assert (hop.user, hop.port, hop.known_hosts) == ("ops", 22, (Path("/known"),))


def test_only_what_a_host_leaves_open_can_be_unclear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Match tagged scratch\n  User root\n  IdentityFile /scratch\nHost gpu\n  Port 7\n"
    monkeypatch.setenv("PATH", without_openssh(tmp_path / "bin"))
    (hop,) = way(tmp_path, text, user="ops", key="/k")
    assert (hop.user, hop.port, hop.keys) == ("ops", 7, (Path("/k"),))
    with pytest.raises(BadInputError, match="identityfile"):
        way(tmp_path, text, user="ops")


def test_literal_values(tmp_path: Path) -> None:
    home = Path.home()
    (hop,) = way(tmp_path, READ["comments after values"])
    assert (hop.address, hop.user, hop.port) == ("10.0.0.5", "ops", 22)
    assert hop.keys == (home / ".ssh/lab_key",)
    (hop,) = way(tmp_path, READ["paramiko/paramiko#184"])
    assert hop.keys == (Path('/keys of mine/10.0.0.8 "x"'), Path("/keys of ours/k"))
    (hop,) = way(tmp_path, READ["openssh-portable regress/percent.sh"])
    name, user = socket.gethostname(), getpass.getuser()
    short, uid = name.partition(".")[0], os.getuid()
    assert hop.keys == (
        Path(f"/%/{uid}/127.0.0.1/{home}/{short}/{name}/gpu/22/remuser/{user}"),
    )  # fmt: skip
    assert hop.known_as == "localhost-with-alias"
    assert hop.known_hosts[:2] == (
        Path(f"/k/%/{uid}/127.0.0.1/{short}/{name}/gpu/22/remuser/{user}/localhost-with-alias"),
        home / "known",
    )
    hops = way(tmp_path, READ["a list in which one hop has a way of its own"])
    assert [hop.address for hop in hops] == ["203.0.113.9", "10.8.0.8", "192.0.2.1"]
    first, _ = way(tmp_path, READ["an address as jump host"])
    assert (first.user, first.address, first.port) == ("ops", "edge.example", 2222)
    gate, second, _ = way(tmp_path, READ["tokens in a jump host"])
    assert (gate.user, gate.address, gate.port) == ("ann", "gate.10.0.0.1", 2200)
    assert (second.user, second.address) == ("gpu", "second")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a", [Jump("a")]),
        ("u@a:2,ssh://v%2Bw@b", [Jump("a", "u", 2), Jump("b", "v+w")]),
        ("me@domain@a", [Jump("a", "me@domain")]),
        ("[fd00::1]:22", [Jump("fd00::1", None, 22)]),
        ("ssh://a:22/", [Jump("a", None, 22)]),
        ("NONE", []),
    ],
)
def test_lists_of_jumps(text: str, found: list[Jump]) -> None:
    assert list(jumps(text)) == found


@pytest.mark.parametrize(
    "text", ["", "a,", "a:0", "a:70000", "fd00::1", "-oProxyCommand=x", "a;b", "u@", "@a", "a b",
             "ssh://a/b", "ssh://u:p@a", "-l@a", "$(a)", "ssh://v%20w@b"],
)  # fmt: skip
def test_what_is_no_jump_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"jump host|no user"):
        jumps(text)


@pytest.mark.parametrize("text", ['Host "a', "Port", "?? x", 'IdentityFile "a" "b', "User #x"])
def test_lines_that_openssh_refuses_are_refused(text: str) -> None:
    with pytest.raises(WordsError, match="here: "):
        read_line(text, "here")
