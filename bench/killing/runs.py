"""One run: an owner with servers comes to an end of some kind, and what is left is counted."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from infra import reaper
from infra.leftovers import find_leftovers, remove
from infra.local_host import LocalHost
from killing.trees import ROOT, Tree

MOST_S = 5.0
"""Wall seconds after the grace period in which everything must be gone."""
_LOOK_S = 0.02
_END_S = 60.0
_OWNER = Path(__file__).with_name("owner.py")


class End(StrEnum):
    """How it ends."""

    STOP = "stop"
    """The scheduler stops the trial: its actor is asked to end, then the driver leaves."""
    SIGINT = "sigint"
    SIGTERM = "sigterm"
    DRIVER = "driver_killed"
    ACTOR = "actor_killed"
    GUARD = "guard_killed"
    FROZEN = "owner_frozen"
    """The process that owns the servers is stopped by SIGSTOP, so that only the lease is left."""


@dataclass(frozen=True, slots=True)
class Owned:
    """An owner and its servers, all of which generate."""

    driver: subprocess.Popen[str]
    sweep: str
    owner_pid: int
    root_pids: Sequence[int]
    ports: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What one end left of one tree."""

    survivors: int
    ports_held: int
    after_grace_s: float


def run_once(end: End, trees: Sequence[Tree], ray_address: str) -> dict[Tree, Aftermath]:
    """Start some servers under one owner, end it, and watch what becomes of them."""
    with tempfile.TemporaryDirectory() as folder, owned(folder, trees, ray_address) as found:
        began_s = time.monotonic()
        _ENDS[end](found)
        return _watch(found, trees, end, began_s)


@contextmanager
def owned(folder: str, trees: Sequence[Tree], ray_address: str) -> Iterator[Owned]:
    """Run an owner until the end; whatever is left then is removed, as by the next sweep."""
    sweep = f"kill-{uuid.uuid4().hex[:12]}"
    argv = [sys.executable, str(_OWNER), folder, sweep, ray_address, *trees]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'bench'}"}
    log_path = Path(folder) / "owner.log"
    with (
        log_path.open("w") as log,
        subprocess.Popen(
            argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as driver,
    ):
        owner_pid = 0
        try:
            assert driver.stdout is not None
            line = driver.stdout.readline()
            if not line:
                raise RuntimeError(f"no server came up:\n{log_path.read_text()[-3000:]}")
            told = json.loads(line)
            owner_pid = told["owner"]
            yield Owned(driver, sweep, owner_pid, told["roots"], told["ports"])
        finally:
            _clear(driver, owner_pid, sweep)


def _clear(driver: subprocess.Popen[str], owner_pid: int, sweep: str) -> None:
    # One that is frozen first: Ray asks it to end, and waits.
    with suppress(psutil.NoSuchProcess):
        if owner_pid:
            owner = psutil.Process(owner_pid)
            owner.kill()
            # While it ends, its locks say that it lives.
            owner.wait(_END_S)
    driver.kill()
    driver.wait(_END_S)
    for left in find_leftovers([sweep]):
        if left.sweep == sweep:
            remove(left)


def _watch(found: Owned, trees: Sequence[Tree], end: End, began_s: float) -> dict[Tree, Aftermath]:
    """Look until all is gone or overdue."""
    host = LocalHost()
    done: dict[Tree, Aftermath] = {}
    while len(done) < len(trees):
        groups = reaper.by_trial()
        for tree, ports in zip(trees, found.ports, strict=True):
            survivors = len(groups.get((found.sweep, tree.value), ()))
            held = sum(not host.is_port_free(port) for port in ports)
            after_s = time.monotonic() - began_s - _allowed_s(tree, end)
            if tree not in done and ((not survivors and not held) or after_s > MOST_S):
                done[tree] = Aftermath(survivors, held, max(0.0, after_s))
        time.sleep(_LOOK_S)
    return done


def _allowed_s(tree: Tree, end: End) -> float:
    return tree.grace_s + (tree.lease_s if end is End.FROZEN else 0.0)


def _stop(found: Owned) -> None:
    assert found.driver.stdin is not None
    found.driver.stdin.write("stop\n")
    found.driver.stdin.flush()


def _signal_driver(number: signal.Signals) -> Callable[[Owned], None]:
    return lambda found: found.driver.send_signal(number)


def _signal_owner(number: signal.Signals) -> Callable[[Owned], None]:
    return lambda found: os.kill(found.owner_pid, number)


def _kill_guards(found: Owned) -> None:
    guards = [psutil.Process(root).ppid() for root in found.root_pids]
    for guard_pid in guards:
        os.kill(guard_pid, signal.SIGKILL)


_ENDS: dict[End, Callable[[Owned], None]] = {
    End.STOP: _stop,
    End.SIGINT: _signal_driver(signal.SIGINT),
    End.SIGTERM: _signal_driver(signal.SIGTERM),
    End.DRIVER: _signal_driver(signal.SIGKILL),
    End.ACTOR: _signal_owner(signal.SIGKILL),
    End.GUARD: _kill_guards,
    End.FROZEN: _signal_owner(signal.SIGSTOP),
}
