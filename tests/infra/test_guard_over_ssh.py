"""The guard at the end of an SSH connection, with a real sshd, and what a lost connection ends."""

import select
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
import psutil
import pytest

from infra import guard, reaper
from infra.reaper import find_tagged
from tests.infra.ssh.loopback import USER, Sshd, sshd
from tests.infra.trees import SIZE, python, tree_command, wait_ready, wait_until

__all__ = ["sshd"]

pytestmark = pytest.mark.slow

LEASE_S = 4.0
"""Long enough for a sign of life that a busy machine delays."""
_BEATS = 5


def connect(sshd: Sshd, port: int | None = None) -> paramiko.SSHClient:
    """Return a connection, directly or through another port. The caller closes."""
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    client.connect(
        "127.0.0.1", port or sshd.port, USER, key_filename=str(sshd.key_path),
        look_for_keys=False, allow_agent=False, timeout=20,
    )  # fmt: skip
    return client


@dataclass(slots=True)
class DroppingProxy:
    """Passes bytes on until it is cut; then it is silent to both sides, and closes nothing."""

    target: int
    port: int = 0
    _cut: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)

    def cut(self) -> None:
        """Lose the network."""
        self._cut.set()

    @contextmanager
    def running(self) -> Iterator["DroppingProxy"]:
        """Serve one connection."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            thread = threading.Thread(target=self._serve, args=(listener,))
            thread.start()
            try:
                yield self
            finally:
                self._ended.set()
                thread.join()

    def _serve(self, listener: socket.socket) -> None:
        near, _ = listener.accept()
        with near, socket.create_connection(("127.0.0.1", self.target)) as far:
            other = {near: far, far: near}
            while not self._ended.is_set():
                ready, _, _ = select.select(list(other), [], [], 0.05)
                for side in ready if not self._cut.is_set() else ():
                    data = side.recv(1 << 16)
                    if not data:
                        return
                    other[side].sendall(data)
                if self._cut.is_set():
                    self._ended.wait(0.05)


def guard_line(sweep: str, *options: str) -> str:
    """Return the remote command of a guard; nothing in it needs quoting."""
    tags = {**reaper.tags(sweep, "t1"), reaper.GUARD_TAG: "1"}
    words = [f"{name}={value}" for name, value in tags.items()]
    return " ".join(["exec", "env", *words, sys.executable, "-I", "-S", guard.__file__, *options])


def spec_line(sweep: str, log_path: Path, *, lease_s: float) -> bytes:
    """Return the spec of a tree with a detached process."""
    command = tree_command("setsid", sweep, log_path)
    return guard.spec_line(
        guard.Spec(
            command.argv, reaper.tags(sweep, "t1"), "/", str(log_path), grace_s=0.3, lease_s=lease_s
        )
    )


@dataclass(slots=True)
class Remote:
    """The owner's end of a remote guard."""

    stdin: paramiko.ChannelFile
    stdout: paramiko.ChannelFile

    def order(self, line: bytes) -> None:
        """Send a line."""
        self.stdin.write(line)
        self.stdin.flush()

    def started(self) -> tuple[int, int]:
        """Wait for the server; return its pid and its guard's."""
        words = self.stdout.readline().split()
        assert words[0] == "started", words
        return int(words[1]), int(words[2])


def start(client: paramiko.SSHClient, line: str) -> Remote:
    """Start a guard over a channel without a terminal."""
    stdin, stdout, _ = client.exec_command(line, timeout=30)
    return Remote(stdin, stdout)


def test_a_stop_order_goes_over_the_wire(sshd: Sshd, sweep: str, tmp_path: Path) -> None:
    with closing(connect(sshd)) as client:
        remote = start(client, guard_line(sweep, guard.ATTACHED))
        remote.order(spec_line(sweep, tmp_path / "log", lease_s=60))
        remote.started()
        wait_ready(tmp_path / "log")
        assert len(find_tagged(sweep)) == SIZE + 1
        remote.order(guard.stop_order(5.0))
        assert remote.stdout.read().splitlines() == [b"exited -15", b"stopped -15 0 0"]
    assert find_tagged(sweep) == []


def test_a_network_that_falls_silent_ends_the_tree_by_its_lease(
    sshd: Sshd, sweep: str, tmp_path: Path
) -> None:
    with (
        DroppingProxy(sshd.port).running() as proxy,
        closing(connect(sshd, proxy.port)) as client,
    ):
        remote = start(client, guard_line(sweep, guard.ATTACHED))
        remote.order(spec_line(sweep, tmp_path / "log", lease_s=LEASE_S))
        pid, _ = remote.started()
        wait_ready(tmp_path / "log")
        for _ in range(_BEATS):
            remote.order(guard.HEARTBEAT)
            time.sleep(LEASE_S / 4)
        # More than the lease is over: it is the signs of life that keep the tree.
        assert psutil.pid_exists(pid)
        proxy.cut()
        wait_until(lambda: not find_tagged(sweep), "the end of the tree")
        # Nobody has told the remote side: it still thinks it is connected.
        assert client.get_transport() is not None
    assert "no sign of life from the owner for 4 s" in (tmp_path / "log").read_text()


_DRIVER = """
import sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.infra.ssh.loopback import Sshd
from tests.infra.test_guard_over_ssh import connect, guard_line, spec_line, start
from infra import guard
client = connect(Sshd({port}, Path({folder!r})))
remote = start(client, guard_line({sweep!r}, guard.ATTACHED))
remote.order(spec_line({sweep!r}, Path({log!r}), lease_s=600))
print(*remote.started(), flush=True)
time.sleep(600)
"""


def test_a_killed_driver_ends_the_remote_tree_at_once(
    sshd: Sshd, sweep: str, tmp_path: Path
) -> None:
    log_path = tmp_path / "log"
    root = str(Path(__file__).parents[2])
    code = textwrap.dedent(_DRIVER).format(
        root=root, port=sshd.port, folder=str(sshd.folder), sweep=sweep, log=str(log_path)
    )
    argv = [sys.executable, "-W", "ignore", "-c", code]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as driver:
        try:
            assert driver.stdout is not None
            assert driver.stdout.readline()
            wait_ready(log_path)
            assert len(find_tagged(sweep)) == SIZE + 1
            driver.kill()
            # The lease is longer than anyone waits.
            wait_until(lambda: not find_tagged(sweep), "the end of the tree")
        finally:
            driver.kill()
    assert "the owner is gone" in log_path.read_text()


def test_a_detached_server_survives_the_connection_until_its_lease(
    sshd: Sshd, sweep: str, tmp_path: Path
) -> None:
    log_path = tmp_path / "log"
    with closing(connect(sshd)) as client:
        remote = start(client, guard_line(sweep, guard.LEASE_ONLY))
        remote.order(spec_line(sweep, log_path, lease_s=LEASE_S))
        pid, guard_pid = remote.started()
    # Another connection finds the same server, and gives signs of life by pid.
    with closing(connect(sshd)) as client:
        wait_ready(log_path)
        for _ in range(_BEATS):
            _, stdout, _ = client.exec_command(f"kill -USR1 {guard_pid}", timeout=30)
            assert stdout.channel.recv_exit_status() == 0
            time.sleep(LEASE_S / 4)
        assert psutil.Process(pid).ppid() == guard_pid
        assert {pid, guard_pid} < {found.pid for found in find_tagged(sweep)}
    wait_until(lambda: not find_tagged(sweep), "the end of the lease")
    assert "no sign of life" in log_path.read_text()


def test_a_detached_server_is_stopped_over_any_connection(
    sshd: Sshd, sweep: str, tmp_path: Path
) -> None:
    with closing(connect(sshd)) as client:
        remote = start(client, guard_line(sweep, guard.LEASE_ONLY))
        remote.order(spec_line(sweep, tmp_path / "log", lease_s=600))
        _, guard_pid = remote.started()
    with closing(connect(sshd)) as client:
        client.exec_command(f"kill -TERM {guard_pid}", timeout=30)
        wait_until(lambda: not find_tagged(sweep), "the end of the tree")
    assert "ended by SIGTERM" in (tmp_path / "log").read_text()


def test_what_cannot_be_started_is_told_over_the_wire(sshd: Sshd, sweep: str) -> None:
    spec = guard.Spec(python("pass"), {}, "/not/there", "/dev/null", grace_s=1.0, lease_s=1.0)
    with closing(connect(sshd)) as client:
        remote = start(client, guard_line(sweep, guard.LEASE_ONLY))
        remote.order(guard.spec_line(spec))
        assert remote.stdout.readline() == "error directory /not/there: No such file or directory\n"
        wait_until(lambda: not find_tagged(sweep), "the end of the guard")
