"""What the command line chooses above the space file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from sweeps.hosts import EngineName, HostSpec


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
class Sent:
    """What came with a space file from another machine."""

    host: HostSpec
    """This machine, as the inventory there names it."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Where files lie that the space file names by paths of that machine."""
    typed: tuple[str, ...] = ()
    """The words of the command that was typed there."""
    fetched: str = ""
    """The state folder there that the results are brought to."""


@dataclass(frozen=True, slots=True)
class HostChoice:
    """What holds for all hosts. None: as the space file says."""

    engine: EngineName = EngineName.AUTO
    truth: str | None = None
    time_scale: float | None = None
    scenario: Path | None = None
    sent: Sent | None = None
    """Set where the sweep was sent by another machine, which shows it as well."""


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """Which machines a sweep has beside this one: none, some of an inventory, or a Ray cluster."""

    hosts: tuple[str, ...] = ()
    inventory: Path = Path("hosts.toml")
    ray_address: str = ""

    @property
    def is_local(self) -> bool:
        """Tell whether trials run on this machine."""
        return not self.hosts and not self.ray_address


AS_WRITTEN = HostChoice()
THIS_MACHINE = ClusterChoice()
