"""Proves that nothing of a stopped server is left on its machine, within a deadline."""

import logging
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from infra import reaper, shared_memory
from infra.clock import Clock, host_s
from infra.gpu_floor import MemoryWatch, read_floors
from infra.gpus import GpuView
from infra.host import CleanReport, Reservation
from infra.local_host import LocalHost

LEAST_WAIT_WALL_S = 5.0
"""Where a host is emulated faster than life, its processes still need real time to vanish."""

_FIRST_PAUSE_WALL_S = 0.01
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_PAUSE_GROWTH = 1.5
_LATE_LOOKS = 3
_log = logging.getLogger(__name__)


class LocalPremises:
    """This machine, for the servers of one host of a sweep."""

    def __init__(
        self,
        host: LocalHost,
        gpus: GpuView,
        clock: Clock,
        *,
        name: str = "local",
        gpu_indices: Collection[int] | None = None,
    ) -> None:
        """Judge the memory of some GPUs by their index, or of all. `name` is the host's own."""
        self._host, self._gpus, self._clock = host, gpus, clock
        self._name, self._gpu_indices = name, gpu_indices

    @contextmanager
    def reserve(self, sweep: str, trial: str, folder: Path) -> Iterator[Reservation]:
        """Lend ports and a temporary folder, and note what GPU memory is in use."""
        with self._host.reserve(sweep, trial) as reservation:
            reservation.floors_bytes = read_floors(self._gpus, folder, self._name)
            yield reservation

    def prove_clean(self, reservation: Reservation, deadline_s: float) -> CleanReport:
        """Wait until nothing is left; see `prove_clean`."""
        report = prove_clean(
            reservation, self._host, self._gpus, self._clock, deadline_s, self._gpu_indices
        )
        label = f"sweep={reservation.sweep} trial={reservation.trial} host={self._name}"
        _log.log(logging.INFO if report.clean else logging.WARNING, "%s %s", label, report)
        return report


def prove_clean(
    reservation: Reservation,
    host: LocalHost,
    gpus: GpuView,
    clock: Clock,
    deadline_s: float,
    gpu_indices: Collection[int] | None = None,
) -> CleanReport:
    """Wait until nothing of a stopped server is left, or a deadline in host seconds is over.

    Processes and ports are given some wall seconds in any case. A reservation whose host is not
    clean is marked as disputed.
    """
    memory = MemoryWatch(gpus, reservation.floors_bytes, gpu_indices)
    began_s, wall_until_s = clock.now_s(), time.monotonic() + LEAST_WAIT_WALL_S
    killed, late_looks, pause_s = 0, 0, _FIRST_PAUSE_S
    while True:
        late_looks += clock.now_s() - began_s >= deadline_s
        is_back = memory.look()
        held = _held(reservation, host)
        if held.pids and not killed:
            killed = _reap(reservation)
            held = _held(reservation, host)
        if is_back and not held:
            break
        # Memory that has come down only at the deadline gets the second look that it needs.
        is_settling = not is_back and not memory.excess() and late_looks <= _LATE_LOOKS
        is_waiting = bool(held) and time.monotonic() < wall_until_s
        if late_looks and not is_waiting and not is_settling:
            break
        clock.sleep_s(max(pause_s, host_s(clock, _FIRST_PAUSE_WALL_S)))
        pause_s = min(_PAUSE_GROWTH * pause_s, _LONGEST_PAUSE_S)
    restless = [] if is_back or memory.excess() else ["GPU memory does not come to rest"]
    left = [*_words(held), *memory.excess(), *restless, *_remove_files(reservation)]
    reservation.disputed = bool(left)
    skipped = [*memory.skipped(), *_not_overseen()]
    return CleanReport(tuple(left), clock.now_s() - began_s, killed, tuple(skipped))


def _reap(reservation: Reservation) -> int:
    return reaper.reap(reservation.sweep, reservation.trial, wait_s=LEAST_WAIT_WALL_S)


class _Held:
    """What is still held: processes by their pid, and ports."""

    def __init__(self, pids: list[int], ports: list[int]) -> None:
        self.pids, self.ports = pids, ports

    def __bool__(self) -> bool:
        return bool(self.pids or self.ports)


def _held(reservation: Reservation, host: LocalHost) -> _Held:
    found = reaper.find_tagged(reservation.sweep, reservation.trial)
    # Not the derived ones: few servers open them, and any program of the machine may have come.
    ours = (reservation.port, reservation.rendezvous_port)
    ports = [port for port in ours if not host.is_port_free(port)]
    return _Held([one.pid for one in found], ports)


def _words(held: _Held) -> list[str]:
    processes = [f"process {pid} ({_name(pid)}) outlived SIGKILL" for pid in held.pids]
    if not held.ports:
        return processes
    owners = _port_owners()
    return processes + [
        f"port {port} is held by {f'process {pid} ({_name(pid)})' if pid else 'a process unknown'}"
        for port in held.ports
        for pid in [owners.get(port)]
    ]


def _port_owners() -> dict[int, int]:
    try:
        links = psutil.net_connections("tcp")
    except psutil.Error:
        return {}
    return {link.laddr.port: link.pid for link in links if link.laddr and link.pid}


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "gone since"


def _remove_files(reservation: Reservation) -> list[str]:
    """Remove what lies around; return what could not be removed."""
    shutil.rmtree(reservation.temp_folder, ignore_errors=True)
    kept = shared_memory.remove_unused(reservation.segments)
    kept += [reservation.temp_folder] if reservation.temp_folder.exists() else []
    return [f"{path} cannot be removed" for path in kept]


def _not_overseen() -> list[str]:
    return [] if shared_memory.is_overseen() else ["shared memory: others use it, unseen from here"]
