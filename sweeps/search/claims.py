"""What a sweep may say in the end: the recommendation, its ties, and a gain that was not chosen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.config import Config
from sweeps.intervals import student_quantile
from sweeps.results import TrialResult
from sweeps.search.equality import SAME_SPREAD
from sweeps.search.evidence import Evidence, Start
from sweeps.search.standings import Standings, changes
from sweeps.search.steps import Purpose, Taste

USUAL_WEIGHT = 4
"""How many starts the usual variance between starts is worth beside those of the proof."""


@dataclass(frozen=True, slots=True)
class Gain:
    """A rate over another, from starts made after the choice alone."""

    over: Config
    ratio: float
    low: float
    """The 95 % interval, over starts."""
    high: float
    starts: tuple[int, ...]
    """Places in the history, of both sides."""


@dataclass(frozen=True, slots=True)
class Proof:
    """How far the confirm stage is."""

    choice: Config
    beside: Config | None
    since: int
    """The place in the history from which starts count for the gain."""
    open_: str
    """What is still to be done, in words; empty: nothing."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer of a sweep so far."""

    recommendation: Config
    ties: tuple[Config, ...]
    """What cannot be told apart from it, itself included."""
    gain: Gain | None
    """None before both sides were confirmed, and where the plain decode that it is over won."""
    settled: bool
    reason: str
    """In words: why it is settled, or what is open."""

    def as_data(self, history: Sequence[TrialResult]) -> dict[str, object]:
        """Return plain data, for JSON; starts are named by their trials."""
        gain = self.gain and {
            "over": dict(self.gain.over), "ratio": self.gain.ratio, "low": self.gain.low,
            "high": self.gain.high, "trials": [history[at].trial for at in self.gain.starts],
        }  # fmt: skip
        return {
            "recommendation": dict(self.recommendation), "ties": [dict(c) for c in self.ties],
            "gain": gain, "settled": self.settled, "reason": self.reason,
        }  # fmt: skip

    @classmethod
    def from_data(cls, data: Mapping[str, Any], history: Sequence[TrialResult]) -> "Claim":
        """Read back what `as_data` wrote, whatever the order of the history is now."""
        found, gain = data["gain"], None
        if found is not None:
            places = {result.trial: place for place, result in enumerate(history)}
            starts = tuple(sorted(places[t] for t in found["trials"] if t in places))
            over = Config.of(found["over"])
            gain = Gain(over, found["ratio"], found["low"], found["high"], starts)
        recommended, ties = data["recommendation"], data["ties"]
        return cls(
            Config.of(recommended), tuple(map(Config.of, ties)), gain,
            settled=data["settled"], reason=data["reason"],
        )  # fmt: skip


def claim_of(
    evidence: Evidence, standings: Standings, proof: Proof | None, plain: Config, taste: Taste
) -> Claim:
    """State what the evidence carries. Without a proof the leader is named, and nothing settled."""
    if proof is None:
        config = standings.configs[standings.leader]
        reason = "nothing was confirmed on fresh starts yet"
        return Claim(config, _ties(standings, config, taste), None, settled=False, reason=reason)
    config, over = proof.choice, proof.beside
    if over is not None and _is_preferred(standings, over, config, plain, taste):
        config, over = over, None
    ties = _ties(standings, config, taste)
    gain = None if over is None else _gain(evidence, config, over, proof.since)
    reason = proof.open_ or "fresh starts after the choice confirm it"
    return Claim(config, ties, gain, settled=not proof.open_, reason=reason)


def _is_preferred(
    standings: Standings, over: Config, choice: Config, plain: Config, taste: Taste
) -> bool:
    """Tell whether what the gain was to be stated over won: it is ahead, or as good and simpler."""
    at, other = standings.place(choice), standings.place(over)
    if at is None or other is None:
        return False
    simpler = changes(over, plain) < changes(choice, plain)
    return standings.ahead(at, other)[0] < taste.indifference_fraction * simpler


def _ties(standings: Standings, config: Config, taste: Taste) -> tuple[Config, ...]:
    """List what is within the indifference of a configuration, itself included."""
    at = standings.place(config)
    if at is None:
        return (config,)
    zone = taste.indifference_fraction
    return tuple(
        other
        for place, other in enumerate(standings.configs)
        if abs(standings.ahead(at, place)[0]) <= zone
    )


def _gain(evidence: Evidence, config: Config, over: Config, since: int) -> Gain | None:
    ours, theirs = (_confirmed(evidence, c, since) for c in (config, over))
    if not ours or not theirs:
        return None
    ratio = _mean(ours) - _mean(theirs)
    variance, degrees = _between_starts(evidence, ours, theirs)
    spread = math.sqrt(variance * (1 / len(ours) + 1 / len(theirs)))
    half = student_quantile(0.975, degrees) * spread
    places = tuple(sorted(start.place for start in [*ours, *theirs]))
    return Gain(over, math.exp(ratio), math.exp(ratio - half), math.exp(ratio + half), places)


def _confirmed(evidence: Evidence, config: Config, since: int) -> Sequence[Start]:
    """Return the starts of a configuration that were made to prove it, after it was chosen."""
    variant = evidence.variants.get(config)
    starts = variant.starts if variant else ()
    return [s for s in starts if s.purpose == Purpose.CONFIRM and s.may_lead and s.place >= since]


def _mean(starts: Sequence[Start]) -> float:
    return sum(start.rate.value for start in starts) / len(starts)


def _between_starts(
    evidence: Evidence, ours: Sequence[Start], theirs: Sequence[Start]
) -> tuple[float, int]:
    """Return the variance between starts of one configuration, and what it is worth in degrees of
    freedom: as these starts show it, shrunk towards what the sweep has seen.

    All starts answer the same prompts, so that what differs from text to text is in every one of
    them alike: the interval of a single rate, which holds that too, would be far too wide.
    """
    starts = [*ours, *theirs]
    measuring = sum(start.cycle.variance for start in starts) / len(starts)
    usual = evidence.launch_variance + measuring + SAME_SPREAD**2
    squares = sum((s.rate.value - _mean(side)) ** 2 for side in (ours, theirs) for s in side)
    degrees = USUAL_WEIGHT + len(starts) - 2
    return (USUAL_WEIGHT * usual + squares) / degrees, degrees
