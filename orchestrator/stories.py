"""The story of a sweep, told from its state folder alone: it may still run, or have been killed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from infra.sglang.signatures import AMOUNTS, LOG_SIGNATURES
from orchestrator.cards import hours_unit_in
from orchestrator.clocks import clock_scales
from orchestrator.goals import claim_in, goal_of
from orchestrator.state import State
from sweeps.reporting.story import About, Story, story_of
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
    from orchestrator.health import RETRYABLE  # what runs servers is slow to import

    card: Mapping[str, Any] = state.card(sweep_id)
    results = state.results(sweep_id)
    workload = card.get("workload")
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
        hours_unit=hours_unit_in(card),
    )
    return story_of(
        results,
        about,
        claim=claim_in(card, results),
        hints=HINTS,
        not_blamed=RETRYABLE | AMOUNTS,
    )
