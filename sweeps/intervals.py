"""A number and its 95 % interval: of means, ratios and quotients, from few or correlated values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import exp, log, sqrt
from statistics import fmean, stdev

from sweeps.results import Estimate

BLOCKS = 10
LEAST_BLOCKS = 5
FIRM_AFTER_S = 30.0
MOST_CORRELATION = 0.1
"""Of neighbouring blocks; ten independent ones show -0.1 on average. Negative ones need no care."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A number and its 95 % interval, whose ends are None where there is none."""

    value: float
    low: float | None
    high: float | None


def from_log(mean: float, variance: float) -> Interval:
    """Return the number and interval of a normal logarithm."""
    half = 1.96 * sqrt(variance)
    return Interval(exp(mean), exp(mean - half), exp(mean + half))


Parts = Sequence[tuple[float, float]]
"""What is counted and what it is divided by, in each of some parts of a whole."""


@cache
def student_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's t."""
    from scipy.special import stdtrit  # slow to import, and few need it

    return float(stdtrit(degrees, probability))


def mean_half_width(values: Sequence[float]) -> float:
    """Return half the t interval of the mean of independent values, of which it needs two."""
    return student_quantile(0.975, len(values) - 1) * stdev(values) / sqrt(len(values))


def cluster_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Interval | None:
    """Return sum over sum, its interval from the spread between the parts.

    Linearised ratio estimator, t with n - 1 degrees of freedom; None where the sum to divide by
    is zero. With requests for parts it describes prompts like these, not only these; with equal
    time blocks it is the interval of batch means.
    """
    total = sum(denominators)
    if total <= 0:
        return None
    n, ratio = len(numerators), sum(numerators) / total
    if n < 2:
        return Interval(ratio, None, None)
    squares = sum((a - ratio * b) ** 2 for a, b in zip(numerators, denominators, strict=True))
    half = student_quantile(0.975, n - 1) * sqrt(n / (n - 1) * squares) / total
    return Interval(ratio, ratio - half, ratio + half)


def lag_one_correlation(values: Sequence[float]) -> float:
    """Return the lag-1 autocorrelation; 0 for constant values."""
    mean = fmean(values)
    spread = sum((x - mean) ** 2 for x in values)
    if spread == 0:
        return 0.0
    return sum((a - mean) * (b - mean) for a, b in pairwise(values)) / spread


def block_ratio(parts: Callable[[int], Parts], blocks: int) -> tuple[Interval, int, str] | None:
    """Return a ratio with the interval of batch means, how many blocks it used, and the method.

    `parts` cuts the whole into so many blocks. Half of them are used if neighbours are too alike.
    None where there is nothing to divide by.
    """
    if blocks < 2:
        interval = _ratio_of(parts(1))
        return None if interval is None else (interval, blocks, "too few arrivals for an interval")
    found = parts(blocks)
    correlation = lag_one_correlation([a / b for a, b in found if b > 0] or [0.0])
    method = f"{blocks} time blocks"
    if correlation >= MOST_CORRELATION and blocks >= 4:
        blocks //= 2
        method = f"{blocks} time blocks, halved for autocorrelation {correlation:.2f}"
        found = parts(blocks)
    interval = _ratio_of(found)
    return None if interval is None else (interval, blocks, method)


def quotient(above: Interval, below: Interval) -> Interval:
    """Divide two independent positive numbers; their relative errors add as squares.

    No interval where one has none, or reaches down to zero.
    """
    value = above.value / below.value
    widths = [_log_width(above), _log_width(below)]
    known = [width for width in widths if width is not None]
    if len(known) < len(widths):
        return Interval(value, None, None)
    half = sqrt(sum(width**2 for width in known)) / 2
    return Interval(value, value * exp(-half), value * exp(half))


BETWEEN_PASSES = 0.007
"""Spread of a rate between passes of one server beside what their intervals say: hosts drift."""
UNLIKE = 3.5
"""Standard deviations between two readings of one quantity that chance does not explain."""
_UNKNOWN_WIDTH = 0.05


@dataclass(frozen=True, slots=True)
class Pooled:
    """Readings of one quantity as one, and a reading that was left out."""

    estimate: Estimate | None
    aside: Estimate | None = None


def pooled(readings: Sequence[Estimate]) -> Pooled:
    """Pool readings of one positive quantity by the precision of their logarithms.

    The first is trusted: another one that disagrees with it beyond chance is set aside.
    """
    if not readings:
        return Pooled(None)
    first, *others = readings
    for other in others:
        apart = abs(log(other.value / first.value))
        if apart > UNLIKE * sqrt(_log_variance(first) + _log_variance(other)):
            return Pooled(first, other)
    if not others:
        return Pooled(first)
    weights = [1 / _log_variance(reading) for reading in readings]
    mean = sum(w * log(r.value) for w, r in zip(weights, readings, strict=True)) / sum(weights)
    found = from_log(mean, max(1 / sum(weights) - BETWEEN_PASSES**2 / len(readings), 1e-8))
    duration_s = sum(reading.duration_s for reading in readings)
    method = " with ".join(reading.method for reading in readings)
    few = all(reading.provisional for reading in readings)
    return Pooled(estimate_of(found, duration_s, method, few=few))


def _log_variance(reading: Estimate) -> float:
    width = _log_width(interval_of(reading)) or 2 * 1.96 * _UNKNOWN_WIDTH
    return (width / (2 * 1.96)) ** 2 + BETWEEN_PASSES**2


def inverse(interval: Interval, scale: float) -> Interval:
    """Return `scale` over a positive number; an end at zero becomes none."""
    low, high = interval.high, interval.low
    return Interval(
        scale / interval.value, scale / low if low else None, scale / high if high else None
    )


def interval_of(estimate: Estimate) -> Interval:
    """Return the number of an estimate and its interval alone."""
    return Interval(estimate.value, estimate.low, estimate.high)


def estimate_of(interval: Interval, duration_s: float, method: str, *, few: bool) -> Estimate:
    """Say how an interval came about; it is provisional if from few parts or a short time."""
    provisional = few or duration_s < FIRM_AFTER_S
    return Estimate(interval.value, interval.low, interval.high, duration_s, method, provisional)


def _ratio_of(parts: Parts) -> Interval | None:
    """Return the ratio of non-negative sums; no interval reaches below zero."""
    found = cluster_ratio([a for a, _ in parts], [b for _, b in parts])
    if found is None or found.low is None:
        return found
    return Interval(found.value, max(0.0, found.low), found.high)


def _log_width(interval: Interval) -> float | None:
    if not interval.low or not interval.high or interval.low < 0:
        return None
    return log(interval.high / interval.low)
