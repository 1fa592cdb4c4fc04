"""Lends ports and a temporary folder to one trial at a time, across all sweeps on a machine.

A port is reserved by a lock that dies with the process which holds it. A record of each trial,
locked likewise, says what the trial had, so that it can be found again when that process is gone.
"""

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from infra import file_lock, shared_memory
from infra.file_lock import FileLock
from infra.host import Reservation
from infra.runtime_folder import RuntimeFolder
from infra.shared_memory import Segment

# SGLang 0.5.23, srt/server_args.py: ZMQ_TCP_PORT_DELTA, and the six that follow it.
DERIVED_PORTS = range(233, 240)
"""Distances from the HTTP port to those that SGLang opens for attention under data parallelism."""
LAST_PORT = 65535

_PATIENCE_S = 1.0
"""Wall seconds; who looks at a record holds its lock for less."""
_UNFINISHED_S = 3600.0
"""A folder without a record is abandoned after that."""
_RECORD, _TEMP = "record.json", "tmp"


class NoPortError(Exception):
    """No port is left."""


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """What a trial has, or had, on this machine. One that was never finished names no sweep."""

    folder: Path
    sweep: str
    trial: str
    ports: tuple[int, ...]
    segments: frozenset[Segment]
    held: bool
    """Whether the process that made the reservation lives."""

    @property
    def key(self) -> tuple[str, str]:
        """Return sweep and trial."""
        return self.sweep, self.trial


def is_reserved(port: int) -> bool:
    """Tell whether a trial on this machine has a port."""
    return file_lock.holder(_port_lock(RuntimeFolder.of_user(), port)) is not None


@contextmanager
def made(
    sweep: str, trial: str, candidates: Iterable[int], is_free: Callable[[int], bool]
) -> Iterator[Reservation]:
    """Reserve the first ports that will do; give all back in the end.

    Raises NoPortError, or RuntimeFolderError for an unusable folder.
    """
    runtime = RuntimeFolder.of_user()
    with ExitStack() as held:
        ports = iter(candidates)
        port = _take_first(runtime, ports, is_free, held, DERIVED_PORTS)
        rendezvous_port = _take_first(runtime, ports, is_free, held, ())
        folder = _make_folder(runtime)
        reservation = Reservation(
            sweep,
            trial,
            port,
            rendezvous_port,
            temp_folder=folder / _TEMP,
            derived_ports=_derived(port, DERIVED_PORTS),
            segments=shared_memory.segments(),
        )
        record = FileLock.take(folder / _RECORD, _record_text(reservation), patience_s=_PATIENCE_S)
        assert record is not None, "nobody else takes the lock of a folder that we have made"
        try:
            yield reservation
        finally:
            record.release(keep_file=True)
            if not reservation.disputed:
                remove_folder(folder)


def records(runtime: RuntimeFolder) -> list[TrialRecord]:
    """Return the trials that have a folder, those whose process is gone among them."""
    found = (_read(folder) for folder in sorted(runtime.trials.iterdir()))
    return [record for record in found if record is not None]


def remove_folder(folder: Path) -> None:
    """Remove the folder of a trial, the record last, so that a rest can be found again."""
    shutil.rmtree(folder / _TEMP, ignore_errors=True)
    if not (folder / _TEMP).exists():
        shutil.rmtree(folder, ignore_errors=True)


def _take_first(
    runtime: RuntimeFolder,
    candidates: Iterator[int],
    is_free: Callable[[int], bool],
    held: ExitStack,
    distances: Iterable[int],
) -> int:
    for port in candidates:
        with ExitStack() as taken:
            ports = (port, *_derived(port, distances))
            if all(_take(runtime, one, taken) and is_free(one) for one in ports):
                held.push(taken.pop_all())
                return port
    raise NoPortError


def _take(runtime: RuntimeFolder, port: int, taken: ExitStack) -> bool:
    lock = FileLock.take(_port_lock(runtime, port), f"process {os.getpid()}")
    if lock is not None:
        taken.callback(lock.release)
    return lock is not None


def _derived(port: int, distances: Iterable[int]) -> tuple[int, ...]:
    # SGLang 0.5.22 and later count down where the ports would be too high.
    return tuple(
        port + distance if port + distance <= LAST_PORT else port - distance
        for distance in distances
    )


def _port_lock(runtime: RuntimeFolder, port: int) -> Path:
    return runtime.ports / str(port)


def _make_folder(runtime: RuntimeFolder) -> Path:
    folder = runtime.trials / secrets.token_hex(4)
    folder.mkdir(mode=0o700)
    (folder / _TEMP).mkdir(mode=0o700)
    return folder


def _record_text(reservation: Reservation) -> str:
    return json.dumps(
        {
            "sweep": reservation.sweep,
            "trial": reservation.trial,
            "process": os.getpid(),
            "ports": reservation.ports,
            "segments": sorted(reservation.segments),
        }
    )


def _read(folder: Path) -> TrialRecord | None:
    path = folder / _RECORD
    with suppress(OSError, ValueError, KeyError, TypeError):
        held = file_lock.holder(path) is not None
        data = json.loads(path.read_text())
        return TrialRecord(
            folder,
            str(data["sweep"]),
            str(data["trial"]),
            tuple(int(port) for port in data["ports"]),
            frozenset((str(name), int(inode)) for name, inode in data["segments"]),
            held,
        )
    with suppress(OSError):
        if time.time() - folder.stat().st_mtime > _UNFINISHED_S:
            return TrialRecord(folder, "", "", (), frozenset(), held=False)
    return None
