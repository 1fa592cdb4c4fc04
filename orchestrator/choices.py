"""What the command line chooses above the space file."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sweeps.hosts import EngineName


class Driver(StrEnum):
    """What moves the trials of a sweep."""

    RAY = "ray"
    SERIAL = "serial"
    """In this process, without Ray."""
    SIMULATED = "simulated"
    """Emulated hosts in this process, on a clock that costs no time."""


class WheelSource(StrEnum):
    """Where a host takes the wheels of our environment from."""

    AUTO = "auto"
    """From its registry if that answers there, else from here."""
    HOST = "host"
    SEND = "send"


@dataclass(frozen=True, slots=True)
class HostChoice:
    """What holds for all hosts. None: as the space file says."""

    engine: EngineName = EngineName.AUTO
    truth: str | None = None
    time_scale: float | None = None
    scenario: Path | None = None


AS_WRITTEN = HostChoice()
