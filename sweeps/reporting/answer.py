"""What a sweep recommends, what cannot be told from it, and a gain with where it comes from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweeps.config import Config
from sweeps.crossover import gain_half_width
from sweeps.intervals import Interval
from sweeps.naming import short
from sweeps.phrases import counted, with_interval
from sweeps.ranking import Ranking, Standing
from sweeps.results import TrialResult
from sweeps.search.claims import Claim, Gain


@dataclass(frozen=True, slots=True)
class StatedGain:
    """How many times as good one variant is as another; above 1 is better, whatever the metric."""

    over: Config
    value: float
    low: float | None
    high: float | None
    how: str
    """Where it comes from, in words."""
    trials: tuple[str, ...]

    @property
    def is_shown(self) -> bool:
        """Tell whether the interval leaves no room for there being no gain."""
        return self.low is not None and self.low > 1


@dataclass(frozen=True, slots=True)
class Answer:
    """The recommendation of a sweep so far."""

    standing: Standing
    ties: tuple[Standing, ...]
    """Others that cannot be told from it."""
    gain: StatedGain | None
    """Over the best plain decode; None where that is what is recommended."""
    over_baseline: StatedGain | None
    """Over a server with nothing changed; None where that is what is recommended."""
    settled: bool
    claimed: bool
    """The search itself has stated how sure it is."""
    sure: tuple[str, ...]
    """How sure all this is, in sentences."""

    @property
    def certainty(self) -> str:
        """Say in two words how sure it is."""
        if self.ties or (self.gain is not None and not self.gain.is_shown):
            return "a tie"
        if self.claimed:
            return "settled" if self.settled else "not settled"
        return "confirmed" if self.standing.confirmed else "not confirmed"


def answer_of(
    results: Sequence[TrialResult],
    ranking: Ranking,
    claim: Claim | None,
    *,
    higher_is_better: bool,
) -> Answer | None:
    """Return the answer of a sweep; None before anything was measured."""
    best = ranking.best
    if best is None:
        return None
    gain = None
    if not best.config.is_plain:
        gain = _claimed(results, best, claim) or _ranked(best, ranking.plain, higher_is_better)
    return Answer(
        standing=best,
        ties=_others(best, ranking, claim),
        gain=gain,
        over_baseline=_ranked(best, ranking.baseline, higher_is_better),
        settled=claim is not None and claim.settled,
        claimed=claim is not None,
        sure=tuple(_sure(best, ranking, claim, gain)),
    )


def gain_of(standing: Standing, over: Standing, *, higher_is_better: bool) -> StatedGain:
    """Return how much better one standing is than another, as all their starts have it."""
    ours, theirs = (standing, over) if higher_is_better else (over, standing)
    half = gain_half_width(ours, theirs)
    ratio = ours.value / theirs.value
    how = f"means over {_starts(standing)} and {_starts(over)}"
    if standing.confirmed:
        how += ", its own made after the choice"
    trials = (*standing.used, *over.used)
    return StatedGain(over.config, ratio, ratio - half, ratio + half, how, trials)


def _claimed(
    results: Sequence[TrialResult], best: Standing, claim: Claim | None
) -> StatedGain | None:
    if claim is None or claim.gain is None or claim.recommendation != best.config:
        return None
    gain = claim.gain
    how = f"{counted(len(gain.starts), 'start')} made after the choice, interval over starts"
    trials = tuple(results[place].trial for place in gain.starts)
    return StatedGain(gain.over, gain.ratio, gain.low, gain.high, how, trials)


def _ranked(best: Standing, over: Standing | None, higher_is_better: bool) -> StatedGain | None:
    if over is None or over.config == best.config or not over.value or not best.value:
        return None
    return gain_of(best, over, higher_is_better=higher_is_better)


def _others(best: Standing, ranking: Ranking, claim: Claim | None) -> tuple[Standing, ...]:
    """Join the ties of the ranking and, where the search likes another, that one."""
    liked = {s.variant for s in ranking.ties}
    if claim is not None and not _beats(claim.gain):
        liked.add(claim.recommendation.variant)
    return tuple(s for s in ranking.standings if s.variant in liked - {best.variant})


def _beats(gain: Gain | None) -> bool:
    return gain is not None and gain.low > 1


def _sure(
    best: Standing, ranking: Ranking, claim: Claim | None, gain: StatedGain | None
) -> Iterator[str]:
    """Say how far the answer can be trusted."""
    if claim is not None:
        yield f"{'Settled' if claim.settled else 'Not settled'}: {claim.reason}."
    elif best.confirmed:
        yield f"Its value comes from {_starts(best)} made after it was chosen."
    elif len(ranking.standings) > 1:
        variants = counted(len(ranking.standings), "variant")
        yield (
            f"Not confirmed: it is the best of {variants} that were measured, and the best of many"
            " reads high."
        )
    if gain is not None and not gain.is_shown:
        yield "The interval of the gain holds 1: no gain is shown."
    if claim is not None and claim.recommendation != best.config:
        yield from _of_the_other(claim)


def _of_the_other(claim: Claim) -> Iterator[str]:
    name = short(claim.recommendation)
    if claim.gain is None:
        yield f"The search itself prefers {name}."
        return
    ratio = Interval(claim.gain.ratio, claim.gain.low, claim.gain.high)
    factor = f"{with_interval(ratio)} x {short(claim.gain.over)}"
    shown = "" if claim.gain.low > 1 else ": no gain is shown, so the one with fewer changes stands"
    yield f"The search itself prefers {name}, at {factor}{shown}."


def _starts(standing: Standing) -> str:
    return counted(standing.starts, "start")
