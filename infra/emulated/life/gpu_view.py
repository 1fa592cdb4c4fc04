"""The GPUs of an emulated host, as its servers have written them into the host's folder."""

from dataclasses import dataclass

from infra.emulated.life.host_folder import HostFolder
from infra.emulated.truth import GpuModel
from infra.gpus import Gpu, GpuProcess

_IDLE_BYTES = 4 * 2**20
"""Assumption: what the driver holds on a GPU that nobody uses."""


@dataclass(frozen=True, slots=True)
class EmulatedGpuView:
    """As many devices of one model as the host has."""

    folder: HostFolder
    model: GpuModel
    count: int

    def list_gpus(self) -> tuple[Gpu, ...]:
        """Return the devices, with what is in use on each, late memory included."""
        holdings = self.folder.holdings()
        return tuple(
            Gpu(
                index,
                f"GPU-emulated-{index}",
                f"EMULATED {self.model.name}",
                int(self.model.memory_gib * 2**30),
                _IDLE_BYTES + sum(h.held_bytes for h in holdings if h.gpu_index == index),
            )
            for index in range(self.count)
        )

    def gpu_processes(self) -> tuple[GpuProcess, ...]:
        """Return the living processes that hold memory."""
        return tuple(
            GpuProcess(held.pid, held.gpu_index, held.held_bytes)
            for held in self.folder.holdings()
            if held.alive and held.gpu_index < self.count
        )
