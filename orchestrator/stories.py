"""The story of a sweep, told from its state folder alone: it may still run, or have been killed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from infra.sglang.signatures import LOG_SIGNATURES
from orchestrator.clocks import clock_scales
from orchestrator.goals import goal_of
from orchestrator.state import State
from sweeps.reporting.story import About, Story, story_of
from sweeps.results import TrialResult
from sweeps.search.claims import Claim
from sweeps.workloads import Workload

if TYPE_CHECKING:
    from orchestrator.sweep_run import SweepRun

HINTS: Mapping[str, str] = {row.name: row.hint for row in LOG_SIGNATURES if row.hint}
"""What to do about each known fault."""


def ending(run: "SweepRun") -> dict[str, object]:
    """Return what the card of a sweep keeps of its end: what no trial's own file tells."""
    claim = run.claim()
    return {
        "claim": claim and claim.as_data(run.results),
        "collapsed": run.collapsed,
        "trouble": run.health.trouble or "",
    }


def sweep_story(state: State, sweep_id: str) -> Story:
    """Tell the story of a sweep so far. Raises BadInputError for a spool of a newer version."""
    from orchestrator.health import AMOUNTS, RETRYABLE  # what runs servers is slow to import

    card: Mapping[str, Any] = state.card(sweep_id)
    results = state.results(sweep_id)
    workload, claim = card.get("workload"), card.get("claim")
    about = About(
        sweep=sweep_id,
        name=str(card.get("name", sweep_id)),
        status=str(card.get("status", "running")),
        created_at=str(card.get("created_at", "")),
        goal=goal_of(card),
        workload=Workload.from_data(workload) if workload else None,
        trouble=str(card.get("trouble", "")),
        collapsed=int(card.get("collapsed", 0)),
        configurations=card.get("configurations"),
        clock_scales=clock_scales(card),
    )
    return story_of(
        results,
        about,
        claim=_claim(claim, results),
        hints=HINTS,
        not_blamed=RETRYABLE | AMOUNTS,
    )


def _claim(data: Any, results: Sequence[TrialResult]) -> Claim | None:
    """Read a claim; None where there is none, or the card's is spoilt."""
    try:
        return Claim.from_data(data, results) if data else None
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
