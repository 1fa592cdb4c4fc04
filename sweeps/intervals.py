"""Numbers of one pass with their 95 % intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import comb, inf, isinf, sqrt
from statistics import fmean, median, stdev

from sweeps.blocks import (
    BROKEN_ENDS,
    block_rates,
    count_in,
    curves_of,
    length_s,
    streaming_until_s,
    streaming_windows,
)
from sweeps.records import EndReason, PassRecord, RequestRecord
from sweeps.results import Estimate

BLOCKS = 10
LEAST_BLOCKS = 5
ARRIVALS_PER_BLOCK = 5
"""Fewer arrivals in a block and its rate is that of its neighbours."""
FIRM_AFTER_S = 30.0
MOST_CORRELATION = 0.3


@dataclass(frozen=True, slots=True)
class Interval:
    """A number and its 95 % interval, whose ends are None where there is none."""

    value: float
    low: float | None
    high: float | None


@cache
def student_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's t."""
    from scipy.special import stdtrit  # slow to import, and few need it

    return float(stdtrit(degrees, probability))


def mean_half_width(values: Sequence[float]) -> float:
    """Return half the t interval of the mean of independent values, of which it needs two."""
    return student_quantile(0.975, len(values) - 1) * stdev(values) / sqrt(len(values))


def cluster_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Interval | None:
    """Return sum over sum, its interval from the spread between the requests.

    Linearised ratio estimator, t with n - 1 degrees of freedom; None where the sum to divide by
    is zero. It describes prompts like these, not only these.
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


def decode_rate(record: PassRecord) -> Estimate | None:
    """Return decode tokens over streaming time, with the interval of batch means.

    Equal time blocks over the joined streaming time (`sweeps.blocks.streaming_windows`). The
    interval describes these prompts; `cluster_ratio` describes prompts like them. None where
    nothing was decoded in that time: unknown, not zero.
    """
    curves = curves_of(record)
    windows = streaming_windows(curves, record.concurrency)
    duration_s = length_s(windows)
    tokens = sum(count_in(curves, window) for window in windows)
    if tokens <= 0:
        return None
    arrivals = sum(max(0, len(c.times_s) - 1) for c in curves) // record.concurrency
    wanted = min(BLOCKS, arrivals // ARRIVALS_PER_BLOCK)

    def rates(blocks: int) -> list[float]:
        return block_rates(curves, windows, duration_s / blocks, range(blocks))

    interval, blocks, method = _batch_means(rates, tokens / duration_s, wanted)
    if record.concurrency > 1:
        method += f", {record.concurrency} streams pooled at full concurrency"
    return _estimate(interval, duration_s, method, few=blocks < LEAST_BLOCKS)


def accept_length(record: PassRecord) -> Estimate | None:
    """Return tokens per verify step over the finished requests that speculated.

    The first token comes from prefill and is not counted, as in the server's own log line
    (SGLang 0.5.23); `spec_accept_length` of one request counts it.
    """
    requests = _verified(record)
    steps = [float(r.verify_steps or 0) for r in requests]
    interval = cluster_ratio([float(r.output_tokens - 1) for r in requests], steps)
    return _clustered(interval, requests, record, "tokens per verify step")


def steps_per_s(record: PassRecord, *, plain: bool | None = None) -> Estimate | None:
    """Return the decode or verify steps of a stream per second.

    `plain` says whether the server decoded one token a step; None leaves it to the counts. A
    request without a verify count counts in plain decode only: unfinished, its steps are unknown.
    """
    if is_plain(record) if plain is None else plain:
        return _plain_steps(record)
    requests = [r for r in _verified(record) if r.output_tokens > 1]
    steps = [
        (r.verify_steps or 0) * r.decode_tokens / (r.output_tokens - 1) for r in requests
    ]  # less where the first arrival already held the tokens of some steps
    interval = cluster_ratio(steps, [r.decode_s for r in requests])
    return _clustered(interval, requests, record, "verify steps")


def is_plain(record: PassRecord) -> bool:
    """Tell whether the finished requests show plain decode: no verify count in any."""
    ends = [r.verify_steps for r in record.requests if r.end is EndReason.FINISHED]
    return bool(ends) and all(steps is None for steps in ends)


def ttft(record: PassRecord) -> Estimate | None:
    """Return the median time to first token, in milliseconds.

    A request that failed without a token, or waited for longer than the median without one,
    counts as longer; one that was ended sooner says nothing.
    """
    seen = [1000 * r.ttft_s for r in record.requests if r.ttft_s is not None]
    if not seen:
        return None
    middle = median(seen)
    late = sum(
        r.end in BROKEN_ENDS or 1000 * (r.ended_s - r.sent_s) > middle
        for r in record.requests
        if not r.times_s
    )
    return _median_estimate([*seen, *[inf] * late], record, "median over requests")


def tpot(record: PassRecord) -> Estimate | None:
    """Return the median over requests of the time per decode token, in milliseconds."""
    requests = [r for r in record.requests if r.end not in BROKEN_ENDS and r.decode_tokens]
    gaps_ms = [1000 * (streaming_until_s(r) - r.times_s[0]) / r.decode_tokens for r in requests]
    return _median_estimate(gaps_ms, record, "median over requests")


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median with its distribution-free interval: None below 6 values.

    Order statistics whose binomial coverage is at least 95 %; infinite ends are None.
    """
    ordered = sorted(values)
    n = len(ordered)
    tail, rank = 0.0, 0
    while (tail := tail + comb(n, rank) / 2**n) <= 0.025:
        rank += 1
    low, high = (ordered[rank - 1], ordered[n - rank]) if rank else (None, None)
    return Interval(median(ordered), low, None if high is None or isinf(high) else high)


def _batch_means(
    rates: Callable[[int], list[float]], value: float, blocks: int
) -> tuple[Interval, int, str]:
    """Return the interval of batch means, from half the blocks if neighbours are too alike."""
    if blocks < 2:
        return Interval(value, None, None), blocks, "too few arrivals for an interval"
    values = rates(blocks)
    correlation = lag_one_correlation(values)
    method = f"{blocks} time blocks"
    if abs(correlation) >= MOST_CORRELATION and blocks >= 4:
        blocks //= 2
        method = f"{blocks} time blocks, halved for autocorrelation {correlation:.2f}"
        values = rates(blocks)
    half = mean_half_width(values)
    return Interval(value, max(0.0, value - half), value + half), blocks, method


def _plain_steps(record: PassRecord) -> Estimate | None:
    if record.concurrency == 1:
        return decode_rate(record)
    requests = [r for r in record.requests if r.end not in BROKEN_ENDS and r.decode_tokens]
    times_s = [streaming_until_s(r) - r.times_s[0] for r in requests]
    interval = cluster_ratio([float(r.decode_tokens) for r in requests], times_s)
    return _clustered(interval, requests, record, "plain steps")


def _verified(record: PassRecord) -> list[RequestRecord]:
    return [r for r in record.requests if r.end is EndReason.FINISHED and r.verify_steps]


def _clustered(
    interval: Interval | None, requests: Sequence[RequestRecord], record: PassRecord, what: str
) -> Estimate | None:
    if interval is None:
        return None
    duration_s = sum(r.decode_s for r in requests) / record.concurrency
    low = None if interval.low is None else max(0.0, interval.low)
    method = f"{what} over {len(requests)} requests, spread between requests"
    return _estimate(
        Interval(interval.value, low, interval.high),
        duration_s, method, few=len(requests) < LEAST_BLOCKS,
    )  # fmt: skip


def _median_estimate(values: Sequence[float], record: PassRecord, method: str) -> Estimate | None:
    if not values:
        return None
    interval = median_interval(values)
    if isinf(interval.value):
        return None
    return _estimate(
        interval, record.ended_s - record.started_s, f"{method}, n = {len(values)}",
        few=interval.low is None,
    )  # fmt: skip


def _estimate(interval: Interval, duration_s: float, method: str, *, few: bool) -> Estimate:
    provisional = few or duration_s < FIRM_AFTER_S
    return Estimate(interval.value, interval.low, interval.high, duration_s, method, provisional)
