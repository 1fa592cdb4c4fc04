"""What a sweep may say in the end: the recommendation, its verdict, and a gain that luck did not
choose."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sweeps.config import Config
from sweeps.intervals import student_quantile
from sweeps.results import TrialResult
from sweeps.search.equality import SAME_SPREAD
from sweeps.search.evidence import Evidence, Start
from sweeps.search.standings import Standings, changes
from sweeps.search.steps import Purpose, Taste

USUAL_WEIGHT, DOUBTED_WEIGHT = 12, 3
"""How many starts the usual variance between starts is worth beside those of the proof; and where
these differ by much more."""
DOUBTED_RATIO = 4.0
"""Of the variance that the starts show over the usual one: five degrees of freedom exceed it once
in a thousand times."""
LEAST_ZONE, MOST_ZONE = 0.01, 0.03
"""Half-widths of the zone of a tie, as fractions: nobody changes a server for less than the first,
and more than the second is no tie."""
MOST_FURTHER_STARTS = 100
_TWO_SIDED, _Z = 0.975, 1.96


class Verdict(StrEnum):
    """What fresh starts say of a gain."""

    GAIN = "gain"
    """Its 95 % interval lies above 1."""
    LOSS = "loss"
    """Its 95 % interval lies below 1."""
    TIE = "tie"
    """Its 95 % interval holds 1 and lies within the zone. Where the plain decode with nothing
    changed is recommended, the upper end alone must: that it is as good is all that it needs."""
    UNDECIDED = "undecided"


def zone_of(planned_half_width: float) -> float:
    """Return the half-width of the zone of a tie: what the starts were planned to tell apart."""
    return min(max(LEAST_ZONE, planned_half_width), MOST_ZONE)


def verdict_of(low: float, high: float, planned_half_width: float) -> Verdict:
    """Judge a gain by the ends of its 95 % interval.

    `planned_half_width`, a fraction, is that of the interval as it was planned before the starts.
    """
    zone = zone_of(planned_half_width)
    if low > 1:
        return Verdict.GAIN
    if high < 1:
        return Verdict.LOSS
    is_inside = 1 - zone <= low and high <= 1 + zone
    return Verdict.TIE if is_inside else Verdict.UNDECIDED


def planned_half_width(evidence: Evidence, taste: Taste) -> float:
    """Return the half-width of the 95 % interval of a gain after the least number of confirming
    starts, as a fraction, by the spread between starts that the sweep has seen."""
    starts = taste.confirm_rounds
    variance = (evidence.launch_variance + SAME_SPREAD**2) * 2 / starts
    degrees = USUAL_WEIGHT + 2 * starts - 2
    return math.expm1(student_quantile(_TWO_SIDED, degrees) * math.sqrt(variance))


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
class Rejected:
    """What was compared with the plain decode that is recommended, on fresh starts, and lost."""

    config: Config
    gain: Gain


@dataclass(frozen=True, slots=True)
class Proof:
    """How far the confirm stage is."""

    choice: Config
    beside: Config | None
    since: int
    """The place in the history from which starts count for the gain."""
    open_: str
    """What is still to be done, in words; empty: nothing."""
    planned_half_width: float | None = None
    """Of the interval of the gain, before the first start; None: by the spread seen so far."""
    start_gpu_hours: float | None = None
    """Of one confirming start; None: the mean of all trials."""
    alike: frozenset[Config] = frozenset()
    """Plain decode with settings that were seen to do nothing: no rivals of it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer of a sweep so far."""

    recommendation: Config
    ties: tuple[Config, ...]
    """What is within the indifference by all that is known, itself included."""
    gain: Gain | None
    """None before both sides were confirmed, and where the plain decode that it is over won."""
    verdict: Verdict
    """Of the gain; where plain decode is recommended, of that which was compared with it."""
    reason: str
    """In words: why it is decided, or what is open."""
    proofs: tuple[int, ...] = ()
    """Places in the history of the recommendation's own starts after the choice."""
    zone: float = LEAST_ZONE
    """Half-width of the zone of a tie that was tested, as a fraction."""
    is_open: bool = False
    """The search would go on confirming."""
    rejected: Rejected | None = None
    """What lost against the plain decode that is recommended."""
    further_starts: int | None = None
    """Starts of each side that would probably decide; None where it is decided, and where nobody
    can tell."""
    further_gpu_hours: float | None = None

    @property
    def settled(self) -> bool:
        """Tell whether fresh starts of the recommendation have decided the answer."""
        return bool(self.proofs) and self.verdict is not Verdict.UNDECIDED and not self.is_open

    @property
    def tested(self) -> Gain | None:
        """Return the gain that the verdict is of, whoever won; None where nothing was compared."""
        return self.rejected.gain if self.gain is None and self.rejected else self.gain

    def as_data(self, history: Sequence[TrialResult]) -> dict[str, object]:
        """Return plain data, for JSON; starts are named by their trials."""
        rejected = self.rejected and {
            "config": dict(self.rejected.config), "gain": _gain_data(self.rejected.gain, history),
        }  # fmt: skip
        return {
            "recommendation": dict(self.recommendation), "ties": [dict(c) for c in self.ties],
            "gain": self.gain and _gain_data(self.gain, history), "settled": self.settled,
            "reason": self.reason, "verdict": self.verdict.value, "zone": self.zone,
            "proofs": [history[at].trial for at in self.proofs], "is_open": self.is_open,
            "rejected": rejected, "further_starts": self.further_starts,
            "further_gpu_hours": self.further_gpu_hours,
        }  # fmt: skip

    @classmethod
    def from_data(cls, data: Mapping[str, Any], history: Sequence[TrialResult]) -> "Claim":
        """Read back what `as_data` wrote, whatever the order of the history is now.

        A claim of before there were verdicts is judged by its interval, with the narrowest zone.
        """
        places = {result.trial: place for place, result in enumerate(history)}
        gain = data["gain"] and _gain_from(data["gain"], places)
        recommendation = Config.of(data["recommendation"])
        if "verdict" not in data:
            return _old_claim(data, recommendation, gain, history)
        lost = data["rejected"]
        return cls(
            recommendation, tuple(map(Config.of, data["ties"])), gain, Verdict(data["verdict"]),
            data["reason"], _places(data["proofs"], places), data["zone"], data["is_open"],
            lost and Rejected(Config.of(lost["config"]), _gain_from(lost["gain"], places)),
            data["further_starts"], data["further_gpu_hours"],
        )  # fmt: skip


def _old_claim(
    data: Mapping[str, Any], recommendation: Config, gain: Gain | None,
    history: Sequence[TrialResult],
) -> Claim:  # fmt: skip
    verdict = Verdict.UNDECIDED if gain is None else verdict_of(gain.low, gain.high, LEAST_ZONE)
    places = range(len(history)) if gain is None else gain.starts
    fresh = [at for at in places if history[at].purpose == Purpose.CONFIRM]
    return Claim(
        recommendation, tuple(map(Config.of, data["ties"])), gain, verdict, data["reason"],
        tuple(at for at in fresh if history[at].config == recommendation),
        is_open=not data["settled"],
    )  # fmt: skip


def _gain_data(gain: Gain, history: Sequence[TrialResult]) -> dict[str, object]:
    return {
        "over": dict(gain.over), "ratio": gain.ratio, "low": gain.low, "high": gain.high,
        "trials": [history[at].trial for at in gain.starts],
    }  # fmt: skip


def _gain_from(data: Mapping[str, Any], places: Mapping[str, int]) -> Gain:
    starts = _places(data["trials"], places)
    return Gain(Config.of(data["over"]), data["ratio"], data["low"], data["high"], starts)


def _places(trials: Iterable[str], places: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sorted(places[trial] for trial in trials if trial in places))


def claim_of(
    evidence: Evidence, standings: Standings, proof: Proof | None, plain: Config, taste: Taste
) -> Claim:
    """State what the evidence carries. Without a proof the leader is named, and nothing decided."""
    if proof is None:
        config = standings.configs[standings.leader]
        reason = "nothing was confirmed on fresh starts yet"
        ties = _ties(standings, config, taste)
        return Claim(config, ties, None, Verdict.UNDECIDED, reason, is_open=True)
    planned = proof.planned_half_width
    zone = zone_of(planned_half_width(evidence, taste) if planned is None else planned)
    found = _Contest(evidence, standings, proof, zone)
    if proof.beside is None:
        return found.of_the_leader(plain, taste)
    return found.of_the_gain(proof.beside, plain, taste)


@dataclass(frozen=True, slots=True)
class _Contest:
    """The confirming starts of a choice and of what it is compared with."""

    evidence: Evidence
    standings: Standings
    proof: Proof
    zone: float

    def of_the_gain(self, over: Config, plain: Config, taste: Taste) -> Claim:
        """State the gain of the choice over plain decode, or that plain decode won."""
        choice = self.proof.choice
        gain = self._gain(choice, over)
        verdict = self._verdict(gain)
        is_simpler = changes(over, plain) < changes(choice, plain)
        if is_simpler and gain is not None and gain.low > 1:
            is_slight = gain.high <= 1 + taste.indifference_fraction
            verdict = Verdict.TIE if is_slight else verdict
        if verdict is Verdict.UNDECIDED:
            over_wins = _is_preferred(self.standings, over, choice, plain, taste)
            if over_wins and over == plain:
                verdict = self._as_good(gain)
        else:
            over_wins = verdict is Verdict.LOSS or (verdict is Verdict.TIE and is_simpler)
        if not over_wins:
            return self._claim(choice, gain, verdict, taste, against=over)
        rejected = None if gain is None else Rejected(choice, gain)
        return self._claim(over, None, verdict, taste, rejected, against=choice)

    def of_the_leader(self, plain: Config, taste: Taste) -> Claim:
        """Say of a choice that has nothing beside it whether it is at least as good as the rest.

        That is plain decode with nothing changed, or what no plain decode was measured beside.
        """
        choice = self.proof.choice
        if choice != plain:
            return self._claim(choice, None, Verdict.UNDECIDED, taste)
        rivals = [
            Rejected(config, gain)
            for config in self.evidence.variants
            if config != plain
            and config not in self.proof.alike
            and (gain := self._gain(config, plain)) is not None
        ]
        if not rivals:
            verdict = self._as_good_below(self._nearest(plain))
            return self._claim(choice, None, verdict, taste)
        best = max(rivals, key=lambda rival: rival.gain.high)
        verdict = self._as_good(best.gain)
        if verdict is Verdict.UNDECIDED:
            verdict = self._as_good_below(self._nearest(plain))
        return self._claim(choice, None, verdict, taste, best, against=best.config)

    def _claim(
        self, config: Config, gain: Gain | None, verdict: Verdict, taste: Taste,
        rejected: Rejected | None = None, *, against: Config | None = None,
    ) -> Claim:  # fmt: skip
        proof, further = self.proof, None
        if verdict is Verdict.UNDECIDED and against is not None:
            further = self._further(config, against)
        hours = proof.start_gpu_hours
        hours = self.evidence.gpu_hours if hours is None else hours
        decided = verdict is not Verdict.UNDECIDED
        said = "fresh starts decide it" if decided else "the fresh starts do not decide it"
        return Claim(
            config, _ties(self.standings, config, taste), gain, verdict, proof.open_ or said,
            tuple(start.place for start in self._fresh(config)), self.zone, bool(proof.open_),
            rejected, further, None if further is None else 2 * further * hours,
        )  # fmt: skip

    def _verdict(self, gain: Gain | None) -> Verdict:
        return Verdict.UNDECIDED if gain is None else verdict_of(gain.low, gain.high, self.zone)

    def _as_good(self, gain: Gain | None) -> Verdict:
        """Judge the gain of something over the plain decode that is recommended."""
        return Verdict.UNDECIDED if gain is None else self._as_good_below(gain.high)

    def _as_good_below(self, high: float) -> Verdict:
        if high < 1:
            return Verdict.LOSS
        return Verdict.TIE if high <= 1 + self.zone else Verdict.UNDECIDED

    def _gain(self, config: Config, over: Config) -> Gain | None:
        ours, theirs = self._fresh(config), self._fresh(over)
        if not ours or not theirs:
            return None
        ratio = _mean(ours) - _mean(theirs)
        variance, degrees = _between_starts(self.evidence, ours, theirs)
        spread = math.sqrt(variance * (1 / len(ours) + 1 / len(theirs)))
        half = student_quantile(_TWO_SIDED, degrees) * spread
        places = tuple(sorted(start.place for start in [*ours, *theirs]))
        return Gain(over, math.exp(ratio), math.exp(ratio - half), math.exp(ratio + half), places)

    def _further(self, config: Config, over: Config) -> int | None:
        """Return how many more starts of each side would decide, were the ratio and the spread
        between starts just what they seem so far."""
        ours, theirs = self._fresh(config), self._fresh(over)
        if ours and theirs:
            log_ratio = _mean(ours) - _mean(theirs)
        else:
            at, other = self.standings.place(config), self.standings.place(over)
            if at is None or other is None:
                return None
            log_ratio = self.standings.ahead(at, other)[0]
        variance, degrees = _between_starts(self.evidence, ours, theirs)
        return further_starts(log_ratio, variance, (len(ours), len(theirs)), degrees, self.zone)

    def _fresh(self, config: Config) -> Sequence[Start]:
        """Return the starts that were made to prove a configuration, after the choice."""
        variant = self.evidence.variants.get(config)
        return [
            start
            for start in (variant.starts if variant else ())
            if start.purpose == Purpose.CONFIRM
            and start.may_lead
            and start.place >= self.proof.since
        ]

    def _nearest(self, plain: Config) -> float:
        """Return how many times as fast as plain decode anything may be, by all that is known."""
        at = self.standings.place(plain)
        if at is None or len(self.evidence.spent) < 2:
            return math.inf
        found = [
            self.standings.ahead(place, at)
            for place, config in enumerate(self.standings.configs)
            if config != plain and config not in self.proof.alike
        ]
        return math.exp(max((mean + _Z * spread for mean, spread in found), default=-math.inf))


def further_starts(
    log_ratio: float, variance: float, counts: tuple[int, int], degrees: int, zone: float
) -> int | None:
    """Return how many more starts of each side would decide a gain; None: even very many would not.

    The interval after k more starts of each of n and m is taken to be log_ratio ± t(0.975, degrees
    + 2k) x sqrt(variance x (1/(n+k) + 1/(m+k))): as if ratio and spread were what they seem.
    """
    for more in range(1, MOST_FURTHER_STARTS + 1):
        spread = math.sqrt(variance * sum(1 / (count + more) for count in counts))
        half = student_quantile(_TWO_SIDED, degrees + 2 * more) * spread
        ends = math.exp(log_ratio - half), math.exp(log_ratio + half)
        if verdict_of(*ends, zone) is not Verdict.UNDECIDED:
            return more
    return None


def _is_preferred(
    standings: Standings, over: Config, choice: Config, plain: Config, taste: Taste
) -> bool:
    """Tell whether what the gain was to be stated over leads: it is ahead, or as good and
    simpler."""
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
    measuring = sum(start.cycle.variance for start in starts) / max(1, len(starts))
    usual = evidence.launch_variance + measuring + SAME_SPREAD**2
    sides = [side for side in (ours, theirs) if side]
    squares = sum((s.rate.value - _mean(side)) ** 2 for side in sides for s in side)
    own = len(starts) - len(sides)
    weight = DOUBTED_WEIGHT if squares > DOUBTED_RATIO * usual * max(own, 1) else USUAL_WEIGHT
    return (weight * usual + squares) / (weight + own), weight + own
