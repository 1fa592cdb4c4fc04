"""How a trial ended and what it measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any

from sweeps.config import Config
from sweeps.quality import Verdict
from sweeps.values import Value


class Outcome(StrEnum):
    """How a trial ended; each has one meaning for the search, the tracker and the reports."""

    MEASURED = "measured"
    STOPPED = "stopped"
    """Confidently worse than the incumbent; the bound is kept."""
    PARTIAL = "partial"
    """A deadline came first; the rate so far and its interval are kept."""
    INFEASIBLE = "infeasible"
    """The configuration itself cannot run; the search learns it."""
    HUNG = "hung"
    FAILED = "failed"
    """The host, a port or the platform failed; nothing is learned about the configuration."""
    CANCELLED = "cancelled"

    @property
    def has_rate(self) -> bool:
        """Tell whether a rate of this trial may be ranked."""
        return self in (Outcome.MEASURED, Outcome.PARTIAL)


UNCOUNTED = (Outcome.CANCELLED, Outcome.FAILED)
"""Ends that no budget of trials pays for: a fault, or somebody, cut them off."""


class Phase(StrEnum):
    """Where in its life a trial is."""

    ADMITTED = "admitted"
    STARTING = "starting"
    WARMING = "warming"
    PROBING = "step probe"
    COLD = "cold pass"
    SETTLING = "generated warm-up"
    MEASURING = "measuring"
    LOADED = "loaded pass"
    OPEN_LOOP = "open loop"
    STOPPING = "stopping"
    CLEAN = "clean"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured number with its 95 % interval; `low` and `high` are None where there is none."""

    value: float
    low: float | None
    high: float | None
    duration_s: float
    method: str
    provisional: bool
    """Measured for less than the 30 s from which the interval keeps its promise."""

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {
            "value": self.value, "low": self.low, "high": self.high,
            "duration_s": self.duration_s, "method": self.method,
            "provisional": self.provisional,
        }  # fmt: skip

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Estimate | None":
        """Read back what `as_data` wrote.

        None where the value is no finite number, as older versions could write: it is unknown.
        An end of the interval that is none is left out. Raises ValueError, KeyError or TypeError
        for anything else.
        """
        value = _finite(data["value"])
        if value is None:
            return None
        _require(isinstance(data["method"], str), "estimates")
        ends = _finite(data["low"]), _finite(data["high"])
        duration_s = _finite(data["duration_s"]) or 0.0
        return cls(value, *ends, duration_s, data["method"], bool(data["provisional"]))


def _finite(number: object) -> float | None:
    """Return a number; None for none, and for one that is not finite. Raises TypeError."""
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(f"{type(number).__name__} where a number belongs")
    return number if isfinite(number) else None


def _finite_items(data: object) -> dict[str, float]:
    if not isinstance(data, dict):
        raise TypeError(f"{type(data).__name__} where numbers by name belong")
    numbers = {str(name): _finite(number) for name, number in data.items()}
    return {name: number for name, number in numbers.items() if number is not None}


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The end of a trial, with all that is needed to rank, report, repeat and export it."""

    trial: str
    sweep: str
    number: int
    config: Config
    outcome: Outcome
    reason: str
    phase: Phase
    """The last phase that was entered before the server was stopped."""
    emulated: bool
    host: str
    engine_version: str
    gpu_hours: float
    started_at: str
    phase_s: dict[str, float] = field(default_factory=dict)
    estimates: dict[str, Estimate] = field(default_factory=dict)
    bound: float | None = None
    """Upper bound of the objective that justified an early stop."""
    effective: dict[str, Value] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    purpose: str = "search"
    why: str = ""
    """In words, where the search gave a reason to try it."""
    retry_of: int | None = None
    """Number of the trial that was cut off or spoiled, and that this one tries again."""
    log_accept_length: float | None = None
    """Mean of the server's own log lines over the measured pass, to check ours against."""
    quality: Verdict = Verdict.UNKNOWN
    """How its greedy texts stand to plain decode's."""
    quality_note: str = ""
    notes: tuple[str, ...] = ()
    """What a reader of the figures must know: a drift, factors that do not agree."""
    signature: str = ""
    """Name of the known fault that ended the trial, from the table of log signatures."""
    requested: dict[str, Value] = field(default_factory=dict)
    """All settings that the server was started with, by our names."""
    fingerprint: str = ""
    """Of the host as it was probed: results of two fingerprints do not compare."""
    start_phase_s: dict[str, float] = field(default_factory=dict)
    """Host seconds of each phase of the start, as the server's log tells them."""
    start_phase: str = ""
    """What the start was at when the trial ended; empty for a server that came up."""
    dirty: str = ""
    """Why the host could not be proved clean after the stop; empty where it was."""

    @property
    def where(self) -> str:
        """Say how far it came: `at graph capture` of its start, `while measuring` after it."""
        return f"at {self.start_phase}" if self.start_phase else f"while {self.phase.value}"

    @property
    def may_lead(self) -> bool:
        """Tell whether the rate of this trial may be ranked: broken text is no speed."""
        return self.outcome.has_rate and self.quality.recommendable

    def value(self, metric: str) -> float | None:
        """Return the value of a metric; None where it was not measured."""
        estimate = self.estimates.get(metric)
        return None if estimate is None else estimate.value

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {
            "trial": self.trial, "sweep": self.sweep, "number": self.number,
            "variant": self.config.variant, "config": dict(self.config),
            "outcome": self.outcome.value, "reason": self.reason, "phase": self.phase.value,
            "emulated": self.emulated, "host": self.host, "engine_version": self.engine_version,
            "gpu_hours": self.gpu_hours, "started_at": self.started_at, "phase_s": self.phase_s,
            "estimates": {name: e.as_data() for name, e in self.estimates.items()},
            "bound": self.bound, "effective": self.effective, "argv": list(self.argv),
            "env": self.env, "purpose": self.purpose, "why": self.why,
            "retry_of": self.retry_of,
            "log_accept_length": self.log_accept_length, "quality": self.quality.value,
            "quality_note": self.quality_note, "notes": list(self.notes),
            "signature": self.signature, "requested": self.requested,
            "fingerprint": self.fingerprint, "start_phase_s": self.start_phase_s,
            "start_phase": self.start_phase, "dirty": self.dirty,
        }  # fmt: skip

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> "TrialResult":
        """Read back what `as_data` wrote.

        Numbers that are not finite, as older versions could write, are left out and noted.
        Raises ValueError for what is no result.
        """
        try:
            return _checked(cls(**_fields(cls, data)))
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def _fields(cls: type[TrialResult], data: Mapping[str, object]) -> dict[str, Any]:
    known: dict[str, Any] = {n: data[n] for n in cls.__dataclass_fields__ if n in data}
    known["config"] = Config.of(dict(known["config"]))
    known["outcome"] = Outcome(str(data["outcome"]))
    known["phase"] = Phase(str(data["phase"]))
    known["quality"] = Verdict(str(data.get("quality", Verdict.UNKNOWN)))
    known["argv"] = tuple(known["argv"])
    read = {name: Estimate.from_data(told) for name, told in known["estimates"].items()}
    known["estimates"] = {name: e for name, e in read.items() if e is not None}
    known["gpu_hours"] = _finite(data["gpu_hours"]) or 0.0
    for name in ("phase_s", "start_phase_s"):
        known[name] = _finite_items(data.get(name, {}))
    for name in ("bound", "log_accept_length"):
        known[name] = _finite(data.get(name))
    lost = sorted(read.keys() - known["estimates"].keys())
    known["notes"] = (*known.get("notes", ()), *_without(lost))
    return known


def _without(lost: list[str]) -> tuple[str, ...]:
    if not lost:
        return ()
    return (f"its file holds no finite number for {', '.join(lost)}: left out as unknown",)


_TEXTS = (
    "trial", "sweep", "reason", "host", "engine_version", "started_at", "purpose", "why",
    "quality_note", "signature", "fingerprint", "start_phase", "dirty",
)  # fmt: skip


def _checked(result: TrialResult) -> TrialResult:
    """See that all fields are what their names say: a file may hold anything."""
    for name in _TEXTS:
        _require(isinstance(getattr(result, name), str), name)
    _require(type(result.number) is int, "number")
    _require(type(result.emulated) is bool, "emulated")
    _require(result.retry_of is None or type(result.retry_of) is int, "retry_of")
    _require(all(isinstance(word, str) for word in (*result.argv, *result.notes)), "argv")
    _require(all(isinstance(value, str) for value in result.env.values()), "env")
    values = result.config.values()
    _require(all(v is None or isinstance(v, str | int | float) for v in values), "config")
    for name in ("effective", "requested"):
        _require(isinstance(getattr(result, name), dict), name)
    return result


def _require(holds: bool, name: str) -> None:
    if not holds:
        raise ValueError(f"`{name}` holds what it cannot hold")
