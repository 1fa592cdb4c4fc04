"""Lays out on the host what was sent: a folder that is the sender's, as far as a sweep sees."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from infra.file_lock import FileLock
from infra.whole_file import replacing
from orchestrator.remote.notes import ORDER, SEQUENCE, notes_in, read_object, write_object
from orchestrator.remote.place import Place

SENT = ".sent.json"
"""What came with a space file: its host, and where files that it names lie now."""

_LAID = ".laid.json"
_RUNS_KEPT = 50
_COUNTING_S = 30.0


def missing(place: Place, hashes: Sequence[str]) -> list[str]:
    """Return the files that are yet to be sent; what holds them is made, and closed to others."""
    for folder in (place.root, place.state, place.sent, place.blobs):
        folder.mkdir(exist_ok=True, parents=True, mode=0o700)
    return [name for name in hashes if not (place.blobs / name).is_file()]


def lay_out(place: Place, name: str, files: Mapping[str, str], sent: Mapping[str, Any]) -> Path:
    """Put files, given by their hashes, at their places; remove those of an earlier time.

    Raises ValueError for a place outside of the folder.
    """
    folder = place.space(_part(name))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path, digest in files.items():
        _copy(place.blobs / _part(digest), _inside(folder, path))
    for path in read_object(folder / _LAID).get("files", {}):
        if path not in files:
            _inside(folder, path).unlink(missing_ok=True)
    write_object(folder / _LAID, {"files": dict(files)})
    write_object(folder / SENT, sent)
    return folder


def order(place: Place, run: str, data: Mapping[str, Any]) -> Path:
    """Write what a command is to be, as the next of this host; forget the oldest that ended.

    Raises TimeoutError where another order is being written all the time.
    """
    folder = place.run(_part(run))
    with _counting(place):
        known = notes_in(place.runs)
        following = max((note.sequence for note in known), default=0) + 1
        write_object(folder / ORDER, {**data, SEQUENCE: following})
    for note in known[: -_RUNS_KEPT + 1]:
        if not note.is_running:
            shutil.rmtree(place.run(note.run), ignore_errors=True)
    return folder


@contextmanager
def _counting(place: Place) -> Iterator[None]:
    """Let one at a time number what it orders."""
    place.runs.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = FileLock.take(place.sent / "runs.lock", patience_s=_COUNTING_S)
    if lock is None:
        raise TimeoutError(f"another order is written in {place.runs}")
    try:
        yield
    finally:
        lock.release()


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as held, replacing(target) as file:
        shutil.copyfileobj(held, file)


def _inside(folder: Path, path: str) -> Path:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts:
        raise ValueError(f"{path!r} leads out of the folder")
    return folder / parts


def _part(name: str) -> str:
    if "/" in name or name in ("", ".", ".."):
        raise ValueError(f"{name!r} names no file of a folder")
    return name
