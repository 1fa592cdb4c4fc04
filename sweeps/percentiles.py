"""Percentiles with bounds that assume no distribution, and how many requests those need."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import ceil, floor, isinf

from sweeps.intervals import Interval, cluster_ratio, student_quantile

GROUPS = 10
LEAST_IN_GROUP = 5


def percentile_of(ordered: Sequence[float], percentile: float) -> float:
    """Return a percentile (0 to 1) of ordered values, linear between them; infinite if one is."""
    place = percentile * (len(ordered) - 1)
    below, above = ordered[floor(place)], ordered[ceil(place)]
    return above if isinf(above) else below + (place - floor(place)) * (above - below)


def percentile_interval(
    values: Sequence[float],
    percentile: float,
    confidence: float = 0.95,
    *,
    independent: int | None = None,
) -> Interval:
    """Return a percentile and the order statistics that hold it with at least this confidence.

    An end is None where there are too few values for it, or where it is infinite. Where the
    values say less than as many independent ones would, `independent` is what they are worth.
    """
    ordered = sorted(values)
    n = len(ordered) if independent is None else min(len(ordered), max(1, independent))
    low, high = _ranks(n, percentile, (1 - confidence) / 2)
    # In whole numbers: a rank that rounding lifts lies beyond the last value.
    least = ordered[(low - 1) * len(ordered) // n] if low >= 1 else None
    most = ordered[-(-high * len(ordered) // n) - 1] if high <= n else None
    value = percentile_of(ordered, percentile)
    # Of very few values even the last may be too low, and then what lies between two is as well.
    return Interval(
        value,
        None if least is None else min(least, value),
        None if most is None or isinf(most) else max(most, value),
    )


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median with its distribution-free interval: None below 6 values."""
    return percentile_interval(values, 0.5)


def requests_needed(percentile: float, confidence: float = 0.99, worse: int = 1) -> int:
    """Return how many independent requests bound a percentile from above by an observed one.

    The bound is the one that `worse` others exceed; MLPerf's LoadGen (b66003e) states its
    percentiles so. Raises: ValueError for a percentile or confidence outside (0, 1).
    """
    if not (0 < percentile < 1 and 0 < confidence < 1):
        raise ValueError(f"no percentile {percentile} at confidence {confidence}")
    from scipy.special import bdtr

    def is_enough(n: int) -> bool:
        return bool(bdtr(worse, n, 1 - percentile) <= 1 - confidence)

    most = worse + 1
    while not is_enough(most):
        most *= 2
    return bisect_left(range(most), x=True, lo=worse + 1, key=is_enough)


def independent_count(values: Sequence[float], percentile: float) -> int:
    """Return how many independent values would place a percentile as well as these do.

    `values` stand in the order of time; groups of neighbours show how far they move together.
    """
    n = len(values)
    groups = min(GROUPS, n // LEAST_IN_GROUP)
    if groups < 2:
        return n
    border = percentile_of(sorted(values), percentile)
    below = [0, *accumulate(value <= border for value in values)]
    cuts = [i * n // groups for i in range(groups + 1)]
    counts = [float(below[b] - below[a]) for a, b in pairwise(cuts)]
    sizes = [float(b - a) for a, b in pairwise(cuts)]
    spread = cluster_ratio(counts, sizes)
    if spread is None or spread.high is None:
        return n
    variance = ((spread.high - spread.value) / student_quantile(0.975, groups - 1)) ** 2
    alone = spread.value * (1 - spread.value)
    return n if variance * n <= alone else max(1, round(alone / variance))


def _ranks(n: int, percentile: float, tail: float) -> tuple[int, int]:
    """Return the ranks, from 1, between which a percentile lies; 0 and n + 1 are no ranks."""
    from scipy.special import bdtr  # slow to import, and few need it

    ranks = range(n + 1)
    low = bisect_left(ranks, x=True, key=lambda k: bool(bdtr(k, n, percentile) > tail))
    high = bisect_left(ranks, x=True, key=lambda k: bool(bdtr(k, n, percentile) >= 1 - tail))
    return low, high + 1
