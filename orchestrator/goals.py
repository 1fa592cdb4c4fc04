"""What a sweep is after and what it claimed, as its card keeps both; its ranking and its answer."""

from collections.abc import Mapping, Sequence

from sweeps.limits import Limit
from sweeps.ranking import Ranking, rank
from sweeps.reporting.answer import Answer, answer_of
from sweeps.results import TrialResult
from sweeps.search.claims import Claim
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


def claim_in(card: Mapping[str, object], results: Sequence[TrialResult]) -> Claim | None:
    """Read what the search claimed at the end; None where it plans nothing, while it runs, and
    where the card's claim is spoilt."""
    claim = card.get("claim")
    try:
        return Claim.from_data(claim, results) if isinstance(claim, Mapping) else None
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def answer_in(card: Mapping[str, object], results: Sequence[TrialResult]) -> Answer | None:
    """Return what a sweep recommends so far; None where nothing was measured within its limits."""
    return answer_of(results, goal_of(card), claim_in(card, results))
