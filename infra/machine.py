"""What of a machine decides which settings can matter on it."""

from dataclasses import dataclass
from enum import StrEnum


class Interconnect(StrEnum):
    """How the GPUs of one machine reach each other."""

    PCIE = "PCIe"
    NVLINK = "NVLink"
    """Some or all pairs directly, without a switch."""
    NVSWITCH = "NVSwitch"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPUs of a host and what joins them."""

    gpus: int
    interconnect: Interconnect = Interconnect.UNKNOWN
    capability: tuple[int, int] | None = None
    """Compute capability of the GPUs, such as (9, 0); None where nobody tells."""
    nccl_version: str = ""
