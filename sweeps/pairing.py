"""Two passes over the same prompts, compared prompt by prompt."""

from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, stdev

from sweeps.blocks import BROKEN_ENDS, streaming_until_s
from sweeps.intervals import Interval, student_quantile
from sweeps.records import PassRecord

SETTLED_FRACTION = 0.03
"""A later pass that gains less than this has nothing left to warm up."""


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """How many times as fast one pass decoded as another, over the prompts that both decoded."""

    ratio: Interval
    """Geometric mean over the prompts, and its 95 % interval."""
    below: float | None
    """One-sided: with 95 % confidence the ratio lies below this."""
    pairs: int


def paired_log_ratio(record: PassRecord, other: PassRecord) -> PairedRatio | None:
    """Return the decode rate of a pass over that of another, from the t interval of paired logs.

    Requests are paired by their prompt's key; those of one key are pooled, broken ones and those
    without a key are left out. None where no prompt is in both.
    """
    rates, others = _log_rates(record), _log_rates(other)
    gains = [rates[key] - others[key] for key in sorted(rates.keys() & others.keys())]
    n = len(gains)
    if not gains:
        return None
    mean = fmean(gains)
    if n < 2:
        return PairedRatio(Interval(exp(mean), None, None), None, n)
    error = stdev(gains) / sqrt(n)
    half = student_quantile(0.975, n - 1) * error
    above = student_quantile(0.95, n - 1) * error
    interval = Interval(exp(mean), exp(mean - half), exp(mean + half))
    return PairedRatio(interval, exp(mean + above), n)


def is_settled(
    later: PassRecord, earlier: PassRecord, within_fraction: float = SETTLED_FRACTION
) -> bool:
    """Tell whether a second pass over a probe set shows that warming up is over.

    It does when its gain over the first lies, with 95 % confidence, below `within_fraction`.
    """
    gain = paired_log_ratio(later, earlier)
    return gain is not None and gain.below is not None and gain.below < 1 + within_fraction


def _log_rates(record: PassRecord) -> dict[str, float]:
    tokens: dict[str, int] = {}
    times_s: dict[str, float] = {}
    for request in record.requests:
        if request.prompt_key and request.decode_tokens and request.end not in BROKEN_ENDS:
            key, spent_s = request.prompt_key, streaming_until_s(request) - request.times_s[0]
            tokens[key] = tokens.get(key, 0) + request.decode_tokens
            times_s[key] = times_s.get(key, 0.0) + spent_s
    return {key: log(tokens[key] / times_s[key]) for key in tokens if times_s[key] > 0}
