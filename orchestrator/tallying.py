"""Sums up where a sweep stands, for its own display and for those who watch from outside."""

from collections.abc import Sequence

from orchestrator.events import Tally
from orchestrator.standing import Standing
from sweeps.hosts import GPU_HOURS
from sweeps.results import UNCOUNTED, TrialResult
from sweeps.sweep import Objective


def counted(results: Sequence[TrialResult]) -> list[TrialResult]:
    """Return the trials that the budget pays for: not those that a fault or we cut off."""
    return [result for result in results if result.outcome not in UNCOUNTED]


def tally_of(
    results: Sequence[TrialResult], goal: Objective, planned: int, resumed: int, elapsed_s: float,
    aside_gpu_hours: float = 0.0, hours_unit: str = GPU_HOURS,
) -> Tally:  # fmt: skip
    """Sum up; `resumed` of the counted trials are older than the run that took `elapsed_s`.

    `aside_gpu_hours` went into trials that count no longer.
    """
    return Standing(goal, results, hours_unit).tally(planned, resumed, elapsed_s, aside_gpu_hours)
