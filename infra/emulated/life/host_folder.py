"""What the servers of one emulated host share: GPU memory, the page cache and compiled kernels.

Files in a folder, and no daemon: a record counts while its process lives, and for a while after.
Readers and writers may be different processes.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from infra.process_id import started_ticks
from sweeps.values import digest

_GPU_FOLDER = "gpu_memory"
_WEIGHTS_FOLDER = "page_cache"
_KERNELS_FOLDER = "kernels"


@dataclass(frozen=True, slots=True)
class Holding:
    """GPU memory of one process. Its start tells two users of one pid apart."""

    pid: int
    started_ticks: int
    gpu_index: int
    held_bytes: int
    release_s: float = 0.0
    """Wall seconds that the memory stays in use after the process is gone."""
    gone_at_s: float | None = None
    """Monotonic time at which somebody first saw that the process is gone."""

    @property
    def alive(self) -> bool:
        """Tell whether the process lives; one that waits to be reaped does not."""
        return started_ticks(self.pid) == self.started_ticks

    @property
    def file_name(self) -> str:
        """Return the name of the record; there is one for each process and GPU."""
        return f"{self.gpu_index}-{self.pid}-{self.started_ticks}.json"


class HostFolder:
    """The folder of one emulated host."""

    def __init__(self, path: Path) -> None:
        """Make the folder if it is not there."""
        self._path = path
        for name in (_GPU_FOLDER, _WEIGHTS_FOLDER, _KERNELS_FOLDER):
            (path / name).mkdir(parents=True, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from taking memory; held for milliseconds only."""
        with (self._path / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def hold(self, holding: Holding) -> None:
        """Write or renew the record of a process."""
        self._write(self._path / _GPU_FOLDER / holding.file_name, json.dumps(asdict(holding)))

    def holdings(self) -> tuple[Holding, ...]:
        """Return what counts now, by GPU and pid; forgets what has been released."""
        read = [self._read(path) for path in (self._path / _GPU_FOLDER).glob("*.json")]
        counting = [holding for holding in read if holding and self._counts(holding)]
        return tuple(sorted(counting, key=lambda held: (held.gpu_index, held.pid)))

    def used_bytes(self, gpu_index: int) -> int:
        """Return what is in use on a GPU, late memory included."""
        return sum(h.held_bytes for h in self.holdings() if h.gpu_index == gpu_index)

    def has_weights(self, model: str) -> bool:
        """Tell whether a model lies in the page cache."""
        return self._marker(_WEIGHTS_FOLDER, model).exists()

    def keep_weights(self, model: str) -> None:
        """Note that a model was read from disk."""
        self._write(self._marker(_WEIGHTS_FOLDER, model), model)

    def has_kernels(self, key: str) -> bool:
        """Tell whether the kernels of a build are compiled."""
        return self._marker(_KERNELS_FOLDER, key).exists()

    def keep_kernels(self, key: str) -> None:
        """Note that the kernels of a build are compiled."""
        self._write(self._marker(_KERNELS_FOLDER, key), key)

    def _counts(self, holding: Holding) -> bool:
        if holding.alive:
            return True
        path = self._path / _GPU_FOLDER / holding.file_name
        # Nobody sees a process end; its memory is late from the first look on.
        if holding.gone_at_s is None and holding.release_s > 0:
            self._write(path, json.dumps(asdict(replace(holding, gone_at_s=time.monotonic()))))
            return True
        if time.monotonic() < (holding.gone_at_s or 0.0) + holding.release_s:
            return True
        path.unlink(missing_ok=True)
        return False

    def _marker(self, folder: str, key: str) -> Path:
        return self._path / folder / digest(key)

    @staticmethod
    def _read(path: Path) -> Holding | None:
        try:
            return Holding(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None

    @staticmethod
    def _write(path: Path, text: str) -> None:
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.write_text(text)
        beside.replace(path)


class GpuMemory:
    """What one server holds on its GPUs. Without a folder it has them to itself."""

    def __init__(
        self,
        folder: HostFolder | None,
        holders: tuple[tuple[int, int], ...],
        *,
        capacity_bytes: int,
        release_s: float,
    ) -> None:
        """Take (pid, GPU index) of each rank; `release_s` is in wall seconds."""
        self._folder = folder
        self._capacity_bytes = capacity_bytes
        self._holdings = [
            Holding(pid, started_ticks(pid) or 0, gpu, 0, release_s) for pid, gpu in holders
        ]

    def hold(self, held_bytes: int) -> None:
        """Hold so much on each GPU, instead of what was held before."""
        if self._folder is not None:
            for holding in self._holdings:
                self._folder.hold(replace(holding, held_bytes=held_bytes))

    def take(self, wanted_bytes: int) -> "Taken":
        """Take memory on each GPU, unless one of them has too little left."""
        if self._folder is None:
            return Taken(self._capacity_bytes, ())
        own = {(holding.pid, holding.gpu_index) for holding in self._holdings}
        gpus = {holding.gpu_index for holding in self._holdings}
        with self._folder.locked():
            others = [
                held
                for held in self._folder.holdings()
                if held.gpu_index in gpus and (held.pid, held.gpu_index) not in own
            ]
            used = {gpu: sum(h.held_bytes for h in others if h.gpu_index == gpu) for gpu in gpus}
            free_bytes = self._capacity_bytes - max(used.values(), default=0)
            if free_bytes >= wanted_bytes:
                self.hold(wanted_bytes)
        fullest = max(gpus, key=lambda gpu: used[gpu], default=0)
        return Taken(free_bytes, tuple(h for h in others if h.gpu_index == fullest), fullest)


@dataclass(frozen=True, slots=True)
class Taken:
    """What was free on the fullest GPU before this server took any, and who holds the rest."""

    free_bytes: int
    others: tuple[Holding, ...]
    gpu_index: int = 0
