"""The guard ends the whole tree, whoever dies first."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra import guard, local_host
from infra.host import Command, StopReport
from infra.local_host import GuardedProcess, LocalHost
from infra.reaper import find_tagged
from tests.infra.trees import (
    KINDS,
    SIZE,
    guard_pid,
    open_fds,
    python,
    tree_command,
    wait_ready,
    wait_until,
)

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

_OWNER = """
import sys, time
from pathlib import Path
from infra.local_host import LocalHost
from tests.infra.trees import tree_command
kind, sweep, log = sys.argv[1:]
server = LocalHost().start(tree_command(kind, sweep, Path(log), grace_s=0.2, lease_s=1.0))
time.sleep(600)
"""

# Leaves a process that is detached and deaf, and ends with code 3.
_LEAVER = """
import os, signal
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    os.write(1, b"ready\\n")
    while True:
        signal.pause()
while b"ready" not in open("/proc/self/fd/1", "rb").read():
    pass
os._exit(3)
"""


@contextmanager
def owner(kind: str, sweep: str, log_path: Path) -> Iterator[int]:
    """Run another process that owns a tree; yield its pid."""
    argv = [sys.executable, "-c", _OWNER, kind, sweep, str(log_path)]
    with subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        try:
            wait_ready(log_path)
            yield process.pid
        finally:
            process.kill()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_tree_ends_with_its_owner(
    kind: str, number: signal.Signals, sweep: str, tmp_path: Path
) -> None:
    log_path = tmp_path / "log"
    with owner(kind, sweep, log_path) as pid:
        assert len(find_tagged(sweep)) == SIZE + 1
        os.kill(pid, number)
        wait_until(lambda: not find_tagged(sweep), "the end of the tree")
        assert psutil.pid_exists(pid)
    why = "no sign of life" if number == signal.SIGSTOP else "owner is gone"
    assert why in log_path.read_text()


def _stop(server: GuardedProcess) -> None:
    server.stop()


def _terminate_guard(server: GuardedProcess) -> None:
    os.kill(guard_pid(server.pid), signal.SIGTERM)


def _kill_guard(server: GuardedProcess) -> None:
    os.kill(guard_pid(server.pid), signal.SIGKILL)
    # The root goes with its guard. Who looks ends the rest, before anybody calls stop().
    wait_until(lambda: server.poll() == -signal.SIGKILL, "notice of the lost guard")
    assert guard.LOG_PREFIX + "lost" in server.log_tail(1)[0]


def _kill_root(server: GuardedProcess) -> None:
    os.kill(server.pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", [_stop, _terminate_guard, _kill_guard, _kill_root])
def test_tree_ends(
    kind: str, end: Callable[[GuardedProcess], None], sweep: str, tmp_path: Path
) -> None:
    log_path = tmp_path / "log"
    server = LocalHost().start(tree_command(kind, sweep, log_path, grace_s=0.2))
    try:
        wait_ready(log_path)
        assert len(find_tagged(sweep)) == SIZE + 1
        end(server)
        wait_until(lambda: not find_tagged(sweep), "the end of the tree")
    finally:
        report = server.stop()
    assert report.clean
    assert report.exit_code in (-signal.SIGTERM, -signal.SIGKILL)
    if end is _stop:
        assert report.killed == (SIZE if kind == "stubborn" else 0)
    if end is _kill_guard:
        assert report.killed >= 1


def _start_leaver(sweep: str, log_path: Path, grace_s: float) -> GuardedProcess:
    return LocalHost().start(Command(python(_LEAVER), {}, log_path, sweep, "t1", grace_s=grace_s))


def test_exit_of_the_root_is_told_before_the_rest_is_gone(sweep: str, tmp_path: Path) -> None:
    server = _start_leaver(sweep, tmp_path / "log", grace_s=600)
    wait_until(lambda: server.poll() is not None, "the exit")
    assert server.poll() == 3
    assert len(find_tagged(sweep)) == 2
    # An order may shorten the grace that is under way.
    assert server.stop(0) == StopReport(exit_code=3, killed=1, survivors=0)


def test_the_rest_is_ended_without_an_order_and_told_later(sweep: str, tmp_path: Path) -> None:
    server = _start_leaver(sweep, tmp_path / "log", grace_s=0.1)
    wait_until(lambda: not find_tagged(sweep) and server.poll() is not None, "the end")
    assert server.stop() == StopReport(exit_code=3, killed=1, survivors=0)


_IN_ORDER = """
import os, signal, sys, time
def told(*words):
    def leave(*_):
        os.write(1, (words[0] + "\\n").encode())
        if len(words) > 1:
            time.sleep(0.5)
            os.write(1, (words[1] + "\\n").encode())
        os._exit(0)
    return leave
child = os.fork()
signal.signal(signal.SIGTERM, told("root asked", "root leaves") if child else told("child asked"))
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


def test_the_root_is_asked_first_and_the_rest_once_it_is_gone(sweep: str, tmp_path: Path) -> None:
    log_path = tmp_path / "log"
    server = LocalHost().start(Command(python(_IN_ORDER), {}, log_path, sweep, "t1"))
    wait_ready(log_path)
    assert server.stop() == StopReport(0, 0, 0)
    assert server.log_tail(3) == ["root asked", "root leaves", "child asked"]


def test_heartbeats_outlast_the_lease(sweep: str, tmp_path: Path) -> None:
    ticks = "import time\nwhile True: print('tick', flush=True); time.sleep(0.1)"
    command = Command(python(ticks), {}, tmp_path / "log", sweep, "t1", lease_s=3.0)
    server = LocalHost().start(command)
    # Each tick takes 0.1 s at least.
    wait_until(lambda: len(server.log_tail(99)) > 35, "a life longer than the lease")
    assert server.poll() is None
    assert server.stop().exit_code == -signal.SIGTERM


def test_guard_leaves_its_owner_and_its_terminal(sweep: str, tmp_path: Path) -> None:
    log_path = tmp_path / "log"
    server = LocalHost().start(tree_command("plain", sweep, log_path))
    wait_ready(log_path)
    pid = guard_pid(server.pid)
    assert os.getpid() not in [parent.pid for parent in psutil.Process(pid).parents()]
    assert len({os.getsid(0), os.getsid(pid), os.getsid(server.pid)}) == 3
    for number in (signal.SIGINT, signal.SIGHUP):
        os.kill(pid, number)
    report = server.stop()
    # Had the guard followed them, its root would have been killed with it.
    assert report == StopReport(-signal.SIGTERM, 0, 0)


def test_a_secret_is_in_no_command_line(sweep: str, tmp_path: Path) -> None:
    command = Command(
        python("import signal; signal.pause()"),
        {},
        tmp_path / "log",
        sweep,
        "t1",
        hidden={"HF_TOKEN": "hf_secret"},
    )
    server = LocalHost().start(command)
    try:
        assert psutil.Process(server.pid).environ()["HF_TOKEN"] == "hf_secret"
        watcher = psutil.Process(guard_pid(server.pid))
        assert "hf_secret" not in "".join([*watcher.cmdline(), *watcher.environ().values()])
    finally:
        server.stop()


def _pipes(pid: int | str) -> set[str]:
    names = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            names.add(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return {name for name in names if name.startswith("pipe:")}


def test_the_owners_pipes_reach_its_guard_only(sweep: str, tmp_path: Path) -> None:
    before = _pipes("self")
    servers = []
    for name in ("a", "b"):
        command = replace(tree_command("setsid", sweep, tmp_path / name), trial=name)
        servers.append(LocalHost().start(command))
        wait_ready(tmp_path / name)
    try:
        ours = _pipes("self") - before
        guards = [guard_pid(server.pid) for server in servers]
        held = {process.pid: _pipes(process.pid) & ours for process in find_tagged(sweep)}
        assert len(ours) == 4
        assert [len(held.pop(pid)) for pid in guards] == [2, 2]
        assert set().union(*held.values()) == set()
        # So the end of one link ends one tree.
        os.kill(guards[0], signal.SIGKILL)
        wait_until(lambda: servers[0].poll() is not None, "end of file on the events")
        assert servers[1].poll() is None
    finally:
        assert servers[1].stop().clean
        assert servers[0].stop().clean


def test_nothing_is_held_after_a_stop(sweep: str, tmp_path: Path) -> None:
    host = LocalHost()
    host.start(tree_command("plain", sweep, tmp_path / "log")).stop()
    before = open_fds()
    threads = _heartbeats()
    for _ in range(3):
        host.start(tree_command("plain", sweep, tmp_path / "log")).stop()
    assert (open_fds(), _heartbeats()) == (before, threads)


def _heartbeats() -> int:
    return psutil.Process().num_threads()


def test_a_stop_ends_by_tag_what_a_frozen_guard_holds(
    sweep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "KILL_WAIT_S", 0.1)
    monkeypatch.setattr(local_host, "_LAST_WORDS_WAIT_S", 0.1)
    log_path = tmp_path / "log"
    server = LocalHost().start(tree_command("setsid", sweep, log_path))
    wait_ready(log_path)
    os.kill(guard_pid(server.pid), signal.SIGSTOP)
    assert server.stop(0.1) == StopReport(-signal.SIGKILL, SIZE + 1, 0)


def test_the_server_is_not_deaf(sweep: str, tmp_path: Path) -> None:
    show = "print(open('/proc/self/status').read())"
    server = LocalHost().start(Command(python(show), {}, tmp_path / "log", sweep, "t1"))
    wait_until(lambda: server.poll() is not None, "the exit")
    status = dict(line.split(":\t", 1) for line in server.log_tail(200) if ":\t" in line)
    server.stop()
    blocked, ignored = int(status["SigBlk"], 16), int(status["SigIgn"], 16)
    assert blocked == 0
    # Python itself ignores two in every program; the guard's own two must not come through.
    assert not ignored & (1 << signal.SIGINT - 1 | 1 << signal.SIGHUP - 1)


@contextmanager
def bare_guard(*args: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a guard without the owner's side."""
    argv = [sys.executable, "-I", "-S", guard.__file__, *args]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process


def test_an_attached_guard_stays_with_its_parent(sweep: str, tmp_path: Path) -> None:
    spec = guard.Spec(
        argv=python("import signal; signal.pause()"),
        env={"ORCH_SWEEP": sweep},
        cwd=str(tmp_path),
        log_path=str(tmp_path / "log"),
        grace_s=5,
        lease_s=60,
    )
    with bare_guard("--attached") as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(guard.spec_line(spec))
        process.stdin.flush()
        event, pid, guard_pid = process.stdout.readline().split()
        assert (event, int(guard_pid)) == (b"started", process.pid)
        assert psutil.Process(int(pid)).ppid() == process.pid
        process.stdin.close()
        events = process.stdout.read().splitlines()
    assert events == [b"exited -15", b"stopped -15 0 0"]


_WORDS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
_NAMES = st.text("ABC_xyz", min_size=1, max_size=8)


@given(st.lists(_WORDS, min_size=1), st.dictionaries(_NAMES, _WORDS), _WORDS)
def test_a_spec_survives_its_line(argv: list[str], env: dict[str, str], cwd: str) -> None:
    line = guard.spec_line(guard.Spec(argv, env, cwd, "log", 1.5, 20.0))
    assert line.count(b"\n") == 1
    read = guard.parse_spec(line.rstrip())
    assert (read.argv, read.env, read.cwd, read.log_path) == (argv, env, cwd, "log")
    assert (read.grace_s, read.lease_s) == (1.5, 20.0)


def test_a_nul_is_refused_before_anything_starts() -> None:
    with pytest.raises(ValueError, match="NUL"):
        guard.spec_line(guard.Spec(["a\0b"], {}, "/", "log", 1.0, 1.0))


@pytest.mark.parametrize(("line", "message"), [(b"{}\n", "not a spec"), (b"", "no spec")])
def test_without_a_spec_nothing_is_started(line: bytes, message: str) -> None:
    with bare_guard() as process:
        out, _ = process.communicate(line, timeout=30)
    assert out.startswith(b"error ")
    assert message in out.decode()


def test_both_outputs_go_to_a_log_that_others_may_read(sweep: str, tmp_path: Path) -> None:
    code = "import os; os.write(1, b'out\\n'); os.write(2, b'err\\n')"
    log_path = tmp_path / "log"
    before = os.umask(0)
    try:
        server = LocalHost().start(Command(python(code), {}, log_path, sweep, "t1"))
    finally:
        os.umask(before)
    wait_until(lambda: server.poll() is not None, "the exit")
    assert server.stop() == StopReport(0, 0, 0)
    # Nothing of the guard's own: it ended because the server had.
    assert log_path.read_text() == "out\nerr\n"
    assert log_path.stat().st_mode & 0o777 == 0o644


def test_a_guard_waits_for_a_slow_owner(sweep: str, tmp_path: Path) -> None:
    spec = guard.Spec(python("pass"), {"ORCH_SWEEP": sweep}, "/", str(tmp_path / "log"), 5, 60)
    with bare_guard() as process:
        assert process.stdin
        assert process.stdout
        time.sleep(1.5)
        process.stdin.write(guard.spec_line(spec))
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"started ")
        process.stdin.close()
        assert process.stdout.read().endswith(b" 0 0\n"), "nothing was killed, nothing is left"


def test_orders_that_cannot_be_read_are_no_orders() -> None:
    argv = [sys.executable, "-I", "-S", guard.__file__]
    with Path("/proc/self/mem").open("rb") as nothing:  # poll says yes, and a read fails
        done = subprocess.run(argv, stdin=nothing, capture_output=True, timeout=60, check=False)
    assert done.stdout == b"error no spec came\n"
    assert done.stderr == b""
