"""An alarm for a pass that was still warming up. It never cuts anything off by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, sqrt
from statistics import fmean

from sweeps.blocks import block_rates, curves_of, length_s, streaming_windows
from sweeps.records import PassRecord

FIRST_FRACTION, LAST_FRACTION = 0.2, 0.5
ALARM_Z = -2.6
BINS = 60
LEAST_BINS = 20
ARRIVALS_PER_BIN = 5


@dataclass(frozen=True, slots=True)
class Drift:
    """The rates of the first fifth and the last half of a pass, and how surely they differ."""

    first_per_s: float
    last_per_s: float
    z: float
    """Difference, first less last, in standard errors; negative while a server warms up."""

    @property
    def is_alarming(self) -> bool:
        """Tell whether the start was so slow that the mean of the pass says little."""
        return self.z < ALARM_Z


def drift_of(record: PassRecord) -> Drift | None:
    """Compare the start of a pass with its end; None where too little was decoded to tell."""
    curves = curves_of(record)
    windows = streaming_windows(curves, record.concurrency)
    arrivals = sum(max(0, len(c.times_s) - 1) for c in curves) // record.concurrency
    bins = min(BINS, arrivals // ARRIVALS_PER_BIN)
    if bins < LEAST_BINS or not windows:
        return None
    return drift(block_rates(curves, windows, length_s(windows) / bins, range(bins)))


def drift(rates: Sequence[float]) -> Drift | None:
    """Compare the first fifth of a series with its last half; None where it is too short.

    Geweke's difference of means, with long-run variances that allow for correlation.
    """
    n = len(rates)
    if n < LEAST_BINS:
        return None
    first, last = rates[: round(FIRST_FRACTION * n)], rates[n - round(LAST_FRACTION * n) :]
    difference = fmean(first) - fmean(last)
    spread = long_run_variance(last)
    error = sqrt(spread / len(first) + spread / len(last))
    z = difference / error if error else 0.0
    return Drift(fmean(first), fmean(last), z)


def long_run_variance(values: Sequence[float]) -> float:
    """Return the variance of a mean times the number of values, Bartlett weights.

    It is not cut to the lags with a visible correlation: at these lengths that is too narrow.
    """
    n, mean = len(values), fmean(values)
    apart = [value - mean for value in values]
    lags = max(1, isqrt(n))
    total = sum(x * x for x in apart)
    for lag in range(1, lags + 1):
        weight = 2 * (1 - lag / (lags + 1))
        total += weight * sum(a * b for a, b in zip(apart, apart[lag:], strict=False))
    return max(0.0, total / n) / (1 - lags / n)
