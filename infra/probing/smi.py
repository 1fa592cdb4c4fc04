"""What nvidia-smi tells of a host's devices; an emulated host answers the same questions."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.probing.facts import GpuFacts, GpuUser
from infra.probing.links import Links, read_links
from infra.probing.reading import ReadError, ask

PROGRAM = "nvidia-smi"
SMI_S = 30.0
"""Without a daemon that keeps the driver awake, eight GPUs take seconds to answer."""

_GPU_FIELDS = ("index", "uuid", "name", "memory.total", "memory.used", "compute_cap")
_GPU_QUERY = ",".join([*_GPU_FIELDS, "driver_version"])
_USER_QUERY = "pid,gpu_uuid,used_memory,process_name"
_FORM = "--format=csv,noheader,nounits"
_CUDA = re.compile(r"CUDA (?:UMD )?Version\s*:\s*([\d.]+)")
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Smi:
    """One way to ask: the program of the driver, or that of an emulated host."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path

    def gpus(self) -> tuple[tuple[GpuFacts, ...], str]:
        """Return the devices and the version of their driver. Raises ReadError."""
        rows = [_fields(line, 7) for line in self._lines(f"--query-gpu={_GPU_QUERY}", _FORM)]
        found = tuple(_gpu(row) for row in rows)
        return found, rows[0][6] if rows else ""

    def users(self) -> tuple[tuple[int, str, str, int | None], ...]:
        """Return pid, device's uuid, name and bytes of all that compute. Raises ReadError."""
        lines = self._lines(f"--query-compute-apps={_USER_QUERY}", _FORM)
        rows = [_fields(line, 4) for line in lines]
        return tuple((int(row[0]), row[1], row[3], _bytes(row[2])) for row in rows)

    def links(self) -> Links:
        """Return what joins the devices. Raises ReadError, ValueError."""
        return read_links(self._ask("topo", "-m"))

    def cuda_version(self) -> str:
        """Return the newest CUDA that the driver serves. Raises ReadError."""
        found = _CUDA.search(self._ask())
        if found is None:
            raise ReadError(f"{PROGRAM} does not name it")
        return found.group(1)

    def _lines(self, *words: str) -> list[str]:
        return [line for line in self._ask(*words).splitlines() if line.strip()]

    def _ask(self, *words: str) -> str:
        return ask([*self.argv, *words], self.env, SMI_S, self.cwd)


def emulated_argv() -> tuple[str, ...]:
    """Return the command that answers for an emulated host, told by its environment which."""
    return (sys.executable, "-m", "infra.emulated.smi")


def gpu_users(
    rows: tuple[tuple[int, str, str, int | None], ...],
    gpus: tuple[GpuFacts, ...],
    sweeps: Mapping[int, str],
) -> tuple[GpuUser, ...]:
    """Name the device of each process by its index, and the sweep that it belongs to."""
    indices = {gpu.uuid: gpu.index for gpu in gpus}
    found = [
        GpuUser(pid, indices[uuid], name, used_bytes, sweeps.get(pid, ""))
        for pid, uuid, name, used_bytes in rows
        if uuid in indices
    ]
    return tuple(sorted(found, key=lambda user: (user.gpu_index, user.pid)))


def _gpu(row: list[str]) -> GpuFacts:
    index, uuid, name, total, used, capability = row[:6]
    return GpuFacts(int(index), uuid, name, _bytes(total), _bytes(used), _capability(capability))


def _fields(line: str, count: int) -> list[str]:
    """Split a line; the last field may hold commas."""
    fields = [field.strip() for field in line.split(", ", count - 1)]
    if len(fields) != count:
        raise ReadError(f"{PROGRAM} answers in a form that is not known: {line[:80]}")
    return fields


def _bytes(mib: str) -> int | None:
    return int(mib) * _MIB if mib.isdigit() else None


def _capability(text: str) -> tuple[int, int] | None:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
