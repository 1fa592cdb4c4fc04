"""Which directories hold a whole build, and of what."""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from infra.sglang_cpu.errors import BuildBusyError, ForeignDirectoryError
from infra.whole_file import write_whole

_STAMP_NAME = "sglang_cpu_build.json"
_POLL_S = 0.2


class BuildState(StrEnum):
    """How far a build got."""

    BUILDING = "building"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a build directory says of itself."""

    state: BuildState
    digest: str


def digest_of(files: Iterable[Path], *, root: Path, facts: Iterable[str]) -> str:
    """Return a digest of the files' paths below `root`, their contents, and of the facts."""
    digest = hashlib.sha256()
    for fact in facts:
        digest.update(_framed(fact.encode()))
    for file in sorted(files):
        digest.update(_framed(file.relative_to(root).as_posix().encode()))
        digest.update(_framed(file.read_bytes()))
    return digest.hexdigest()


def _framed(content: bytes) -> bytes:
    return b"%d:%b" % (len(content), content)


def read_stamp(directory: Path) -> Stamp | None:
    """Return a directory's stamp, or None where there is none that can be read."""
    try:
        fields = json.loads((directory / _STAMP_NAME).read_text())
        return Stamp(BuildState(fields["state"]), str(fields["digest"]))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def write_stamp(directory: Path, stamp: Stamp) -> None:
    """Replace a directory's stamp as one act."""
    write_whole(directory / _STAMP_NAME, (json.dumps(asdict(stamp)) + "\n").encode())


def is_whole(directory: Path, digest: str) -> bool:
    """Tell whether a directory holds a finished build of this digest."""
    return read_stamp(directory) == Stamp(BuildState.WHOLE, digest)


def begin(directory: Path, digest: str) -> None:
    """Empty a directory for a build and mark it as unfinished.

    Raises ForeignDirectoryError for a directory with contents that no build of ours has marked.
    """
    if directory.exists() and read_stamp(directory) is None and _has_contents(directory):
        raise ForeignDirectoryError(directory)
    discarded = directory.with_name(f"{directory.name}.discarded")
    shutil.rmtree(discarded, ignore_errors=True)
    if directory.exists():
        directory.rename(discarded)  # a removal that is cut short leaves no half of it here
        shutil.rmtree(discarded)
    directory.mkdir(parents=True)
    write_stamp(directory, Stamp(BuildState.BUILDING, digest))


def _has_contents(directory: Path) -> bool:
    return not directory.is_dir() or any(directory.iterdir())


@contextmanager
def exclusive(directory: Path, *, deadline_s: float) -> Iterator[None]:
    """Hold the only right to build a directory, until the process and its steps have ended.

    A step that outlives its killed builder inherits the lock, so that it cannot write into the
    next build. Raises BuildBusyError where another process keeps it past the deadline.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        until_s = time.monotonic() + deadline_s
        while not _locked(lock.fileno()):
            if time.monotonic() >= until_s:
                raise BuildBusyError(directory, deadline_s)
            time.sleep(_POLL_S)
        os.set_inheritable(lock.fileno(), True)
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
