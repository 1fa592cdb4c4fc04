"""Brings what a host's sweeps wrote here: only what is new, each file whole or not at all."""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from infra.remote import TransferError
from infra.whole_file import replacing
from orchestrator.files import place_below, read_json, write_json
from orchestrator.journal import DiskError
from orchestrator.remote.answers import bad_answer, read_answer
from orchestrator.remote.calling import There
from orchestrator.remote.listing import DATABASES

_SMALL_BYTES = 4 << 20
"""Smaller files come many in one answer; larger ones each for itself, continued where it broke."""
_BATCH_BYTES = 8 << 20
_BATCH_S = 600.0
_STAMPS = ".fetched.json"
_PLACES = (("experiments", "artifact_location"), ("runs", "artifact_uri"))
"""Where MLflow's store says in which folder artifacts lie."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one call brought."""

    files: int
    size_bytes: int
    unchanged: int
    left: tuple[str, ...] = ()
    """Files that changed all the time: the next call brings them."""


def fetch(there: There, folder: Path) -> Fetched:
    """Bring all that is new or changed into a local state folder; nothing here is removed.

    What a broken call has brought stays, and is not brought again. Raises RemoteError.
    """
    listed: dict[str, list[int]] = there.ask("manifest")["files"]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stamps = read_json(folder / _STAMPS) or {}
    databases = [n for n in listed if n in DATABASES and stamps.get(n) != listed[n]]
    plain = [
        n for n in listed if n not in DATABASES and not _is_here(place_below(folder, n), listed[n])
    ]
    small = [name for name in plain if listed[name][0] < _SMALL_BYTES]
    sizes = list(_bring(there, folder, small, listed))
    left = []
    for name in (name for name in plain if name not in small):
        try:
            sizes.append(_bring_large(there, folder, name, listed[name]))
        except TransferError:
            left.append(name)
    for name in databases:
        sizes.append(_bring_database(there, folder, name))
        stamps = {**stamps, name: listed[name]}
        write_json(folder / _STAMPS, stamps)
    unchanged = len(listed) - len(plain) - len(databases)
    return Fetched(len(sizes), sum(sizes), unchanged, tuple(left))


def _bring(
    there: There, folder: Path, names: Sequence[str], listed: Mapping[str, list[int]]
) -> Iterator[int]:
    """Fetch small files; yield the size of each."""
    for batch in _batches(names, listed):
        host, asked = there.remote.name, set(batch)
        for name, mtime_ns, data in _frames(host, there.raw("frames", {"paths": batch}, _BATCH_S)):
            if name not in asked:
                raise bad_answer(host, f"a file {name[:80]!r} that nobody asked for")
            asked.remove(name)
            _place(place_below(folder, name), data, mtime_ns)
            yield len(data)


def _bring_large(there: There, folder: Path, name: str, stamp: Sequence[int]) -> int:
    """Fetch one file for itself. Raises TransferError where it is written to meanwhile."""
    path = place_below(folder, name)
    there.remote.get(str(there.place.state / name), path)
    os.utime(path, ns=(stamp[1], stamp[1]))
    return path.stat().st_size


def _batches(names: Sequence[str], listed: Mapping[str, list[int]]) -> Iterator[list[str]]:
    batch: list[str] = []
    size_bytes = 0
    for name in names:
        if batch and size_bytes + listed[name][0] > _BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
        batch.append(name)
        size_bytes += listed[name][0]
    if batch:
        yield batch


def _frames(host: str, data: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Take an answer apart: a line of JSON, then so many bytes, again and again.

    Raises BadAnswerError.
    """
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        head = read_answer(host, "frames", data[at : None if end < 0 else end])
        at = end + 1 + head["size"]
        if end < 0 or at > len(data):
            raise bad_answer(host, f"less of {head['path'][:80]!r} than it says")
        yield head["path"], head["mtime_ns"], data[end + 1 : at]


def _place(path: Path, data: bytes, mtime_ns: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(data)
            file.flush()
            os.utime(file.fileno(), ns=(mtime_ns, mtime_ns))
    except OSError as error:
        raise DiskError.on(path, error) from error


def _bring_database(there: There, folder: Path, name: str) -> int:
    """Fetch a copy of one moment; the MLflow store then finds its artifacts here."""
    made = there.ask("snapshot", {"name": name})
    copy = folder / f".{name}.fetched"
    there.remote.get(made["path"], copy)
    size_bytes = copy.stat().st_size
    if name == "mlflow.db":
        _point_here(copy, str(there.place.state), str(folder.absolute()))
    copy.replace(folder / name)
    return size_bytes


def _point_here(store: Path, there: str, here: str) -> None:
    """Let what the store says of the place of artifacts be true here."""
    with closing(sqlite3.connect(store)) as database, database:
        made = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        for table, column in _PLACES:
            if table in made:
                database.execute(
                    f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (there, here)
                )


def _is_here(path: Path, stamp: Sequence[int]) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return [found.st_size, found.st_mtime_ns] == list(stamp)
