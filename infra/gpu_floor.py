"""The GPU memory in use before the first server of a sweep, and the wait until it is back there."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.gpus import Gpu, GpuView
from infra.whole_file import write_whole
from sweeps.values import digest

TOLERANCE_BYTES = 256 << 20
"""Assumption: what a driver, a desktop or a monitor takes more or less of by itself."""
STILL_BYTES = 4 << 20
"""Assumption: two readings that differ by no more are equal; drivers count in pages of 2 MiB."""


def own_gpus(view: GpuView, variables: Mapping[str, str], count: int) -> tuple[Gpu, ...]:
    """Return the GPUs that servers with these variables use: those they see, else the first."""
    gpus = view.list_gpus()
    names = [name.strip() for name in variables.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    named = [gpu for gpu in gpus if str(gpu.index) in names or gpu.uuid in names]
    return tuple(named or gpus)[:count]


def read_floors(view: GpuView, folder: Path, host: str) -> dict[str, int]:
    """Return the bytes in use on each GPU, by UUID, when this was first asked for a folder.

    The answer is kept there, so that it survives this process. What is in use less now is taken
    over: somebody else has left.
    """
    path = folder / f"gpu-floor-{digest(host)}.json"
    now = {
        gpu.uuid: gpu.memory_used_bytes
        for gpu in view.list_gpus()
        if gpu.memory_used_bytes is not None
    }
    kept = _kept(path)
    floors = {uuid: min(used, kept.get(uuid, used)) for uuid, used in now.items()}
    if floors != kept and floors:
        write_whole(path, json.dumps(floors).encode())
    return floors


def _kept(path: Path) -> dict[str, int]:
    try:
        data = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return {str(uuid): int(used) for uuid, used in data.items()}


@dataclass(slots=True)
class MemoryWatch:
    """Looks at the memory of some GPUs until it is down at its floor and stays there."""

    view: GpuView
    floors_bytes: Mapping[str, int]
    gpu_indices: Collection[int] | None = None
    """None: all of them."""
    _last: dict[str, int] = field(default_factory=dict)
    _seen: list[Gpu] = field(default_factory=list)

    def look(self) -> bool:
        """Read the memory; tell whether it is at its floor as it was at the last look."""
        self._seen = [
            gpu
            for gpu in self.view.list_gpus()
            if self.gpu_indices is None or gpu.index in self.gpu_indices
        ]
        used = {gpu.uuid: gpu.memory_used_bytes or 0 for gpu in self._known()}
        last, self._last = self._last, used
        return all(
            not _excess(self.floors_bytes[uuid], now)
            and uuid in last
            and abs(now - last[uuid]) <= STILL_BYTES
            for uuid, now in used.items()
        )

    def excess(self) -> list[str]:
        """Return, in words, which GPUs held more than their floor at the last look, and by whom."""
        return [
            f"GPU {gpu.index} holds {over / 2**30:.1f} GiB ({over} bytes) above its floor, "
            f"{self._who(gpu)}"
            for gpu in self._known()
            if (over := _excess(self.floors_bytes[gpu.uuid], gpu.memory_used_bytes or 0))
        ]

    def skipped(self) -> list[str]:
        """Return, in words, which GPUs cannot be judged."""
        known = self._known()
        gpus = [gpu for gpu in self._seen if gpu not in known]
        return [f"GPU {gpu.index}: the memory in use is not known" for gpu in gpus]

    def _known(self) -> list[Gpu]:
        return [
            gpu
            for gpu in self._seen
            if gpu.memory_used_bytes is not None and gpu.uuid in self.floors_bytes
        ]

    def _who(self, gpu: Gpu) -> str:
        pids = [one.pid for one in self.view.gpu_processes() if one.gpu_index == gpu.index]
        return f"with processes {pids} on it" if pids else "though no process is on it"


def _excess(floor_bytes: int, used_bytes: int) -> int:
    return used_bytes - floor_bytes if used_bytes > floor_bytes + TOLERANCE_BYTES else 0
