"""What the driver does on a host of a cluster, by an actor there: no shared file system is needed.

Nothing here knows Ray; `orchestrator.ray_nodes` makes an actor of it.
"""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from infra import reaper
from infra.gpus import count_gpus
from infra.host import HostError
from infra.host_lock import host_lock
from infra.leftovers import LeftoverKind, find_leftovers, remove
from infra.probing.facts import HostFacts
from infra.probing.probe import probe_host
from infra.remote import TransferError
from orchestrator.choices import HostChoice
from orchestrator.files import place_below, write_bytes, write_json
from orchestrator.space_file import settle_host
from sweeps.hosts import HostSpec

MOST_FILE_BYTES = 16 << 20
"""Of a longer file, as a log can be, only the end is brought back."""
_MOST_FILES = 10_000
_MOST_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 16
_BROKEN = (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, OverflowError)
"""What the libraries raise for an archive that was cut off or made up."""


class ArchiveError(TransferError, tarfile.TarError):
    """What came back from a host is not what `pack` makes."""


class Hands:
    """Works on the machine that it lives on, whose home `~` is. What it holds ends with it."""

    def __init__(self) -> None:
        self._held = ExitStack()

    def probe(
        self, spec: HostSpec, choice: HostChoice, folder: str, model: str | None
    ) -> tuple[HostSpec, HostFacts]:
        """Choose the engine by what is found here, and return all facts."""
        place = Path(folder).expanduser()
        place.mkdir(parents=True, exist_ok=True)
        settled = replace(settle_host(spec, choice, count_gpus()), elsewhere=True)
        settled = replace(settled, folder=str(place) if settled.emulated else None)
        facts = probe_host(settled, place, model=Path(model) if model else None)
        return settled, facts

    def take(self, names: Sequence[str], owner: str) -> None:
        """Hold GPUs for the sweep, while this actor lives. Raises HostError."""
        try:
            self._held.enter_context(host_lock(names, owner))
        except OSError as error:
            raise HostError(f"its GPUs cannot be locked: {error}") from error

    def clear(self, dead_sweeps: Sequence[str], state: str = "") -> list[str]:
        """Remove what dead sweeps of a state folder left here; return what still ran, in words."""
        with reaper.working_for(state):
            removed = [found for found in find_leftovers(dead_sweeps) if remove(found)]
        return [found.what for found in removed if found.kind is LeftoverKind.PROCESSES]

    def write_order(self, path: str, order: dict[str, object]) -> None:
        """Leave an order for a trial that runs here."""
        write_json(Path(path).expanduser(), order)

    def pack(self, folder: str) -> bytes:
        """Return the files of a trial as an archive."""
        return pack(Path(folder).expanduser())

    def reap(self, sweep: str, trial: str | None = None, state: str = "") -> int:
        """End what still carries the tag of a sweep or a trial of a state folder here."""
        with reaper.working_for(state):
            return reaper.reap(sweep, trial)


def pack(folder: Path) -> bytes:
    """Return all regular files below a folder as a compressed archive, long ones by their end."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=3) as archive:
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
            data = _end_of(path)
            info = tarfile.TarInfo(path.relative_to(folder).as_posix())
            info.size, info.mode = len(data), 0o600
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def unpack(data: bytes, folder: Path) -> None:
    """Write the files of an archive into a folder, and nowhere else.

    Raises ArchiveError, and then has written nothing, for what `pack` does not make.
    """
    for _ in _members(data, folder):
        pass
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in _members(data, folder):
        write_bytes(path, content, 0o600)


def _members(data: bytes, folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield regular files alone: an archive may also hold links that lead elsewhere."""
    seen: set[Path] = set()
    try:
        with (
            gzip.GzipFile(fileobj=io.BytesIO(data)) as packed,
            tarfile.open(fileobj=_Limited(packed), mode="r|") as archive,
        ):
            for member in archive:
                if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                    raise ArchiveError(f"the archive holds {member.name!r}, which is no file")
                if member.size > MOST_FILE_BYTES or len(seen) >= _MOST_FILES:
                    raise ArchiveError(f"the archive is too large at {member.name!r}")
                path = place_below(folder, member.name)
                if path in seen or not seen.isdisjoint(path.parents):
                    raise ArchiveError(f"the archive holds {member.name!r} twice")
                seen.add(path)
                held = archive.extractfile(member)
                yield path, held.read() if held else b""
            while packed.read(_CHUNK_BYTES):
                pass  # to the end, where the checksum stands
    except TransferError as error:
        raise ArchiveError(str(error)) from error
    except _BROKEN as error:
        raise ArchiveError(f"the archive is broken: {error}") from error


class _Limited(io.BufferedIOBase):
    """Reads what was compressed up to a limit: a small archive can hold very much."""

    def __init__(self, source: gzip.GzipFile) -> None:
        self._source, self._left = source, _MOST_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes. Raises ArchiveError once there were too many."""
        size = self._left if size is None or size < 0 else size
        found = self._source.read(min(size, self._left + 1))
        self._left -= len(found)
        if self._left < 0:
            raise ArchiveError(f"the archive holds more than {_MOST_BYTES} bytes")
        return found


def _end_of(path: Path) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - MOST_FILE_BYTES))
        return file.read(MOST_FILE_BYTES)
