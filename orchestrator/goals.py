"""What a sweep is after, as its card keeps it, and the ranking by it."""

from collections.abc import Mapping, Sequence

from sweeps.limits import Limit
from sweeps.ranking import Ranking, rank
from sweeps.results import TrialResult
from sweeps.sweep import Objective


def goal_of(card: Mapping[str, object]) -> Objective:
    """Read the objective of a sweep from its card."""
    limits = card.get("limits", [])
    also = card.get("also", [])
    return Objective(
        str(card.get("objective", Objective().metric)),
        [Limit.from_data(limit) for limit in limits] if isinstance(limits, list) else (),
        [str(name) for name in also] if isinstance(also, list) else (),
    )


def ranking_of(goal: Objective, results: Sequence[TrialResult]) -> Ranking:
    """Rank the trials of a sweep by its objective, within its limits."""
    upwards = goal.higher_is_better
    return rank(results, goal.metric, higher_is_better=upwards, limits=goal.limits)
