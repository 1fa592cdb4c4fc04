"""Sums up where a sweep stands, for its own display and for those who watch from outside."""

from collections.abc import Sequence

from orchestrator.events import Tally
from sweeps.results import Outcome, TrialResult
from sweeps.sweep import Objective

_UNCOUNTED = (Outcome.CANCELLED, Outcome.FAILED)


def counted(results: Sequence[TrialResult]) -> list[TrialResult]:
    """Return the trials that the budget pays for: not those that a fault or we cut off."""
    return [result for result in results if result.outcome not in _UNCOUNTED]


def tally_of(
    results: Sequence[TrialResult], goal: Objective, planned: int, resumed: int, elapsed_s: float,
    aside_gpu_hours: float = 0.0,
) -> Tally:  # fmt: skip
    """Sum up; `resumed` of the counted trials are older than the run that took `elapsed_s`.

    `aside_gpu_hours` went into trials that count no longer.
    """
    done = len(counted(results))
    here = done - resumed
    left_s = elapsed_s / here * max(0, planned - done) if here > 0 else None
    measured = [r for r in results if r.may_lead and r.value(goal.metric) is not None]
    plain = [result for result in measured if result.config.is_plain]
    gpu_hours = aside_gpu_hours + sum(result.gpu_hours for result in results)
    return Tally(done, planned, gpu_hours, _best(measured, goal), _best(plain, goal), left_s)


def _best(results: Sequence[TrialResult], goal: Objective) -> TrialResult | None:
    sign = 1 if goal.higher_is_better else -1
    return max(results, key=lambda r: sign * (r.value(goal.metric) or 0.0), default=None)
