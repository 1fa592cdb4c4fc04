"""How well the search kept its promises: its intervals, and the lift that its starts promised."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweeps.intervals import Interval
from sweeps.phrases import counted
from sweeps.reporting.parts import Cell, Section, Table
from sweeps.reporting.story import Story
from sweeps.results import Outcome, TrialResult

RATE, STEPS, CYCLE = "decode_tok_s", "steps_per_s", "cycle_ms"
_NARROWER = 1.645 / 1.96
"""From a 95 % interval of a normal logarithm to one of 90 %."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What was expected of a trial before it started, with 95 % intervals."""

    tok_s: Interval
    cycle_ms: Interval | None = None
    lift_fraction: float | None = None
    """By what fraction it was to lift the best rate in the mean; None where it promised none."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How many intervals of a kind held what was measured."""

    what: str
    held: tuple[int, ...]
    """Numbers of the trials."""
    missed: tuple[int, ...]

    @property
    def count(self) -> int:
        """Return how many trials can be judged."""
        return len(self.held) + len(self.missed)

    @property
    def fraction(self) -> float:
        """Return the share that held."""
        return len(self.held) / self.count


@dataclass(frozen=True, slots=True)
class Lift:
    """What the starts of a purpose promised and brought, summed up, as fractions."""

    purpose: str
    trials: tuple[int, ...]
    promised: float
    realised: float
    """By where the variants stand in the end, none above what is recommended: luck lifts none."""


@dataclass(frozen=True, slots=True)
class Promises:
    """All of it."""

    kept: tuple[Kept, ...]
    lifts: tuple[Lift, ...]


def promises_of(story: Story, told: Mapping[int, Promise]) -> Promises | None:
    """Hold what was promised against what came; None where nothing can be judged."""
    kept = (
        _kept("step rate of stopped trials", _step_pairs(story, told)),
        _kept("tok/s of measured trials", _rate_pairs(story, told)),
    )
    found = Promises(tuple(one for one in kept if one.count), tuple(_lifts(story, told)))
    return found if found.kept or found.lifts else None


def lines(story: Story, promises: Promises) -> Iterator[str]:
    """Say it in sentences."""
    for one in promises.kept:
        yield (
            f"{story.word}{len(one.held)} of {one.count} intervals of 90 % held the {one.what}:"
            f" {_percent(one.fraction)}."
        )
    for lift in promises.lifts:
        starts = counted(len(lift.trials), f"{lift.purpose} start")
        yield (
            f"{story.word}{starts[:1].upper() + starts[1:]} promised {_percent(lift.promised)} more"
            f" tok/s in sum, and brought {_percent(lift.realised)}."
        )


def section(story: Story, promises: Promises | None) -> Section | None:
    """Return the part of the page; None where nothing can be judged."""
    if promises is None:
        return None
    tables = [_kept_table(story, promises.kept)] if promises.kept else []
    tables += [_lift_table(story, promises.lifts)] if promises.lifts else []
    lead = (
        *lines(story, promises),
        "Each interval was written down before its trial started. What the starts brought is told"
        " by where the variants stand in the end, none above what is recommended.",
    )
    return Section("promises", "How well promises were kept", lead, tables=tuple(tables))


def _kept_table(story: Story, kept: Sequence[Kept]) -> Table:
    rows = tuple(
        (
            Cell(one.what),
            Cell(str(one.count), (), one.count),
            Cell(_percent(one.fraction), (), one.fraction),
            Cell("" if one.missed else "none", one.missed),
        )
        for one in kept
    )
    head = ("90 % intervals of the", "trials", "that held", "missed by")
    return Table(f"{story.word}intervals of predictions that held", head, rows, open=True)


def _lift_table(story: Story, lifts: Sequence[Lift]) -> Table:
    rows = tuple(
        (
            Cell(lift.purpose, lift.trials),
            Cell(_percent(lift.promised), (), lift.promised),
            Cell(_percent(lift.realised), (), lift.realised),
        )
        for lift in lifts
    )
    head = ("starts for", "lift promised", "lift realised")
    return Table(f"{story.word}lift of the best rate, summed up", head, rows, open=True)


def _kept(what: str, pairs: Iterator[tuple[int, Interval, float]]) -> Kept:
    held: list[int] = []
    missed: list[int] = []
    for number, predicted, measured in pairs:
        (held if _holds(predicted, measured) else missed).append(number)
    return Kept(what, tuple(held), tuple(missed))


def _holds(predicted: Interval, measured: float) -> bool:
    """Tell whether the 90 % interval of a prediction, whose 95 % interval is given, holds."""
    assert predicted.low and predicted.high, "checked before"
    gap = math.log(measured / predicted.value)
    end = predicted.high if gap > 0 else predicted.low
    return abs(gap) <= _NARROWER * abs(math.log(end / predicted.value))


def _step_pairs(story: Story, told: Mapping[int, Promise]) -> Iterator[tuple[int, Interval, float]]:
    """Yield the step rates of trials that were stopped, with what was predicted of them."""
    for result in story.results:
        promise, steps = told.get(result.number), _steps_per_s(result)
        if result.outcome is not Outcome.STOPPED or promise is None or not steps:
            continue
        cycle = promise.cycle_ms
        if cycle is not None and _is_whole(cycle):
            assert cycle.low and cycle.high, "it is whole"
            rate = Interval(1000 / cycle.value, 1000 / cycle.high, 1000 / cycle.low)
            yield result.number, rate, steps


def _rate_pairs(story: Story, told: Mapping[int, Promise]) -> Iterator[tuple[int, Interval, float]]:
    for result in story.results:
        promise, rate = told.get(result.number), result.value(RATE)
        if result.outcome.has_rate and promise is not None and rate and _is_whole(promise.tok_s):
            yield result.number, promise.tok_s, rate


def _is_whole(interval: Interval) -> bool:
    """Tell whether an interval can be judged: all of it is positive."""
    ends = (interval.low, interval.value, interval.high)
    return all(end is not None and end > 0 for end in ends)


def _steps_per_s(result: TrialResult) -> float | None:
    cycle_ms = result.value(CYCLE)
    return result.value(STEPS) or (1000 / cycle_ms if cycle_ms else None)


def _lifts(story: Story, told: Mapping[int, Promise]) -> Iterator[Lift]:
    """Yield what the starts of each purpose promised and brought."""
    stands = _stands(story)
    best = 0.0
    sums: dict[str, tuple[list[int], float, float]] = {}
    for result in sorted(story.results, key=lambda r: r.number):
        found = stands.get(result.config.variant, 0.0) if _is_rated(story, result) else 0.0
        lift = max(0.0, found / best - 1) if best else 0.0
        best = max(best, found)
        promise = told.get(result.number)
        if promise is not None and promise.lift_fraction is not None:
            numbers, promised, realised = sums.get(result.purpose, ([], 0.0, 0.0))
            sums[result.purpose] = (
                [*numbers, result.number], promised + promise.lift_fraction, realised + lift,
            )  # fmt: skip
    for purpose, (numbers, promised, realised) in sums.items():
        yield Lift(purpose, tuple(numbers), promised, realised)


def _stands(story: Story) -> dict[str, float]:
    """Return how good each variant is in the end, higher is better, none above what is
    recommended."""
    upwards = story.about.goal.higher_is_better
    values = {s.variant: s.value if upwards else 1 / s.value for s in story.ranking.standings}
    if story.answer is None:
        return values
    most = values.get(story.answer.standing.variant, math.inf)
    told = story.answer.standing.value
    most = min(most, told if upwards else 1 / told)
    return {variant: min(value, most) for variant, value in values.items()}


def _is_rated(story: Story, result: TrialResult) -> bool:
    return result.may_lead and story.about.goal.metric in result.estimates


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"
