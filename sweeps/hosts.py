"""Where trials run, as a space file names it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class EngineName(StrEnum):
    """Which program answers as SGLang."""

    AUTO = "auto"
    """SGLang where a GPU is found, the emulated one elsewhere."""
    SGLANG = "sglang"
    EMULATED = "emulated"


@dataclass(frozen=True, slots=True)
class HostSpec:
    """One machine with all its GPUs.

    `python` is the interpreter that SGLang lives in; None is the one that runs the sweep. `env` is
    set for every server on this host. `time_scale` is how many times faster than life an emulated
    host runs; `truth` names its hidden cost model.
    """

    name: str = "local"
    engine: EngineName = EngineName.AUTO
    python: str | None = None
    gpus: int = 8
    version: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    time_scale: float = 50.0
    truth: str = "M"
    scenario: str | None = None
    """File that tells an emulated host what goes wrong."""
    folder: str | None = None
    """Where an emulated host keeps what its servers share. It changes nothing that is measured."""
    elsewhere: bool = False
    """It is another machine than the driver's: what can be said of it was asked there."""

    def __post_init__(self) -> None:
        """Take the word of an engine for the engine."""
        if self.engine in [*EngineName]:
            object.__setattr__(self, "engine", EngineName(self.engine))

    @property
    def emulated(self) -> bool:
        """Tell whether what runs here is no real SGLang."""
        return self.engine is EngineName.EMULATED

    @property
    def clock_scale(self) -> float:
        """Return how fast the host's clock runs: real hosts live in real time."""
        return self.time_scale if self.emulated else 1.0

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON and hashes."""
        return {
            "name": self.name,
            "engine": self.engine.value,
            "python": self.python,
            "gpus": self.gpus,
            "version": self.version,
            "env": dict(self.env),
            "time_scale": self.time_scale,
            "truth": self.truth,
            "scenario": self.scenario,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "HostSpec":
        """Read back what `as_data` wrote, of an older version or a newer one too."""
        known = {n: v for n, v in data.items() if n in cls.__dataclass_fields__}
        return cls(**{**known, "engine": EngineName(data.get("engine", EngineName.AUTO))})


GPU_HOURS, HOST_HOURS = "GPU-hours", "host-hours"


def billed_hours(gpus: int, spent_s: float) -> float:
    """Return what a trial cost: GPU-hours, or on a host without GPUs hours of the host."""
    return max(1, gpus) * spent_s / 3600


def hours_unit(gpus: Iterable[int]) -> str:
    """Name the hours of some hosts, by their numbers of GPUs."""
    return GPU_HOURS if any(gpus) else HOST_HOURS
