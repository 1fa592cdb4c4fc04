"""The seam to a machine's GPUs, and the GPUs of this one, as the NVIDIA driver counts them."""

import ctypes
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device. Memory is None where the driver does not tell, as with unified memory."""

    index: int
    uuid: str
    name: str
    memory_total_bytes: int | None
    memory_used_bytes: int | None


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on one device. Its memory is None where the driver does not tell."""

    pid: int
    gpu_index: int
    used_bytes: int | None


class GpuView(Protocol):
    """What is to be seen of a machine's GPUs. Each call looks anew and none fails."""

    def list_gpus(self) -> tuple[Gpu, ...]:
        """Return the usable GPUs by index; none where there is no driver."""
        ...

    def gpu_processes(self) -> tuple[GpuProcess, ...]:
        """Return who computes on them, by GPU and pid.

        A GPU may hold more memory than its processes: that of one that is gone comes back late.
        """
        ...


class NvmlView:
    """The GPUs of this machine.

    The order is NVML's, by bus, which CUDA shares only with CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """

    def list_gpus(self) -> tuple[Gpu, ...]:
        """Return the usable NVIDIA GPUs in the driver's order; none without a driver."""
        with _open_driver() as nvml:
            if nvml is None:
                return ()
            found = (_read_gpu(nvml, index) for index in range(_count(nvml)))
            return tuple(gpu for gpu in found if gpu is not None)

    def gpu_processes(self) -> tuple[GpuProcess, ...]:
        """Return the processes with a CUDA context; in a container the driver may show none."""
        with _open_driver() as nvml:
            if nvml is None:
                return ()
            found = (_read_processes(nvml, index) for index in range(_count(nvml)))
            return tuple(process for on_gpu in found for process in on_gpu)


def count_gpus() -> int:
    """Return the number of usable NVIDIA GPUs; 0 without a driver."""
    return len(list_gpus())


def list_gpus() -> tuple[Gpu, ...]:
    """Return the usable NVIDIA GPUs of this machine."""
    return NvmlView().list_gpus()


@contextmanager
def _open_driver() -> Iterator[ModuleType | None]:
    """Yield the library while the driver is open, or None if there is no driver."""
    if not _is_installed():
        yield None
        return
    try:
        import pynvml as nvml

        nvml.nvmlInit()
    except ImportError:
        yield None
        return
    except nvml.NVMLError as error:
        _log.debug("no NVIDIA driver: %s", error)
        yield None
        return
    try:
        yield nvml
    finally:
        _close(nvml)


def _is_installed() -> bool:
    """Look for the driver's own library first: importing what speaks to it takes far longer."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def _close(nvml: ModuleType) -> None:
    try:
        nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        _log.debug("the NVIDIA driver does not close: %s", error)


def _count(nvml: ModuleType) -> int:
    try:
        return int(nvml.nvmlDeviceGetCount())
    except nvml.NVMLError as error:
        _log.warning("the NVIDIA driver does not count its devices: %s", error)
        return 0


def _read_gpu(nvml: ModuleType, index: int) -> Gpu | None:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
    except nvml.NVMLError as error:
        _log.warning("GPU %d cannot be used: %s", index, error)
        return None
    total_bytes, used_bytes = _read_memory(nvml, handle)
    return Gpu(index, str(uuid), str(name), total_bytes, used_bytes)


def _read_memory(nvml: ModuleType, handle: object) -> tuple[int | None, int | None]:
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    except nvml.NVMLError:
        return None, None
    return int(memory.total), int(memory.used)


def _read_processes(nvml: ModuleType, index: int) -> list[GpuProcess]:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        found = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except nvml.NVMLError as error:
        _log.warning("the processes of GPU %d cannot be listed: %s", index, error)
        return []
    processes = [GpuProcess(int(one.pid), index, one.usedGpuMemory) for one in found]
    return sorted(processes, key=lambda process: process.pid)
