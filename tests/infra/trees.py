"""Process trees to start under a guard, and ways to watch them."""

import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from infra.host import Command
from infra.reaper import find_tagged, reap
from tests.patience import GIVE_UP_S

PATIENCE_S = GIVE_UP_S
KINDS = ("plain", "setsid", "stubborn")
SIZE = 2
"""Living processes of each kind, the root included and the guard not."""

# Two processes. In "setsid" the second has a session of its own and no parent in the tree.
_TREE = """
import os, signal, sys
kind = sys.argv[1]
if kind == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
def rest():
    os.write(1, b"ready\\n")
    while True:
        signal.pause()
if os.fork() == 0:
    if kind == "setsid":
        os.setsid()
        if os.fork():
            os._exit(0)
    rest()
rest()
"""


def python(code: str, *args: str) -> tuple[str, ...]:
    """Return the argv of a small program that starts fast."""
    return (sys.executable, "-I", "-S", "-c", code, *args)


def tree_command(
    kind: str, sweep: str, log_path: Path, *, grace_s: float = 20.0, lease_s: float = 20.0
) -> Command:
    """Return a command that starts a tree of a kind."""
    argv = python(_TREE, kind)
    return Command(argv, {}, log_path, sweep, "t1", grace_s=grace_s, lease_s=lease_s)


def wait_until(condition: Callable[[], object], what: str, within_s: float = PATIENCE_S) -> None:
    """Wait until something holds; fail by name if it does not come to."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, f"never came: {what}"
        time.sleep(0.01)


def wait_ready(log_path: Path, processes: int = SIZE) -> None:
    """Wait until so many processes of a tree have said that they are ready."""
    wait_until(
        lambda: log_path.exists() and log_path.read_text().count("ready") >= processes,
        f"{processes} ready processes",
    )


def guard_pid(server_pid: int) -> int:
    """Return the pid of the guard above a server's root."""
    parent = psutil.Process(server_pid).parent()
    assert parent is not None
    return parent.pid


@contextmanager
def fresh_sweep() -> Iterator[str]:
    """Lend a sweep id, and insist that none of its processes is left in the end."""
    sweep = f"test-{uuid.uuid4().hex}"
    yield sweep
    left = find_tagged(sweep)
    reap(sweep)
    assert left == []


def open_fds() -> int:
    """Return how many file descriptors this process holds."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are enough
