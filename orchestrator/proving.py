"""What `verify` and `compare` do: fresh starts of given plans, and whether they are alike."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from orchestrator.choices import Driver
from orchestrator.proof_plan import PLAIN, ProofChoice, ProofPlan
from orchestrator.proofs import AS_EXPORTED, Proof, percent
from orchestrator.search.given import GivenSearch
from orchestrator.state import State, new_sweep_id
from orchestrator.subjects import Subject
from orchestrator.sweeping import Mover, run_given
from sweeps.equivalence import (
    Comparison,
    Likeness,
    Side,
    Spread,
    compare,
    detectable,
    reading_of,
    side_of,
    starts_needed,
)
from sweeps.results import Outcome, TrialResult
from sweeps.search.evidence import Reading

if TYPE_CHECKING:
    from orchestrator.cluster.lent import Cluster

_ZONE_STEP = 0.005
"""A zone that nobody names is rounded up to this."""
_LIKELY_MEASURING = 0.005**2
"""Variance of the measuring of one start (assumption, where the export says nothing)."""


class Proving:
    """One verification or comparison: what it will do is known before anything starts."""

    def __init__(
        self,
        state: State,
        subjects: Sequence[Subject],
        choice: ProofChoice,
        cluster: "Cluster | None" = None,
    ) -> None:
        """Check everything that can be checked without a start.

        Raises BadInputError, and HostError where a host of a cluster is lost.
        """
        self._state, self._choice, self._cluster = state, choice, cluster
        self._first, self._other = subjects[0], subjects[1] if len(subjects) > 1 else None
        self._plan = ProofPlan(state, subjects, choice, cluster)
        self.notes = self._plan.notes
        self._sealed = float(self._first.record["zone_fraction"])
        """The indifference of the sweep."""
        shown = math.ceil(self._least / _ZONE_STEP) * _ZONE_STEP
        self.zone_fraction = max(self._sealed, shown) if choice.within is None else choice.within

    @property
    def emulated(self) -> bool:
        """Tell whether nothing real is started."""
        return self._plan.host.emulated

    @property
    def forecast(self) -> str:
        """Say what so many starts can show."""
        text = (
            f"{len(self._plan.trials)} starts can mostly show that two figures are alike within"
            f" {percent(self._least)}; the zone is {percent(self.zone_fraction)}"
        )
        if self._least > self.zone_fraction:
            needed = self._starts_for(self.zone_fraction)
            more = f"--starts {needed}" if needed else "a wider zone, --within"
            return f"{text}: this may end undecided, {more} would do"
        if self._choice.within is None and self.zone_fraction > self._sealed:
            needed = self._starts_for(self._sealed)
            more = f"--starts {needed} would show that" if needed else "no --starts would show that"
            return f"{text}, as the sweep's indifference is {percent(self._sealed)} and {more}"
        return text

    def run(self) -> Proof:
        """Make the starts and judge them. Ctrl-C ends it as it ends a sweep."""
        search = GivenSearch(self._plan.trials, self._first_number())
        sweep_id = new_sweep_id(self._plan.sweep.name)
        plan = self._plan
        status, run = run_given(
            sweep_id, plan.sweep, self._state, Mover(self._choice.driver, self._cluster),
            {plan.host.name: plan.facts}, plan.card(self.zone_fraction), search,
        )  # fmt: skip
        groups: dict[str, list[TrialResult]] = {trial.side: [] for trial in self._plan.trials}
        for result in run.results:
            groups[search.side(result.number)].append(result)
        return self._judged(sweep_id, groups, interrupted=status == "interrupted")

    def _first_number(self) -> int:
        """Return the number of the first trial: an emulated host draws its luck from it."""
        if not self._plan.host.emulated:
            return 0
        cards = [self._state.card(one) for one in self._state.sweep_ids()]
        return 1000 + 100 * sum(1 for card in cards if card.get("verifies"))

    @property
    def _metric(self) -> str:
        return str(self._first.record["metric"])

    @property
    def _spread(self) -> Spread:
        fraction, weight = self._first.record["launch_spread"]
        return Spread(float(fraction), float(weight))

    @cached_property
    def _least(self) -> float:
        """The narrowest zone that the starts can mostly show."""
        fixed = self._exported()
        return detectable(
            self._spread, _measuring(fixed), fixed, self._fresh_sides, self._choice.starts
        )

    def _starts_for(self, zone_fraction: float) -> int | None:
        fixed = self._exported()
        return starts_needed(
            zone_fraction, self._spread, _measuring(fixed), fixed, self._fresh_sides
        )

    @property
    def _fresh_sides(self) -> int:
        return 1 if self._is_plain_verify else 2

    @property
    def _is_plain_verify(self) -> bool:
        return self._other is None and not self._choice.with_plain

    def _exported(self) -> list[Side]:
        """Return what the sweep had measured: the rate, or the gain by both of its rates."""
        if self._other is not None:
            return []
        data = self._first.record
        ours, plain = data["measuring"]
        sides = [_exported_side(data, ours)]
        if self._choice.with_plain:
            sides.append(_exported_side(data["baseline"], plain))
        return sides

    def _judged(
        self, sweep_id: str, groups: Mapping[str, Sequence[TrialResult]], *, interrupted: bool
    ) -> Proof:
        same = self._plan.sweep.workload.temperature == 0
        readings = {
            side: [x for r in group if (x := reading_of(r, self._metric, same_texts=same))]
            for side, group in groups.items()
        }
        names, ended = list(groups), [r for group in groups.values() for r in group]
        blamed = next((self._failure(r) for r in ended if _is_to_blame(r)), "")
        comparison, likeness = None, None
        if all(readings.values()) and not interrupted:
            comparison = self._compare(list(readings.values()))
            alike = comparison.likeness(self.zone_fraction)
            likeness = Likeness.DIFFERENT if blamed else alike
        return Proof(
            sweep_id=sweep_id,
            emulated=self.emulated,
            zone_fraction=self.zone_fraction,
            comparison=comparison,
            likeness=likeness,
            above=f"the gain over {PLAIN}" if self._choice.with_plain else names[0],
            below=AS_EXPORTED if self._other is None else names[1],
            rates={side: tuple(math.exp(x.value) for x in g) for side, g in readings.items()},
            unit=str(self._first.record["unit"]),
            notes=self.notes,
            failures=tuple(self._failure(r) for r in ended if not self._is_measured(r)),
            needed=None if comparison is None else self._needed(comparison, readings.values()),
            blamed=blamed,
            interrupted=interrupted,
        )

    def _needed(self, comparison: Comparison, groups: Collection[Sequence[Reading]]) -> int | None:
        """Return how many starts of each side would tell, by the spread that was seen."""
        seen = Spread(comparison.launch_fraction, comparison.degrees)
        measuring = _measuring([side_of(group) for group in groups])
        return starts_needed(self.zone_fraction, seen, measuring, self._exported(), len(groups))

    def _is_measured(self, result: TrialResult) -> bool:
        return result.may_lead and self._metric in result.estimates

    def _failure(self, result: TrialResult) -> str:
        why = result.reason or result.quality_note or f"{self._metric} was not measured"
        return f"trial {result.number} {result.outcome.value}: {why}"

    def _compare(self, groups: Sequence[Sequence[Reading]]) -> Comparison:
        old, fresh = self._exported(), [side_of(group) for group in groups]
        if self._other is not None:
            return compare(fresh[:1], fresh[1:], groups, self._spread)
        # The gain over the exported gain: ours over plain, times the exported plain over its best.
        return compare([*fresh[:1], *old[1:]], [*fresh[1:], *old[:1]], groups, self._spread)


@contextmanager
def proving_on(choice: ProofChoice, state: State) -> Iterator[tuple[ProofChoice, "Cluster | None"]]:
    """Lend the host that the starts are made on, if it is not this machine.

    Raises BadInputError, and HostError where it cannot be had.
    """
    machines = choice.machines
    if machines.is_local:
        yield choice, None
        return
    from orchestrator.cluster.bringing import lent_hosts

    with lent_hosts(machines, state, new_sweep_id("cluster")) as cluster:
        yield replace(choice, driver=Driver.RAY), cluster


def _exported_side(data: Mapping[str, Any], measuring: float) -> Side:
    starts = int(data["starts"])
    return Side(math.log(data["value"]), measuring**2 / starts, starts)


def _measuring(sides: Sequence[Side]) -> float:
    """Return the variance of one start's measuring, on average."""
    found = [side.variance * side.starts for side in sides]
    return sum(found) / len(found) if found else _LIKELY_MEASURING


def _is_to_blame(result: TrialResult) -> bool:
    """Tell whether a start shows that the plan does not do what it did."""
    refused = result.outcome in (Outcome.INFEASIBLE, Outcome.HUNG)
    return refused or not result.quality.recommendable
