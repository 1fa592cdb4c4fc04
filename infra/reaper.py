"""Finds the processes of a sweep by the tag in their environment, and ends them.

The last resort where a guard is lost. It sees what runs on this machine under this user.

A copied state folder holds the ids of sweeps that may still run from the original. So a process
that works for a state folder finds only what was started for the same one, and what has no such
tag: an earlier version started that.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

SWEEP_TAG = "ORCH_SWEEP"
TRIAL_TAG = "ORCH_TRIAL"
STATE_TAG = "ORCH_STATE"
"""Which state folder a process works for; what it starts inherits it."""
GUARD_TAG = "ORCH_GUARD"
"""Marks guards; their servers do not inherit it."""
REAP_WAIT_S = 30.0
"""Wall seconds that killed processes get to vanish."""

# setproctitle, which SGLang calls in each of its children, writes a process's title over its
# environment unless this is set, and the tags would be gone (measured with setproctitle 1.3.8).
_KEEP_TAGS = {"SPT_NOENV": "1"}
_MARK = f"{SWEEP_TAG}=".encode()
_log = logging.getLogger(__name__)


class Tagged(NamedTuple):
    """A live process that carries a tag; the creation time tells two users of one pid apart."""

    pid: int
    create_time: float


def tags(sweep: str, trial: str) -> dict[str, str]:
    """Return the variables by which a process and all it starts can be found again."""
    state = {STATE_TAG: works_for()} if works_for() else {}
    return {SWEEP_TAG: sweep, TRIAL_TAG: trial, **state, **_KEEP_TAGS}


@contextmanager
def working_for(state: str) -> Iterator[None]:
    """Have this process work for a state folder until the end of the block; empty: for any."""
    before = os.environ.get(STATE_TAG)
    _set_state(state)
    try:
        yield
    finally:
        _set_state(before or "")


def works_for() -> str:
    """Return the state folder that this process works for; empty where it was told of none."""
    return os.environ.get(STATE_TAG, "")


def _set_state(state: str) -> None:
    if state:
        os.environ[STATE_TAG] = state
    else:
        os.environ.pop(STATE_TAG, None)


def find_tagged(sweep: str, trial: str | None = None) -> list[Tagged]:
    """Return the live processes of a sweep or trial, but not this one and its ancestors."""
    return [Tagged(found.process.pid, found.create_time) for found in _find(sweep, trial)]


def all_tags() -> dict[str, int]:
    """Return how many live processes each sweep has."""
    return dict(Counter(found.sweep for found in _scan()))


def reap(sweep: str, trial: str | None = None, *, wait_s: float = REAP_WAIT_S) -> int:
    """Kill the processes of a sweep or trial, wait until they are gone; return how many there were.

    What is still there after `wait_s` wall seconds is logged, and found by `find_tagged`.
    """
    deadline_s = time.monotonic() + wait_s
    seen: set[psutil.Process] = set()
    pause_s = 0.005
    # Look again until none is left: one that was just being started is seen by the next scan.
    while left := [found.process for found in _find(sweep, trial)]:
        # A scan alone may take longer on a busy machine, and each process gets its signal.
        if seen and time.monotonic() >= deadline_s:
            _log.warning(
                "sweep=%s trial=%s processes outlived SIGKILL: %d", sweep, trial, len(left)
            )
            break
        for process in left:
            _kill(process)
        seen.update(left)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.5)
    return len(seen)


def strike(sweep: str, trial: str) -> int:
    """Kill what there is of a trial now, without waiting; return how many processes that were."""
    found = _find(sweep, trial)
    for one in found:
        _kill(one.process)
    return len(found)


def by_trial(*, ours: bool = False) -> dict[tuple[str, str], list[psutil.Process]]:
    """Return the live processes of all trials of this user, but not this one and its ancestors.

    With `ours`, those alone that may be of the state folder that this process works for.
    """
    groups: dict[tuple[str, str], list[psutil.Process]] = {}
    for found in _scan():
        if found.trial is not None and (found.is_ours or not ours):
            groups.setdefault((found.sweep, found.trial), []).append(found.process)
    return groups


class _Found(NamedTuple):
    process: psutil.Process
    create_time: float
    sweep: str
    trial: str | None
    is_ours: bool


def _find(sweep: str, trial: str | None) -> list[_Found]:
    return [
        found
        for found in _scan()
        if found.is_ours and found.sweep == sweep and trial in (None, found.trial)
    ]


def _scan() -> Iterator[_Found]:
    """Yield each tagged process of this user that is neither this one nor an ancestor."""
    spared = _own_line()
    user = os.getuid()
    for pid in psutil.pids():
        if pid not in spared and (found := _look(pid, user)):
            yield found


def _look(pid: int, user: int) -> _Found | None:
    # A process may vanish, or not be ours to read: neither is worth a word.
    try:
        # Ten times cheaper than asking psutil of each.
        if _MARK not in Path(f"/proc/{pid}/environ").read_bytes():
            return None
        process = psutil.Process(pid)
        environment = process.environ()
        if SWEEP_TAG not in environment or process.uids().real != user:
            return None
        created = process.create_time()
    except (psutil.Error, OSError):
        return None
    is_ours = not works_for() or environment.get(STATE_TAG) in (None, works_for())
    return _Found(process, created, environment[SWEEP_TAG], environment.get(TRIAL_TAG), is_ours)


def _own_line() -> set[int]:
    own = psutil.Process()
    return {own.pid, *(ancestor.pid for ancestor in own.parents())}


def _kill(process: psutil.Process) -> None:
    try:
        # Refuses if the pid has passed to another process since the scan.
        process.kill()
    except psutil.NoSuchProcess:
        pass
    except psutil.AccessDenied as error:
        _log.warning("cannot kill process %d: %s", process.pid, error)
