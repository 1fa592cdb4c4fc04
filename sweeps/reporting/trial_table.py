"""Every trial of a sweep in a row, with where its spool lies: what all numbers lead back to."""

from collections.abc import Mapping
from dataclasses import dataclass

from sweeps.naming import short
from sweeps.phrases import figure
from sweeps.reporting.parts import Cell, ranged
from sweeps.reporting.story import Story
from sweeps.results import Outcome, TrialResult


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial."""

    number: int
    trial: str
    variant: str
    css: str
    cells: tuple[Cell, ...]
    spool: str
    """Its path, from the state folder."""


def head_of(story: Story) -> tuple[str, ...]:
    """Return the head of the table, after the number."""
    return (
        "configuration", "purpose", "outcome", f"{story.word}{story.about.goal.metric},"
        f" {story.unit}", "accept length", "cycle, ms", story.ledger.unit, "said",
    )  # fmt: skip


def rows_of(story: Story, spools: Mapping[int, str]) -> tuple[TrialRow, ...]:
    """Return the rows in the order of the trials. `spools` are paths by trial number."""
    return tuple(
        TrialRow(r.number, r.trial, r.config.variant, r.outcome.value, _cells(story, r),
                 spools.get(r.number, ""))
        for r in story.results
    )  # fmt: skip


def _cells(story: Story, result: TrialResult) -> tuple[Cell, ...]:
    return (
        Cell(short(result.config)),
        Cell(result.purpose),
        Cell(result.outcome.value),
        _objective(story, result),
        _number(result, "accept_length"),
        _number(result, "cycle_ms"),
        Cell(figure(result.gpu_hours), (), result.gpu_hours),
        Cell("; ".join([*([result.reason] if result.reason else []), *result.notes])),
    )


def _objective(story: Story, result: TrialResult) -> Cell:
    found = result.estimates.get(story.about.goal.metric)
    if result.outcome is Outcome.STOPPED and result.bound is not None:
        return Cell(f"at most {figure(result.bound)}", (), result.bound)
    if found is None or not result.outcome.has_rate:
        return Cell("")
    sign = "~" if found.provisional else ""
    return Cell(sign + ranged(found.value, found.low, found.high), (), found.value)


def _number(result: TrialResult, metric: str) -> Cell:
    found = result.estimates.get(metric)
    return Cell("") if found is None else Cell(figure(found.value), (), found.value)
