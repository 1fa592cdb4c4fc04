"""Who follows a sweep from outside: displays and the like."""

from dataclasses import dataclass
from typing import Protocol

from orchestrator.job import TrialJob, TrialProgress
from sweeps.hosts import GPU_HOURS
from sweeps.results import TrialResult
from sweeps.sweep import Sweep


@dataclass(frozen=True, slots=True)
class SweepStart:
    """What is known before the first trial."""

    sweep_id: str
    sweep: Sweep
    emulated: bool
    done_trials: int
    """Trials that an earlier run of the same sweep left finished."""
    store: str = ""
    """Where its runs go, in words; empty where no tracker is told."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Where a sweep stands."""

    trials_done: int
    trials_planned: int
    gpu_hours: float
    incumbent: TrialResult | None
    plain: TrialResult | None
    left_s: float | None
    """Wall seconds to the end, by the mean of the trials so far."""
    hours_unit: str = GPU_HOURS


class Follower(Protocol):
    """Shows a sweep. Called from the driver's thread; returns at once. Its errors are counted."""

    def sweep_started(self, start: SweepStart) -> None:
        """Begin."""
        ...

    def trial_started(self, job: TrialJob) -> None:
        """A trial was handed out."""
        ...

    def progress(self, progress: TrialProgress, tally: Tally) -> None:
        """A trial gave a sign of life."""
        ...

    def trial_ended(self, result: TrialResult, tally: Tally) -> None:
        """A trial ended."""
        ...

    def sweep_ended(self, status: str) -> None:
        """End; `status` is finished or interrupted."""
        ...
