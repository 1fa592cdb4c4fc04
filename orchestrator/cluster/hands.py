"""What the driver does on a host of a cluster, by an actor there: no shared file system is needed.

Nothing here knows Ray; `orchestrator.ray_nodes` makes an actor of it.
"""

import io
import tarfile
from collections.abc import Sequence
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
from orchestrator.choices import HostChoice
from orchestrator.files import write_json
from orchestrator.space_file import settle_host
from sweeps.hosts import HostSpec

MOST_FILE_BYTES = 16 << 20
"""Of a longer file, as a log can be, only the end is brought back."""


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

    def clear(self, dead_sweeps: Sequence[str]) -> list[str]:
        """Remove what dead sweeps left here; return in words what still ran of it."""
        removed = [found for found in find_leftovers(dead_sweeps) if remove(found)]
        return [found.what for found in removed if found.kind is LeftoverKind.PROCESSES]

    def write_order(self, path: str, order: dict[str, object]) -> None:
        """Leave an order for a trial that runs here."""
        write_json(Path(path).expanduser(), order)

    def pack(self, folder: str) -> bytes:
        """Return the files of a trial as an archive."""
        return pack(Path(folder).expanduser())

    def reap(self, sweep: str, trial: str | None = None) -> int:
        """End what still carries the tag of a sweep or a trial here."""
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
    """Write the files of an archive into a folder, and nowhere else."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        archive.extractall(folder, filter="data")


def _end_of(path: Path) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - MOST_FILE_BYTES))
        return file.read(MOST_FILE_BYTES)
