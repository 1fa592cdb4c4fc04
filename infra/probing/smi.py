"""What nvidia-smi tells of a host's devices; an emulated host answers the same questions."""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.probing.facts import GpuFacts, GpuUser, Note
from infra.probing.links import Links, read_links
from infra.probing.reading import ReadError, ask, message_of

PROGRAM = "nvidia-smi"
SMI_S = 30.0
"""Without a daemon that keeps the driver awake, eight GPUs take seconds to answer."""

_GPU_FIELDS = ("index", "uuid", "name", "memory.total", "memory.used", "compute_cap")
_GPU_QUERY = ",".join([*_GPU_FIELDS, "driver_version"])
_USER_QUERY = "pid,gpu_uuid,used_memory,process_name"
_FORM = "--format=csv,noheader,nounits"
_CUDA = re.compile(r"CUDA (?:UMD )?Version\s*:\s*([\d.]+)")
_MIB = 2**20
_MOST_NOTES = 8
_DEVICES = ("GPU-", "MIG-")
_INFOROM = re.compile(r"(?i)warning: infoROM is corrupted")
"""Of nvidia-smi(1)'s return values it alone (14) leaves the answer whole."""
GPUS = "GPUs"
GPU_USERS = "GPU processes"


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices, the version of their driver, and what was said beside them."""

    gpus: tuple[GpuFacts, ...] = ()
    driver: str = ""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Users:
    """Pid, device's uuid, name and bytes of all that compute, and what was said beside them."""

    rows: tuple[tuple[int, str, str, int | None], ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Smi:
    """One way to ask: the program of the driver, or that of an emulated host.

    It may fail and have told all the same: a corrupted infoROM is told by exit code 14 after rows
    that are good, a GPU that is lost by words in its row.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path

    def gpus(self) -> Devices:
        """Return the devices. Raises ReadError."""
        rows, notes = self._rows(GPUS, f"--query-gpu={_GPU_QUERY}", 7, _is_gpu)
        return Devices(tuple(_gpu(row) for row in rows), rows[0][6] if rows else "", notes)

    def users(self) -> Users:
        """Return who computes on the devices. Raises ReadError."""
        query = f"--query-compute-apps={_USER_QUERY}"
        rows, notes = self._rows(GPU_USERS, query, 4, _has_pid)
        found = tuple((int(row[0]), row[1], row[3], _bytes(row[2])) for row in rows)
        return Users(found, notes)

    def links(self) -> Links:
        """Return what joins the devices. Raises ReadError, ValueError."""
        text, trouble = self._told("topo", "-m")
        try:
            return read_links(text)
        except ValueError as error:
            raise trouble or error from error

    def cuda_version(self) -> str:
        """Return the newest CUDA that the driver serves. Raises ReadError."""
        text, trouble = self._told()
        found = _CUDA.search(text)
        if found is None:
            raise trouble or ReadError(f"{PROGRAM} does not name it")
        return found.group(1)

    def _rows(
        self, fact: str, query: str, count: int, is_good: Callable[[list[str]], bool]
    ) -> tuple[list[list[str]], tuple[Note, ...]]:
        """Return the rows that are good, and name what else was told. Raises ReadError."""
        text, trouble = self._told(query, _FORM)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        parted = {line: _fields(line, count) for line in lines}
        good = [fields for fields in parted.values() if len(fields) == count and is_good(fields)]
        others = [line for line, fields in parted.items() if fields not in good]
        if not good and not (fact == GPU_USERS and _only_warns(others)):
            if trouble is not None:
                raise trouble
            if others and not any(len(parted[line]) == count for line in others):
                told = message_of(*others)
                raise ReadError(f"{PROGRAM} answers in a form that is not known: {told}")
        said = [f"{PROGRAM} tells besides: {message_of(line)}" for line in others[:_MOST_NOTES]]
        if len(others) > _MOST_NOTES:
            said.append(f"{PROGRAM} tells {len(others) - _MOST_NOTES} lines more")
        if trouble is not None and not others:
            said.append(str(trouble))
        return good, tuple(Note(fact, why, is_warning=True) for why in said)

    def _told(self, *words: str) -> tuple[str, ReadError | None]:
        """Return what was printed, and the error of a program that printed and failed."""
        try:
            return self._ask(*words), None
        except ReadError as error:
            if not error.printed.strip():
                raise
            return error.printed, error

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
    return [field.strip() for field in line.split(", ", count - 1)]


def _is_gpu(row: list[str]) -> bool:
    """Tell a device from one that is lost, whose fields are words in brackets."""
    return row[0].isdecimal() and row[0].isascii() and row[1].startswith(_DEVICES)


def _has_pid(row: list[str]) -> bool:
    is_pid = row[0].isdecimal() and row[0].isascii() and int(row[0]) > 0
    return is_pid and row[1].startswith(_DEVICES)


def _only_warns(lines: list[str]) -> bool:
    """Tell whether a corrupted infoROM is all that was told: nothing else is wrong then."""
    return bool(lines) and all(_INFOROM.match(line) for line in lines)


def told_besides(devices: Devices, users: Users) -> tuple[Note, ...]:
    """Return what was told beside the rows; what both queries were told, once."""
    known = {note.why for note in devices.notes}
    return (*devices.notes, *(note for note in users.notes if note.why not in known))


def _bytes(mib: str) -> int | None:
    return int(mib) * _MIB if mib.isascii() and mib.isdigit() else None


def _capability(text: str) -> tuple[int, int] | None:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
