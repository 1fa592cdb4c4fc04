"""What of a state folder is worth fetching, and consistent copies of its databases."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from infra.whole_file import name_beside, new_file
from orchestrator.remote.place import SENT, Place

DATABASES = ("study.db", "mlflow.db")
"""Written while a sweep runs: they are fetched as a copy of one moment."""

_LEFT_OUT = ("ray", "hosts", "lock", "ui.log", "fetched", SENT)
"""At the top: of use on the host alone."""
_COMPANIONS = ("-wal", "-shm", "-journal")


def manifest(place: Place) -> dict[str, list[int]]:
    """Return the size and the time, in ns, of all that can be fetched, by its path."""
    found = dict(_files(place.state))
    for name in DATABASES:
        if stamp := _database_stamp(place.state / name):
            found[name] = stamp
    return found


def snapshot(place: Place, name: str) -> Path:
    """Copy a database as it is at one moment, whoever writes to it. Raises ValueError."""
    if name not in DATABASES:
        raise ValueError(f"{name!r} is no database of a state folder")
    place.snapshots.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = place.snapshots / name
    beside = name_beside(target)
    new_file(beside, 0o600).close()
    uri = f"file:{place.state / name}?mode=ro"
    with (
        closing(sqlite3.connect(uri, uri=True, timeout=30)) as source,
        closing(sqlite3.connect(beside)) as copy,
    ):
        source.backup(copy)
    beside.replace(target)
    return target


def _files(state: Path) -> Iterator[tuple[str, list[int]]]:
    left_out = {*_LEFT_OUT, *DATABASES, *(d + c for d in DATABASES for c in _COMPANIONS)}
    for folder, folders, names in os.walk(state):
        at = Path(folder)
        if at == state:
            folders[:] = [name for name in folders if name not in left_out]
            names = [name for name in names if name not in left_out]
        for name in names:
            # A dot first: a file that is only being written.
            if not name.startswith(".") and (stamp := _stamp(at / name)):
                yield (at / name).relative_to(state).as_posix(), stamp


def _stamp(path: Path) -> list[int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns] if path.is_file() and not path.is_symlink() else None


def _database_stamp(path: Path) -> list[int] | None:
    """Return what changes with every write: of the file, and of its log of writes."""
    stamps = [_stamp(path), _stamp(path.with_name(f"{path.name}-wal"))]
    known = [stamp for stamp in stamps if stamp]
    if stamps[0] is None:
        return None
    return [sum(size for size, _ in known), max(time for _, time in known)]


def frames(state: Path, paths: list[str]) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield small files with a head each; one that vanished meanwhile is left out."""
    for path in paths:
        file = state / path
        try:
            with file.open("rb") as opened:
                found = os.fstat(opened.fileno())
                data = opened.read()
        except OSError:
            continue
        yield {"path": path, "size": len(data), "mtime_ns": found.st_mtime_ns}, data
