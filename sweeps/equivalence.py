"""Whether two rates are alike: an equivalence test over server starts, on the log scale.

Two one-sided tests of 5 % each: rates are alike if the 90 % interval of their ratio lies within the
zone, and differ if it lies outside. The spread between starts is pooled from the repeats at hand
with what is known before, since two starts tell next to nothing of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sweeps.intervals import student_quantile
from sweeps.results import TrialResult
from sweeps.search.evidence import (
    LAUNCH_SPREAD,
    LAUNCH_WEIGHT,
    Reading,
    between_starts,
    read_log,
)

ONE_SIDED = 0.95
_RATE, _STEPS = "decode_tok_s", "steps_per_s"
_TWO_SIDED = 0.975
_POWER = 0.9
"""Each of the two tests is to pass this often, so that both do in four of five cases."""
MOST_STARTS = 100


class Likeness(StrEnum):
    """The answer of an equivalence test."""

    ALIKE = "alike"
    DIFFERENT = "different"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Side:
    """The logarithm of a rate over some starts."""

    value: float
    variance: float
    """Of the measuring alone, of the mean."""
    starts: int


@dataclass(frozen=True, slots=True)
class Spread:
    """What is known of the spread between starts before, as a fraction."""

    fraction: float = LAUNCH_SPREAD
    weight: float = LAUNCH_WEIGHT
    """How many starts that is worth."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A ratio of rates, and how sure it is."""

    log_ratio: float
    deviation: float
    degrees: float
    launch_fraction: float
    """The spread between starts, as it was pooled."""

    @property
    def ratio(self) -> float:
        """Return how many times as fast."""
        return math.exp(self.log_ratio)

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the ratio."""
        return self._interval(_TWO_SIDED)

    def likeness(self, zone_fraction: float) -> Likeness:
        """Test the ratio against a zone around 1, as far below as above on the log scale."""
        edge = math.log1p(zone_fraction)
        low, high = (math.log(end) for end in self._interval(ONE_SIDED))
        if -edge < low and high < edge:
            return Likeness.ALIKE
        if low > edge or high < -edge:
            return Likeness.DIFFERENT
        return Likeness.UNDECIDED

    def _interval(self, probability: float) -> tuple[float, float]:
        half = student_quantile(probability, round(self.degrees)) * self.deviation
        return math.exp(self.log_ratio - half), math.exp(self.log_ratio + half)


def reading_of(result: TrialResult, metric: str, *, same_texts: bool) -> Reading | None:
    """Return the logarithm of a figure, with the variance that another start does not share.

    Where the same prompts give the same texts, accept length is the same in each start: only the
    time of a step differs. None where the trial has no figure that may be ranked.
    """
    reading = read_log(result.estimates.get(metric)) if result.may_lead else None
    steps = read_log(result.estimates.get(_STEPS))
    if reading is None or steps is None or metric != _RATE or not same_texts:
        return reading
    return Reading(reading.value, min(reading.variance, steps.variance))


def side_of(readings: Sequence[Reading]) -> Side:
    """Take the mean over starts. Raises ValueError without any."""
    if not readings:
        raise ValueError("a side needs a start that was measured")
    n = len(readings)
    return Side(
        sum(r.value for r in readings) / n, sum(r.variance for r in readings) / n**2, n
    )  # fmt: skip


def compare(
    above: Sequence[Side], below: Sequence[Side], groups: Sequence[Sequence[Reading]],
    spread: Spread,
) -> Comparison:  # fmt: skip
    """Compare the product of some sides with that of others; `groups` are repeats of one server."""
    launch_variance, weight = between_starts(
        [g for g in groups if g], spread.fraction, spread.weight
    )
    log_ratio = sum(s.value for s in above) - sum(s.value for s in below)
    variance = sum(s.variance + launch_variance / s.starts for s in (*above, *below))
    return Comparison(
        log_ratio, math.sqrt(variance), max(1.0, weight), math.sqrt(launch_variance)
    )  # fmt: skip


def starts_needed(
    zone_fraction: float, spread: Spread, measuring: float, fixed: Sequence[Side], fresh_sides: int
) -> int | None:
    """Return with how many fresh starts of each side two equal rates are mostly found alike.

    `measuring` is the variance of one start's measuring, `fixed` are sides that no start improves.
    None: even very many would not do.
    """
    for starts in range(1, MOST_STARTS + 1):
        if detectable(spread, measuring, fixed, fresh_sides, starts) <= zone_fraction:
            return starts
    return None


def detectable(
    spread: Spread, measuring: float, fixed: Sequence[Side], fresh_sides: int, starts: int
) -> float:
    """Return the narrowest zone in which so many starts mostly find two equal rates alike."""
    launch_variance = spread.fraction**2
    variance = fresh_sides * (launch_variance + measuring) / starts
    variance += sum(side.variance + launch_variance / side.starts for side in fixed)
    degrees = max(1, round(spread.weight + fresh_sides * (starts - 1)))
    quantiles = student_quantile(ONE_SIDED, degrees) + student_quantile(_POWER, degrees)
    return math.expm1(quantiles * math.sqrt(variance))
