"""Finds what dead sweeps of this user have left on this machine, and removes it.

A trial is dead if the process that made its reservation is gone and no guard of it has an owner. In
doubt it lives: a guard ends its tree by itself when its lease runs out. Trials are known by their
records in the runtime folder; sweeps that have another such folder are not seen at all.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from infra import file_lock, reaper, reservation, shared_memory
from infra.file_lock import FileLock
from infra.guard import LEASE_ONLY
from infra.reservation import TrialRecord
from infra.runtime_folder import RuntimeFolder


class LeftoverKind(StrEnum):
    """What was left, in the order in which it is removed."""

    PROCESSES = "processes"
    SHARED_MEMORY = "shared memory"
    TRIAL_FOLDER = "temporary folder"
    LOCK = "lock"


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that a dead sweep has left."""

    kind: LeftoverKind
    what: str
    """In words: pids and names, or a path."""
    sweep: str = ""
    trial: str = ""
    count: int = 1
    path: Path | None = None
    by_word: bool = False
    """The sweep is dead because the caller said so."""


def find_leftovers(
    dead_sweeps: Collection[str] = (), runtime: RuntimeFolder | None = None
) -> list[Leftover]:
    """Find all that can be removed; removes nothing.

    Sweeps in `dead_sweeps` are dead by the caller's word, who must hold the lock of their state
    folder, and work for it as `reaper.working_for` says: a copy of the folder is not their own. Any
    other must be dead by what is seen of it. Raises RuntimeFolderError.
    """
    runtime = runtime or RuntimeFolder.of_user()
    records = reservation.records(runtime)
    living = _living(records)
    dead = [record for record in records if record.key not in living]
    dead_keys = {record.key for record in dead}
    ours = reaper.by_trial(ours=True)
    seen = {key: found for key, found in reaper.by_trial().items() if key in dead_keys}
    told = {key: found for key, found in ours.items() if key[0] in dead_sweeps and key not in seen}
    return [
        *(_processes(key, found, by_word=False) for key, found in seen.items()),
        *(_processes(key, found, by_word=True) for key, found in told.items()),
        *_segments(dead),
        *(_folder(record) for record in dead),
        *_locks(runtime),
    ]


def remove(leftover: Leftover) -> bool:
    """Remove one thing, unless it has come to life meanwhile; tell whether it is gone."""
    match leftover.kind:
        case LeftoverKind.PROCESSES:
            return _end(leftover)
        case LeftoverKind.LOCK:
            return _remove_lock(leftover.path)
        case LeftoverKind.SHARED_MEMORY:
            return _remove_segment(leftover.path)
        case LeftoverKind.TRIAL_FOLDER:
            return _remove_folder(leftover.path)


def clear(
    dead_sweeps: Collection[str] = (), runtime: RuntimeFolder | None = None
) -> list[Leftover]:
    """Remove all leftovers; return those that could not be removed."""
    return [left for left in find_leftovers(dead_sweeps, runtime) if not remove(left)]


def _living(records: list[TrialRecord]) -> set[tuple[str, str]]:
    """Return sweep and trial of all that somebody alive looks after."""
    living = {record.key for record in records if record.held}
    unsure = {record.key for record in records} - living
    groups = reaper.by_trial() if unsure else {}
    for key in unsure:
        tree = {process.pid for process in groups.get(key, ())}
        if any(_has_owner(process, tree) for process in groups.get(key, ())):
            living.add(key)
    return living


def _has_owner(process: psutil.Process, tree: set[int]) -> bool:
    """Tell whether a process is a guard that somebody gives orders to, or may come back to."""
    try:
        if reaper.GUARD_TAG not in process.environ():
            return False
        orders = str(Path(f"/proc/{process.pid}/fd/0").readlink())
        return LEASE_ONLY in process.cmdline() or _is_held_outside(orders, tree)
    except (psutil.Error, OSError):
        return False


def _is_held_outside(orders: str, tree: set[int]) -> bool:
    # The other end of a socket bears another name, and cannot be found: SSH servers use them.
    if not orders.startswith("pipe:"):
        return True
    return any(orders in _files_of(pid) for pid in psutil.pids() if pid not in tree)


def _files_of(pid: int) -> set[str]:
    names = set()
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            names.add(str(entry.readlink()))
    except OSError:
        pass  # gone meanwhile, or another user's
    return names


def _processes(key: tuple[str, str], found: list[psutil.Process], *, by_word: bool) -> Leftover:
    sweep, trial = key
    pids = ", ".join(f"{process.pid} ({_name(process)})" for process in found)
    what = f"processes {pids} of {trial or sweep}"
    return Leftover(LeftoverKind.PROCESSES, what, sweep, trial, len(found), by_word=by_word)


def _segments(dead: list[TrialRecord]) -> list[Leftover]:
    # One that is younger than several dead trials may be of any of them.
    owners = {
        path: record
        for record in dead
        if record.sweep
        for path in shared_memory.unused(record.segments)
    }
    return [
        Leftover(LeftoverKind.SHARED_MEMORY, str(path), record.sweep, record.trial, path=path)
        for path, record in sorted(owners.items())
    ]


def _folder(record: TrialRecord) -> Leftover:
    path = record.folder
    return Leftover(LeftoverKind.TRIAL_FOLDER, str(path), record.sweep, record.trial, path=path)


def _locks(runtime: RuntimeFolder) -> list[Leftover]:
    paths = [*runtime.ports.iterdir(), *runtime.hosts.iterdir()]
    return [
        Leftover(LeftoverKind.LOCK, f"{path} of a process that is gone", path=path)
        for path in sorted(paths)
        if file_lock.holder(path) is None
    ]


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return "gone"


def _end(leftover: Leftover) -> bool:
    sweep, trial = leftover.sweep, leftover.trial
    records = reservation.records(RuntimeFolder.of_user())
    if not leftover.by_word and (sweep, trial) in _living(records):
        return False
    # What is dead by what is seen of it may be of any state folder.
    with reaper.working_for(reaper.works_for() if leftover.by_word else ""):
        reaper.reap(sweep, trial)
        return not reaper.find_tagged(sweep, trial)


def _remove_lock(path: Path | None) -> bool:
    lock = FileLock.take(path) if path is not None else None
    if lock is not None:
        lock.release()
    return lock is not None


def _remove_segment(path: Path | None) -> bool:
    if path is None or not path.exists():
        return True
    # Somebody may use it since it was found.
    if path not in shared_memory.unused(()):
        return False
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _remove_folder(path: Path | None) -> bool:
    if path is None:
        return True
    reservation.remove_folder(path)
    return not path.exists()
