"""The machine around the devices: kernel, processors, memory, and what is left of it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from infra.probing.facts import Iommu, Room, System

_PCI = "sys/bus/pci/devices"
_BRIDGE_CLASS = "0x0604"
_NVIDIA = "0x10de"
_ACS_CAPABILITY = 0x000D
_ACS_REDIRECTS = 0b0000_1100
"""Request and completion redirect (PCI Express Base Specification, ACS Control Register)."""
_EXTENDED_FROM = 0x100


def read_system(root: Path) -> System:
    """Read what lasts until the next boot; `root` is / but in tests. Raises OSError."""
    return System(
        kernel=(root / "proc/sys/kernel/osrelease").read_text().strip(),
        cpu_model=_cpu_model(root),
        cpu_count=len(os.sched_getaffinity(0)),
        numa_nodes=sum(1 for _ in root.glob("sys/devices/system/node/node[0-9]*")),
        iommu=_iommu(root),
        acs_bridges=_acs_bridges(root),
    )


def read_memory(root: Path) -> tuple[int, int]:
    """Return all and available bytes of RAM, within what this container may use."""
    fields = dict(_fields(root / "proc/meminfo"))
    total, available = (
        int(fields[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable")
    )
    limit = _number(root / "sys/fs/cgroup/memory.max")
    if limit is None or limit >= total:
        return total, available
    stat = root / "sys/fs/cgroup/memory.stat"
    # File pages count as used, and are given up for whoever needs the room.
    cached = sum(_counter(stat, name) for name in ("inactive_file", "active_file"))
    used = (_number(root / "sys/fs/cgroup/memory.current") or 0) - cached
    return limit, min(available, max(0, limit - used))


def read_room(root: Path, state: Path, model: Path | None) -> Room:
    """Look how much is left in memory and on disk. Raises OSError."""
    total, available = read_memory(root)
    shm = shutil.disk_usage(root / "dev/shm")
    disk = shutil.disk_usage(_nearest(state))
    model_bytes = folder_bytes(model) if model else None
    return Room(total, available, shm.total, shm.free, disk.free, model_bytes)


def _cpu_model(root: Path) -> str:
    for name, value in _fields(root / "proc/cpuinfo"):
        if name == "model name":
            return value
    return ""


def _iommu(root: Path) -> Iommu:
    """Read the mode of the GPUs' groups, or of all where there are none."""
    folder = root / "sys/kernel/iommu_groups"
    gpus = (at for at in root.glob(f"{_PCI}/*") if _word(at / "vendor") == _NVIDIA)
    modes = {_word(gpu / "iommu_group/type") for gpu in gpus} - {""}
    modes = modes or {_word(kind) for kind in folder.glob("*/type")}
    if not modes:
        return Iommu.OFF if folder.is_dir() else Iommu.UNKNOWN
    return Iommu.PASSTHROUGH if modes == {"identity"} else Iommu.TRANSLATING


def _acs_bridges(root: Path) -> int | None:
    """Count the bridges that redirect traffic; only root may read this far."""
    configs = [
        (folder / "config").read_bytes()
        for folder in root.glob(f"{_PCI}/*")
        if _word(folder / "class").startswith(_BRIDGE_CLASS)
    ]
    readable = [config for config in configs if len(config) > _EXTENDED_FROM]
    if not readable:
        return None
    return sum(1 for config in readable if _acs_control(config) & _ACS_REDIRECTS)


def _acs_control(config: bytes) -> int:
    """Follow the chain of extended capabilities to the ACS control register; 0 without one."""
    at, seen = _EXTENDED_FROM, set[int]()
    while _EXTENDED_FROM <= at <= len(config) - 8 and at not in seen:
        seen.add(at)
        head = int.from_bytes(config[at : at + 4], "little")
        if head & 0xFFFF == _ACS_CAPABILITY:
            return int.from_bytes(config[at + 6 : at + 8], "little")
        at = head >> 20
    return 0


def _fields(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text().splitlines():
        name, _, value = line.partition(":")
        yield name.strip(), value.strip()


def _word(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _word(path)
    return int(text) if text.isdigit() else None


def _counter(path: Path, name: str) -> int:
    lines = (line.split() for line in _word(path).splitlines())
    return next((int(words[1]) for words in lines if words[:1] == [name]), 0)


def _nearest(path: Path) -> Path:
    """Return the path or the first folder above it that is there."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())


def folder_bytes(folder: Path) -> int | None:
    """Return what the files of a folder take; None where there is no folder."""
    if not folder.is_dir():
        return None
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
