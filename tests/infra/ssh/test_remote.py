"""One host over SSH, against real sshd processes: what is run, sent, started, and lost."""

import hashlib
import logging
import os
import re
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from infra.remote import (
    DeadlineError,
    Detached,
    LinkLostError,
    LoginRefusedError,
    RemoteError,
    TransferError,
    UnreachableError,
    UntrustedHostError,
)
from infra.ssh.config import route
from infra.ssh.login import host_key
from infra.ssh.remote import SshRemote
from tests.infra.ssh.lan import INNER, QUICK, Lan, Node, make_key
from tests.infra.trees import wait_until
from tests.patience import GIVE_UP_S

pytestmark = pytest.mark.slow

NO_CONFIG = Path("/dev/null")
_SIZE = 20_000_000


def remote(lan: Lan, name: str = "gpu1", **changes: object) -> SshRemote:
    """Return a host of the network, not connected yet."""
    inventory = lan.inventory({name: changes})
    return SshRemote.to(inventory.host(name), inventory, NO_CONFIG)


@pytest.fixture
def host(lan: Lan) -> Iterator[SshRemote]:
    """Lend a host of the network."""
    with closing(remote(lan)) as made:
        yield made


@contextmanager
def cut_once(
    node: Node, begun: Callable[[], object], seen: Callable[[], object] | None = None
) -> Iterator[None]:
    """Lose a host's cable once something is going on, until somebody has seen it, or to the end."""
    over = threading.Event()

    def happens(what: Callable[[], object]) -> bool:
        while not (come := bool(what())) and not over.wait(0.02):
            pass
        return come

    def work() -> None:
        if happens(begun):
            node.cut()
            happens(seen or over.is_set)
            node.mend()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_command_runs_without_a_shell_of_the_user(host: SshRemote, lan: Lan) -> None:
    done = host.run(
        ["sh", "-c", 'echo "$A $0 $1"; echo err >&2; exit 3', "x y", "it's"], {"A": "b"}
    )
    assert (done.code, done.stdout, done.stderr) == (3, b"b x y it's\n", b"err\n")
    assert done.complaint == "err"
    assert host.run(["pwd"], cwd="/usr").text == "/usr\n"
    assert host.run(["cat"], stdin=b"x" * 3_000_000).stdout == b"x" * 3_000_000
    assert host.run(["sh", "-c", "kill -9 $$"]).code == -1
    assert host.home() == str(lan["gpu1"].home)


def test_much_output_is_drained_from_both_streams(host: SshRemote) -> None:
    # Either alone fills its window many times over.
    words = ["sh", "-c", "head -c 10485760 /dev/zero >&2; head -c 10485760 /dev/zero; exit 5"]
    done = host.run(words)
    assert (done.code, len(done.stdout), len(done.stderr)) == (5, 10 << 20, 10 << 20)
    assert not done.truncated


def test_a_deadline_ends_the_command_there_as_well(host: SshRemote, lan: Lan) -> None:
    with pytest.raises(DeadlineError, match="was not done within"):
        host.run(["sleep", "3217"], deadline_s=1.0)
    wait_until(lambda: "3217" not in words_of(lan["gpu1"]), "the end of the command")


def words_of(node: Node) -> set[str]:
    """Return all words of all command lines there."""
    found = set[str]()
    for pid in node.pids():
        try:
            found |= set(psutil.Process(pid).cmdline())
        except psutil.Error:
            continue
    return found


def test_hidden_variables_stand_in_no_list_of_processes(host: SshRemote, lan: Lan) -> None:
    seen: list[str] = []
    enough = threading.Event()

    def look() -> None:
        while not enough.is_set():
            seen.extend(word for word in words_of(lan["gpu1"]) if "s3cr3t" in word)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        done = host.run(["sh", "-c", "sleep 0.3; echo $TOKEN"], hidden={"TOKEN": "s3cr3t"})
    finally:
        enough.set()
        thread.join()
    assert done.text == "s3cr3t\n"
    assert seen == []


def test_a_password_prompt_of_sudo_ends_at_once(host: SshRemote, tmp_path: Path) -> None:
    # A sudo that asks finds no terminal and an empty input.
    sudo = tmp_path / "sudo"
    sudo.write_text("#!/bin/sh\n[ \"$1\" = -n ] && { echo 'a password is required' >&2; exit 1; }\n"
                    "read -r answer </dev/stdin || exit 1\n")  # fmt: skip
    sudo.chmod(0o755)
    done = host.run([str(sudo), "-n", "true"], deadline_s=5)
    assert (done.code, done.complaint) == (1, "a password is required")
    assert host.run([str(sudo), "true"], deadline_s=5).code == 1


def test_a_detached_program_outlives_the_connection(lan: Lan, tmp_path: Path) -> None:
    log = tmp_path / "deep/log"
    with closing(remote(lan)) as first:
        code = "import os, time; print(os.getsid(0) == os.getpid(), flush=True); time.sleep(600)"
        words = [lan["gpu1"].entry().python or "", "-I", "-S", "-c", code]
        process = first.start(words, {"X": "1"}, log_path=str(log), cwd=str(tmp_path))
    # The connection was closed at once.
    with closing(remote(lan)) as second:
        wait_until(lambda: log.exists() and log.read_text(), "the log")
        assert log.read_text() == "True\n"
        assert second.is_running(process)
        assert Path(f"/proc/{process.pid}/cwd").resolve() == tmp_path
        other = Detached(process.pid, process.started_ticks + 1, process.boot_id)
        assert not second.is_running(other)
        assert not second.is_running(Detached(process.pid, process.started_ticks, "before"))
        assert not second.signal(other, signal.SIGKILL)
        assert second.signal(process, signal.SIGTERM)
        wait_until(lambda: not second.is_running(process), "the end")
        assert not second.signal(process, signal.SIGTERM)


@pytest.mark.parametrize("program", ["/not/there", "nosuchprogram", "/tmp"])
def test_what_cannot_be_started_detached_is_an_error(
    host: SshRemote, tmp_path: Path, program: str
) -> None:
    with pytest.raises(RemoteError, match=f"{program} could not be started on gpu1"):
        host.start([program], log_path=str(tmp_path / "log"))


def test_a_stream_is_talked_to(host: SshRemote) -> None:
    with host.open(["cat"]) as stream:
        stream.write(b"one\n", 10)
        assert stream.read(10) == b"one\n"
        assert stream.read(0.05) is None
        stream.end_input()
        assert stream.read(10) == b""
        assert stream.exit_code(10) == 0


def test_a_stream_that_nobody_reads_does_not_hang_its_writer(host: SshRemote) -> None:
    with host.open(["sleep", "30"]) as stream, pytest.raises(DeadlineError, match="took no input"):
        stream.write(b"x" * (8 << 20), 1.0)


def test_files_arrive_whole_and_unchanged_ones_are_not_sent(
    host: SshRemote, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "a b/it's/there"
    # Far more than all requests that may be under way at once.
    here.write_bytes(os.urandom(_SIZE))
    told: list[tuple[int, int]] = []
    assert host.put(here, str(there), mode=0o600, progress=lambda *at: told.append(at))
    assert there.read_bytes() == here.read_bytes()
    assert there.stat().st_mode & 0o777 == 0o600
    assert told[-1] == (_SIZE, _SIZE)
    assert told == sorted(told)  # it never began anew
    assert not host.put(here, str(there), mode=0o640)
    assert there.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in there.parent.iterdir()] == ["there"]
    back = tmp_path / "back"
    host.get(str(there), back)
    assert back.read_bytes() == here.read_bytes()
    assert [str(file.path) for file in host.files(str(tmp_path / "a b"))] == ["it's/there"]
    assert host.files(str(tmp_path / "none")) == []
    assert host.read(str(there), _SIZE - 10) == here.read_bytes()[-10:]
    assert host.read(str(there), _SIZE) == b""
    host.write(str(tmp_path / "w"), b"small")
    assert (tmp_path / "w").read_bytes() == b"small"
    with pytest.raises(FileNotFoundError):
        host.read(str(tmp_path / "none"))
    with pytest.raises(TransferError):
        host.write("/proc/none/x", b"")


def test_a_broken_transfer_is_continued(host: SshRemote, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.write_bytes(os.urandom(1 << 20))
    digest = hashlib.sha256(here.read_bytes()).hexdigest()[:16]
    half = here.read_bytes()[: 1 << 19]
    (tmp_path / f".there.{digest}.part").write_bytes(half)
    told: list[int] = []
    assert host.put(here, str(there), progress=lambda done, _: told.append(done))
    assert told[0] > 1 << 19
    assert there.read_bytes() == here.read_bytes()
    (tmp_path / f".back.{digest}.part").write_bytes(half)
    told.clear()
    host.get(str(there), tmp_path / "back", progress=lambda done, _: told.append(done))
    assert told[0] > 1 << 19
    assert (tmp_path / "back").read_bytes() == here.read_bytes()


def test_a_broken_transfer_that_was_damaged_is_not_taken(host: SshRemote, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.write_bytes(b"good" * 1000)
    digest = hashlib.sha256(here.read_bytes()).hexdigest()[:16]
    (tmp_path / f".there.{digest}.part").write_bytes(b"bad!" * 500)
    with pytest.raises(TransferError, match="did not arrive as it was sent"):
        host.put(here, str(there))
    assert not there.exists()
    assert host.put(here, str(there))


def test_a_transfer_over_a_slow_link_survives_a_cut(
    lan: Lan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "infra.ssh.remote")
    here, there = tmp_path / "here", tmp_path / "there"
    here.write_bytes(os.urandom(600_000))
    node = lan["gpu2"]
    told: list[int] = []
    limits = replace(QUICK, keepalive_s=0.5, lost_after_s=2.5)
    with node.slow(2000), closing(remote(lan, "gpu2", limits=limits)) as host:
        host.run(["true"])
        caplog.clear()
        half = lambda: told and told[-1] > 200_000  # noqa: E731
        with cut_once(node, half, lambda: "again in" in caplog.text):
            assert host.put(here, str(there), progress=lambda done, _: told.append(done))
    assert there.read_bytes() == here.read_bytes()
    # It went on from where it was, and did not begin anew.
    again = [now for before, now in pairwise(told) if now < before]
    assert again
    assert all(done > 1 << 15 for done in again)


def test_a_lost_link_is_told_and_made_again(lan: Lan) -> None:
    node = lan["gpu2"]
    limits = replace(QUICK, keepalive_s=0.5, lost_after_s=2.5)
    with closing(remote(lan, "gpu2", limits=limits)) as host:
        assert host.run(["echo", "1"]).text == "1\n"
        # By the keep-alive, and not by the deadline: nothing else can see dropped packets.
        with (
            cut_once(node, lambda: "3218" in words_of(node)),
            pytest.raises(LinkLostError, match="gpu2: the link ended under sleep"),
        ):
            host.run(["sleep", "3218"], deadline_s=GIVE_UP_S)
        assert host.run(["echo", "2"]).text == "2\n"


def test_a_repeatable_command_is_run_again(
    lan: Lan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node, runs = lan["gpu2"], tmp_path / "runs"
    limits = replace(QUICK, keepalive_s=0.5, lost_after_s=2.5)
    caplog.set_level(logging.INFO, "infra.ssh.remote")
    with closing(remote(lan, "gpu2", limits=limits)) as host:
        host.run(["true"])
        # The first one waits for ever, and ends with its connection.
        code = f"[ -e {runs} ] && s=0 || s=3219; echo run >>{runs}; sleep $s; echo done"
        words = ["sh", "-c", code]
        with cut_once(node, lambda: "3219" in words_of(node), lambda: "again" in caplog.text):
            assert host.run(words, repeatable=True, deadline_s=GIVE_UP_S).text == "done\n"
    assert runs.read_text().count("run") >= 2


def test_an_idle_connection_survives_a_short_cut(lan: Lan) -> None:
    node = lan["gpu2"]
    with closing(remote(lan, "gpu2")) as host, host.open(["cat"]) as stream:
        node.cut()
        try:
            time.sleep(1.0)
        finally:
            node.mend()
        stream.write(b"still", 20)
        assert stream.read(20) == b"still"


def test_a_host_behind_a_bastion_is_reached(lan: Lan, tmp_path: Path) -> None:
    inner = lan[INNER]
    with pytest.raises(OSError, match=r"unreachable|No route"):
        socket.create_connection((inner.address, 2022), 0.5)
    with closing(remote(lan, INNER)) as host:
        assert inner.address in host.run(["hostname", "-I"]).text
        here = tmp_path / "here"
        here.write_bytes(b"x" * 100_000)
        assert host.put(here, str(tmp_path / "there"))


def test_a_bastion_that_does_not_know_the_host_says_so(lan: Lan) -> None:
    with pytest.raises(UnreachableError, match=r"inner .*cannot be reached"):
        remote(lan, INNER, port=2023).run(["true"])


def test_a_tunnel_carries_connections(lan: Lan, tmp_path: Path) -> None:
    (tmp_path / "page").write_text("x" * 500_000)
    with closing(remote(lan, INNER)) as host:
        python = lan[INNER].entry().python or ""
        words = [python, "-u", "-m", "http.server", "--bind", "127.0.0.1", "8000"]
        log = tmp_path / "log"
        server = host.start(words, log_path=str(log), cwd=str(tmp_path))
        wait_until(lambda: "Serving" in log.read_text(), "the server")
        try:
            with host.forward(8000) as port:
                for _ in range(3):
                    with urllib.request.urlopen(
                        f"http://127.0.0.1:{port}/page", timeout=30
                    ) as page:
                        assert len(page.read()) == 500_000
            with pytest.raises(OSError, match="refused"):
                socket.create_connection(("127.0.0.1", port), 5)
        finally:
            assert host.signal(server, signal.SIGKILL)


def test_many_callers_share_one_connection(host: SshRemote) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(host.run(["echo", str(n)]).text))
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, found)) == list(range(20))


def test_each_fault_of_a_login_has_its_own_message(lan: Lan, tmp_path: Path) -> None:
    stranger = make_key(tmp_path / "stranger")
    with pytest.raises(LoginRefusedError, match=r"stranger \(ssh-ed25519 SHA256.*not authorised"):
        remote(lan, key=str(stranger)).run(["true"])
    encrypted = make_key(tmp_path / "encrypted", "-t", "ed25519", "-N", "secret")
    with pytest.raises(LoginRefusedError, match="it is encrypted"):
        remote(lan, key=str(encrypted)).run(["true"])
    with pytest.raises(LoginRefusedError, match="No such file"):
        remote(lan, key=str(tmp_path / "none")).run(["true"])
    with pytest.raises(UnreachableError, match="cannot be reached"):
        remote(lan, port=2023).run(["true"])


def test_a_server_that_takes_no_files_is_told_of_at_once(lan: Lan) -> None:
    node = lan["gpu3"]
    config = node.folder / "config"
    text = config.read_text()
    without = text.replace("Subsystem sftp internal-sftp\n", "")
    assert without != text
    try:
        node.stop()
        config.write_text(without)
        node.start()
        wait_until(node.is_answering, "its sshd")
        with closing(remote(lan, "gpu3")) as host:
            with pytest.raises(TransferError, match=r"gpu3.*Subsystem sftp"):
                host.write("/tmp/never", b"")
            assert host.run(["true"]).code == 0, "the connection is still used"
    finally:
        node.stop()
        config.write_text(text)
        node.start()
        wait_until(node.is_answering, "its sshd again")


def test_an_rsa_key_logs_in(lan: Lan, tmp_path: Path) -> None:
    node = lan["gpu3"]
    key = make_key(tmp_path / "rsa", "-t", "rsa", "-b", "2048", "-N", "")
    node.authorize(Path(f"{key}.pub"))
    try:
        with closing(remote(lan, "gpu3", key=str(key))) as host:
            assert host.run(["true"]).code == 0
    finally:
        node.authorize()


def test_host_keys_are_strict(lan: Lan, tmp_path: Path) -> None:
    node = lan["gpu3"]
    nobody = tmp_path / "known_hosts"
    inventory = lan.inventory({"gpu3": {"known_hosts": str(nobody)}})
    shown = host_key(route(inventory.host("gpu3"), inventory, NO_CONFIG))
    assert shown.place == f"[{node.address}]:2022"
    with pytest.raises(UntrustedHostError, match=re.escape(shown.fingerprint)):
        remote(lan, "gpu3", known_hosts=str(nobody)).run(["true"])
    assert not nobody.exists()
    node.change_host_key()
    wait_until(node.is_answering, "the sshd")
    with pytest.raises(UntrustedHostError) as caught:
        remote(lan, "gpu3").run(["true"])
    assert "shows another key than before" in str(caught.value)
    assert shown.fingerprint in str(caught.value)
    changed = host_key(route(inventory.host("gpu3"), inventory, NO_CONFIG))
    assert changed.fingerprint in str(caught.value)
    node.known_hosts.write_text(changed.line)
    with closing(remote(lan, "gpu3")) as host:
        assert host.run(["true"]).code == 0
