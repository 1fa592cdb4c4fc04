"""Percentiles of the latencies of one pass, marked where the client itself decided them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf, isinf
from statistics import median

from sweeps.blocks import BROKEN_ENDS, streaming_until_s
from sweeps.intervals import estimate_of
from sweeps.percentiles import independent_count, percentile_interval, percentile_of
from sweeps.records import PassRecord, RequestRecord
from sweeps.results import Estimate
from sweeps.steps import decoded

HOST_LIMITED_FRACTION = 0.1
"""A client that runs later than this much of the median gap decides the percentiles itself."""


def ttft(record: PassRecord, percentile: float = 0.5) -> Estimate | None:
    """Return a percentile over requests of the time to first token, in milliseconds.

    It counts from when a request was due. One that failed without a token, or waited for longer
    than the percentile without one, counts as longer; one that was ended sooner says nothing.
    """
    seen = [1000 * r.ttft_s for r in record.requests if r.ttft_s is not None]
    if not seen:
        return None
    border = percentile_of(sorted(seen), percentile)
    late = sum(
        r.end in BROKEN_ENDS or 1000 * (r.ended_s - r.due_s) > border
        for r in record.requests
        if not r.times_s
    )
    found = _over_requests([*seen, *[inf] * late], record, percentile)
    return found and _marked(found, record)


def tpot(record: PassRecord) -> Estimate | None:
    """Return the median over requests of the time per decode token, in milliseconds."""
    gaps_ms = [
        1000 * (streaming_until_s(r) - r.times_s[0]) / r.decode_tokens for r in decoded(record)
    ]
    return _over_requests(gaps_ms, record, 0.5)


def queue(record: PassRecord) -> Estimate | None:
    """Return the median time in the server's queue, in milliseconds, as the server tells it."""
    told_ms = [1000 * r.queue_s for r in record.requests if r.queue_s is not None]
    return _over_requests(told_ms, record, 0.5)


def itl(record: PassRecord, percentile: float = 0.5) -> Estimate | None:
    """Return a percentile of the time between tokens, in milliseconds.

    None unless every arrival of every stream after its first holds one token: what comes together
    has no times of its own.
    """
    requests = decoded(record)
    if not all(b - a == 1 for r in requests for a, b in pairwise(r.tokens)):
        return None
    return _over_gaps(requests, record, percentile, "gaps between tokens")


def chunk_gap(record: PassRecord, percentile: float = 0.5) -> Estimate | None:
    """Return a percentile of the time between arrivals, in milliseconds, whatever they hold."""
    return _over_gaps(decoded(record), record, percentile, "gaps between chunks")


def is_host_limited(record: PassRecord) -> bool:
    """Tell whether the client ran too late for the percentiles of its times to be the server's."""
    if record.client_lag_s is None:
        return False
    gaps_s = [gap_s for _, gap_s in _gaps(decoded(record))]
    return bool(gaps_s) and record.client_lag_s > HOST_LIMITED_FRACTION * median(gaps_s)


def _gaps(requests: Sequence[RequestRecord]) -> list[tuple[float, float]]:
    """Return when each gap between arrivals ended and how long it was, in the order of time."""
    return sorted((b, b - a) for r in requests for a, b in pairwise(r.times_s))


def _over_gaps(
    requests: Sequence[RequestRecord], record: PassRecord, percentile: float, what: str
) -> Estimate | None:
    gaps_ms = [1000 * gap_s for _, gap_s in _gaps(requests)]
    if len(gaps_ms) < _fewest(percentile):
        return None
    worth = independent_count(gaps_ms, percentile)
    interval = percentile_interval(gaps_ms, percentile, independent=worth)
    method = f"{_name(percentile)} of {what}, n = {len(gaps_ms)}, worth {worth} independent ones"
    few = interval.low is None or interval.high is None
    return _marked(estimate_of(interval, _length_s(record), method, few=few), record)


def _over_requests(
    values: Sequence[float], record: PassRecord, percentile: float
) -> Estimate | None:
    if len(values) < _fewest(percentile):
        return None
    interval = percentile_interval(values, percentile)
    if isinf(interval.value):
        return None
    few = interval.low is None or (percentile > 0.5 and interval.high is None)
    method = f"{_name(percentile)} over requests, n = {len(values)}"
    return estimate_of(interval, _length_s(record), method, few=few)


def _marked(estimate: Estimate, record: PassRecord) -> Estimate:
    if not is_host_limited(record):
        return estimate
    lag_ms = 1000 * (record.client_lag_s or 0.0)
    method = f"{estimate.method}; host-limited: the client itself ran {lag_ms:.3g} ms late"
    return replace(estimate, method=method, provisional=True)


def _fewest(percentile: float) -> float:
    """Return below how many values a percentile is a guess at the next one."""
    return max(1, round(1 / (1 - percentile))) if percentile > 0.5 else 1


def _name(percentile: float) -> str:
    return "median" if percentile == 0.5 else f"p{100 * percentile:g}"


def _length_s(record: PassRecord) -> float:
    return record.ended_s - record.started_s
