"""What a sweep is doing, as one value: what `status` prints, the page shows and other hosts send.

As JSON it is `SweepStatus.as_data`. Times end in `_s`; those of trials are the host's own seconds,
`silent_s` and `left_s` are wall seconds. Where `emulated` is true every number is of an EMULATED
host.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sweeps.hosts import GPU_HOURS

VERSION = 2
"""Of the JSON form; a reader of another one must not guess."""

RUNNING, DIED = "running", "died"
"""Two states of a sweep: its driver lives; it is gone without having said so."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """How a trial stood at a moment; None is not known then."""

    elapsed_s: float
    phase: str
    tok_s: float | None = None
    low: float | None = None
    high: float | None = None
    accept_length: float | None = None
    steps_per_s: float | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class RunningTrial:
    """A trial without an end: it runs, or was cut off if its sweep does not run."""

    trial: str
    number: int
    name: str
    purpose: str
    why: str
    host: str
    phase: str
    detail: str
    """Within a start, what it is at."""
    elapsed_s: float
    silent_s: float
    """Since it wrote something."""
    tok_s: float | None
    low: float | None
    high: float | None
    accept_length: float | None
    steps_per_s: float | None
    tokens: int | None
    curve: tuple[CurvePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class EndedTrial:
    """A trial that has ended. `value` is of the sweep's objective."""

    trial: str
    number: int
    name: str
    purpose: str
    outcome: str
    value: float | None
    low: float | None
    high: float | None
    provisional: bool
    bound: float | None
    """What it could reach at most, where that stopped it."""
    accept_length: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class SweepStatus:
    """Where a sweep stands."""

    sweep: str
    name: str
    status: str
    """running, finished, interrupted, ended early, failed; died: its driver is gone unsaid."""
    emulated: bool
    hosts: tuple[str, ...]
    metric: str
    unit: str
    created_at: str
    done: int
    """Trials that count against the budget."""
    planned: int | None
    """None where the sweep is older than this being kept."""
    outcomes: Mapping[str, int]
    gpu_hours: float
    left_s: float | None
    leader: EndedTrial | None
    """The best trial so far; of a sweep that has ended, what it recommends."""
    plain: EndedTrial | None
    spent_gpu_hours: Mapping[str, float]
    saved_gpu_hours: Mapping[str, float]
    running: tuple[RunningTrial, ...]
    ended: tuple[EndedTrial, ...]
    hours_unit: str = GPU_HOURS
    warnings: tuple[str, ...] = ()
    """The last ones of the driver."""
    certainty: str = ""
    """How sure the answer is, in a few words; empty while the sweep runs."""
    version: int = field(default=VERSION)

    @property
    def is_running(self) -> bool:
        """Tell whether more is to come."""
        return self.status == RUNNING

    @property
    def word(self) -> str:
        """Return what must stand before the numbers of an emulated host."""
        return "EMULATED " if self.emulated else ""

    def as_data(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "SweepStatus":
        """Read back what `as_data` gave, also by way of JSON.

        Raises ValueError for a form of another version.
        """
        if data.get("version") != VERSION:
            raise ValueError(f"status of version {data.get('version')}; this reads {VERSION}")
        return cls(
            **{
                **data,
                "hosts": tuple(data["hosts"]),
                "leader": data["leader"] and EndedTrial(**data["leader"]),
                "plain": data["plain"] and EndedTrial(**data["plain"]),
                "running": tuple(map(_running, data["running"])),
                "ended": tuple(EndedTrial(**one) for one in data["ended"]),
                "warnings": tuple(data["warnings"]),
            }
        )


def _running(data: Mapping[str, Any]) -> RunningTrial:
    return RunningTrial(**{**data, "curve": tuple(CurvePoint(**p) for p in data["curve"])})
