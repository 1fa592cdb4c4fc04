"""An SSH configuration is read as OpenSSH reads it, or refused for the host at hand.

The random configurations hold all ways of writing; what the real client does with each is what is
right. The reader without OpenSSH gives the same, or says that it cannot know.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from infra.inventory import HostEntry, Inventory, load_inventory
from infra.remote import UnreachableError, UntrustedHostError
from infra.ssh import openssh
from infra.ssh.config import Hop, route
from infra.ssh.keys import agent_keys
from infra.ssh.login import connect, host_key
from infra.ssh.remote import SshRemote
from orchestrator.hosts.reaching import look_at
from orchestrator.hosts.trusting import trust_host
from sweeps.problems import BadInputError
from tests.infra.ssh.configurations import (
    NAMES,
    banner_servers,
    configuration,
    seen_way,
    without_openssh,
)
from tests.infra.ssh.lan import make_key
from tests.infra.ssh.loopback import USER, running
from tests.infra.trees import wait_until

SSH = shutil.which("ssh") or ""
CONFIGURATIONS = 220
pytestmark = pytest.mark.skipif(not SSH, reason="OpenSSH's client is not installed")


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, ...]]:
    with banner_servers(2) as found:
        yield found


def way(file: Path, name: str, **given: object) -> tuple[Hop, ...]:
    host = HostEntry("it", name, **given)  # type: ignore[arg-type]
    return route(host, Inventory("hosts.toml", (host,)), file)


def written(seed: int, folder: Path, ports: tuple[int, ...]) -> Path:
    made = configuration(seed, ports, folder / "more")
    (folder / "more").write_text(made.included)
    file = folder / "config"
    file.write_bytes(made.text.encode())
    return file


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_our_way_is_the_one_that_ssh_takes(tmp_path: Path, ports: tuple[int, ...]) -> None:
    several_hops = 0
    for seed in range(CONFIGURATIONS):
        file = written(seed, tmp_path, ports)
        name = NAMES[seed % len(NAMES)]
        hops = way(file, name)
        seen = seen_way(SSH, file, name)
        note = f"seed {seed}, {name}:\n{file.read_text()}"
        assert [(hop.address, hop.port) for hop in hops] == list(seen.places), note
        assert hops[0].user == seen.first_user, note
        several_hops += len(hops) > 1
        if len(hops) == 1 and "identityfile" in file.read_text().lower():
            usual = {str(Path(f"~/.ssh/{key}").expanduser()) for key in ("id_rsa", "id_ed25519")}
            if not usual & set(seen.identities):
                assert tuple(map(str, hops[0].keys)) == seen.identities, note
    assert several_hops > CONFIGURATIONS / 5


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_reader_without_openssh_agrees_or_refuses(
    tmp_path: Path, ports: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = without_openssh(tmp_path / "bin")
    agreed = 0
    for seed in range(CONFIGURATIONS):
        file = written(seed, tmp_path, ports)
        name = NAMES[seed % len(NAMES)]
        given = {"user": "given"} if seed % 3 == 0 else {}
        asked = way(file, name, **given)
        with monkeypatch.context() as patch:
            patch.setenv("PATH", nowhere)
            try:
                read = way(file, name, **given)
            except BadInputError:
                continue
        assert read == asked, f"seed {seed}, {name}:\n{file.read_text()}"
        agreed += 1
    assert agreed > CONFIGURATIONS / 4


@pytest.mark.slow
def test_a_chain_of_real_servers_is_gone_as_ssh_goes_it(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second", "third")]
    for folder in folders:
        folder.mkdir()
    with ExitStack() as stack:
        first, second, third = [stack.enter_context(running(folder)) for folder in folders]
        known = tmp_path / "known hosts"
        files = [one.folder / "known_hosts" for one in (first, second, third)]
        known.write_text("".join(path.read_text() for path in files))
        file = tmp_path / "config"
        file.write_text(
            f"Host gpu\n HostName 127.0.0.1\n Port {third.port} # the last\n"
            f" ProxyJump %r@edge:{first.port},ssh://middle\n IdentityFile {third.key_path}\n"
            f"Host edge\n HostName=127.0.0.1\n Port 9\n IdentityFile\t'{first.key_path}'\n"
            f"Host middle\n HostName 127.0.0.1\n Port {second.port}\n ProxyJump nowhere\n"
            f' IdentityFile "{second.key_path}"\n'
            f'Host *\n UserKnownHostsFile "{known}"\n IdentitiesOnly yes\n BatchMode yes\n'
            f" User {USER}\n"
        )
        argv = [SSH, "-v", "-F", str(file), "gpu", "echo reached"]
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90
        )
        assert done.stdout == "reached\n", done.stderr
        gone = re.findall(r"Authenticated to ", done.stderr)
        hops = way(file, "gpu")
        assert [hop.port for hop in hops] == [first.port, second.port, third.port]
        assert len(gone) == len(hops)
        with closing(SshRemote("gpu", hops)) as remote:
            assert remote.run(["echo", "reached"]).text == "reached\n"


def test_only_the_allowed_algorithms_are_offered(tmp_path: Path) -> None:
    file = tmp_path / "config"
    with running(tmp_path) as sshd:
        common = (
            f"HostName 127.0.0.1\nPort {sshd.port}\nUser {USER}\nIdentityFile {sshd.key_path}\n"
            f"UserKnownHostsFile {sshd.folder}/known_hosts\n"
        )
        file.write_text(f"{common}Ciphers aes256-ctr\nMACs hmac-sha2-512\n")
        connection = connect(way(file, "gpu"))
        with closing(connection):
            chosen = vars(connection.last)
            assert (chosen["remote_cipher"], chosen["remote_mac"]) == (
                "aes256-ctr", "hmac-sha2-512",
            )  # fmt: skip
        file.write_text(f"{common}Ciphers chacha20-poly1305@openssh.com\n")
        with pytest.raises(UnreachableError, match="`ciphers`"):
            connect(way(file, "gpu"))


def test_a_program_is_run_only_for_whom_ssh_would_run_it(tmp_path: Path) -> None:
    file, mark = tmp_path / "config", tmp_path / "ran"
    file.write_text(f'Match originalhost gpu exec "touch {mark}"\n  Port 77\n')
    file.chmod(0o644)
    way(file, "other")
    assert not mark.exists()
    assert way(file, "gpu")[0].port == 77
    assert mark.exists()
    mark.unlink()
    file.chmod(0o666)
    with pytest.raises(BadInputError, match="chmod go-w"):
        way(file, "gpu")
    assert not mark.exists()
    # A host that needs nothing of that file is not held up by it.
    whole = {"user": "u", "port": 5, "key": "/k", "known_hosts": "/n", "jump": "none"}
    assert way(file, "gpu", **whole)[0].port == 5
    assert not mark.exists()


@pytest.mark.parametrize(
    "address",
    [
        "-oProxyCommand=touch RAN",
        "a;touch RAN",
        "$(touch RAN)",
        "`touch RAN`",
        "u@a",
        "a b",
        "a\nb",
    ],
)
def test_an_address_is_never_a_command_or_an_option(tmp_path: Path, address: str) -> None:
    mark = tmp_path / "ran"
    file = tmp_path / "config"
    file.write_text('Match exec "echo %h"\n  Port 77\n')
    with pytest.raises(BadInputError, match="no host can be called so"):
        way(file, address.replace("RAN", str(mark)))
    assert not mark.exists()


def test_the_mends_that_are_named_work(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("Host gpu\n  ProxyCommand nc %h %p\n")
    with pytest.raises(BadInputError, match="jump"):
        way(file, "gpu")
    assert len(way(file, "gpu", jump="edge")) == 2
    file.write_text("Match sideways x\n  User u\n")
    with pytest.raises(BadInputError, match="give port, key, jump, known_hosts for this host"):
        way(file, "gpu", user="u")
    whole = {"user": "u", "port": 5, "agent": True, "known_hosts": "/n", "jump": "none"}
    assert way(file, "gpu", **whole)[0].agent


def test_a_hanging_condition_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openssh, "ASK_S", 2.0)
    file = tmp_path / "config"
    told = tmp_path / "pid"
    file.write_text(f'Match exec "echo $$ > {told}; exec sleep 3600"\n  Port 77\n')
    with pytest.raises(BadInputError, match="no answer within 2 s"):
        way(file, "gpu")
    pid = int(told.read_text())
    wait_until(lambda: not Path(f"/proc/{pid}/cmdline").exists(), "the end of the condition")


def test_home_decides_which_file_is_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text("Host gpu\n  Port 77\n  IdentityFile ~/k\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    host = HostEntry("it", "gpu")
    (hop,) = route(host, Inventory("hosts.toml", (host,)))
    assert (hop.port, hop.keys) == (77, (tmp_path / "k",))
    assert hop.known_hosts[0] == tmp_path / ".ssh/known_hosts"


def test_the_agent_that_is_named_is_asked(tmp_path: Path) -> None:
    key, at = make_key(tmp_path / "key"), tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(at)], stdout=subprocess.DEVNULL)
    try:
        wait_until(at.exists, "the agent")
        subprocess.run(["ssh-add", "-q", str(key)], env={"SSH_AUTH_SOCK": str(at)}, check=True)
        file = tmp_path / "config"
        file.write_text(f"IdentityFile none\nIdentityAgent {at}\n")
        (hop,) = way(file, "gpu")
        assert hop.agent_socket == at
        assert len(agent_keys(hop.agent_socket)) == 1
        file.write_text("IdentityAgent none\n")
        assert not way(file, "gpu")[0].agent
    finally:
        agent.terminate()
        agent.wait()


def test_a_key_that_no_file_keeps_is_not_said_to_be_trusted(tmp_path: Path) -> None:
    with running(tmp_path) as sshd:
        file, inventory = tmp_path / "ssh_config", tmp_path / "hosts.toml"
        file.write_text(
            f"Host gpu\n  HostName 127.0.0.1\n  Port {sshd.port}\n"
            "  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n"
        )
        table = '[hosts.rack]\naddress = "gpu"\n'
        inventory.write_text(table)
        (hop,) = route(load_inventory(inventory).host("rack"), load_inventory(inventory), file)
        key = host_key((hop,))
        with pytest.raises(BadInputError, match="host keys are strict") as caught:
            trust_host("rack", inventory, key.fingerprint, lambda _: True, file)
        with pytest.raises(UntrustedHostError, match="known_hosts"):
            connect((hop,))
        (line,) = re.findall(r"`(known_hosts = .*?)`", str(caught.value))
        inventory.write_text(f"{table}{line}\n".replace("~/.ssh", str(tmp_path / "trusted")))
        trust_host("rack", inventory, key.fingerprint, lambda _: True, file)
        assert key.line in (tmp_path / "trusted/known_hosts").read_text()
        # What the inventory names itself may keep nothing either.
        inventory.write_text(f'{table}known_hosts = "/dev/null"\n')
        with pytest.raises(BadInputError, match="host keys are strict"):
            trust_host("rack", inventory, key.fingerprint, lambda _: True, file)


def test_a_way_that_is_unclear_is_told_for_its_host_alone(tmp_path: Path) -> None:
    with running(tmp_path) as sshd:
        file = tmp_path / "ssh_config"
        file.write_text("Host odd\n  ProxyCommand nc %h %p\n")
        good = HostEntry(
            "good", "127.0.0.1", USER, sshd.port, str(sshd.key_path), python=sys.executable,
            known_hosts=str(sshd.folder / "known_hosts"), folder=str(tmp_path / "ours"),
        )  # fmt: skip
        odd = HostEntry("odd", "odd")
        inventory = Inventory("hosts.toml", (good, odd))
        first, second = look_at([good, odd], inventory, file)
        assert first.trouble == ""
        assert "proxycommand" in second.trouble
        with pytest.raises(BadInputError, match="proxycommand"):
            look_at([odd], inventory, file)
