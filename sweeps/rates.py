"""Rates of one pass with their intervals: tokens, steps, and tokens per step."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sweeps.blocks import (
    BROKEN_ENDS,
    Curve,
    Window,
    block_windows,
    count_in,
    curve_of,
    curves_of,
    length_s,
    stream_s_in,
    streaming_until_s,
    streaming_windows,
)
from sweeps.intervals import (
    BLOCKS,
    LEAST_BLOCKS,
    Interval,
    Parts,
    block_ratio,
    cluster_ratio,
    estimate_of,
)
from sweeps.records import EndReason, PassRecord, RequestRecord
from sweeps.results import Estimate
from sweeps.steps import Stepping, decoded, stepping_of

ARRIVALS_PER_BLOCK = 5
"""Fewer arrivals in a block and its rate is that of its neighbours."""
MOST_UNKNOWN_FRACTION = 0.1
"""Where more of a pass is left out of an accept length, those that finished first stand for all."""


def decode_rate(record: PassRecord) -> Estimate | None:
    """Return decode tokens over streaming time, with the interval of batch means.

    Equal time blocks over the joined streaming time (`sweeps.blocks.streaming_windows`). The
    interval describes these prompts; `stream_rate` describes prompts like them. None where
    nothing was decoded in that time: unknown, not zero.
    """
    curves = curves_of(record)
    return _pooled(curves, streaming_windows(curves, record.concurrency), record)


def output_rate(record: PassRecord) -> Estimate | None:
    """Return all output tokens, those of prefill included, per second while every slot is taken.

    The tokens of a first arrival are spread over the wait for it.
    """
    streams = curves_of(record)
    whole = [
        replace(c, times_s=(c.sent_s, *c.times_s), counts=(0, *c.counts)) if c.times_s else c
        for c in streams
    ]
    by = whole if record.concurrency == 1 else streams
    return _pooled(whole, streaming_windows(by, record.concurrency), record)


def stream_rate(record: PassRecord) -> Estimate | None:
    """Return decode tokens per second of one stream, with an interval for prompts like these."""
    requests = decoded(record)
    tokens = [float(r.decode_tokens) for r in requests]
    return _clustered(tokens, [_streaming_s(r) for r in requests], requests, record, "tokens")


def steps_per_s(record: PassRecord, *, stepping: Stepping | None = None) -> Estimate | None:
    """Return the decode or verify steps of a stream per second that it streams.

    `stepping` is how this server steps, from all its passes; None leaves it to this one. Requests
    whose steps are unknown do not count.
    """
    how = stepping or stepping_of([record])
    counted = [(r, how.counts(r)) for r in decoded(record)]
    known = [curve_of(r, counts) for r, counts in counted if counts is not None]
    slots = known if record.concurrency == 1 else curves_of(record)
    windows = streaming_windows(slots, record.concurrency)

    def parts(blocks: int) -> Parts:
        return [
            (sum(count_in(known, w) for w in pieces), sum(stream_s_in(known, w) for w in pieces))
            for pieces in block_windows(windows, blocks)
        ]

    what = "plain steps" if how.plain else "verify steps"
    guessed = not how.plain and any(r.end is not EndReason.FINISHED for r, c in counted if c)
    what += ", of unfinished requests by their chunks" if guessed else ""
    return _blocked(parts, known, windows, record, what)


def accept_length(record: PassRecord, *, stepping: Stepping | None = None) -> Estimate | None:
    """Return tokens per verify step, weighted by steps, over the requests whose steps are known.

    The first token comes from prefill and is not counted, as in the server's own log line
    (SGLang 0.5.23); `spec_accept_length` of one request counts it. None for plain decode.
    """
    how = stepping or stepping_of([record])
    drafted = [(r, how.drafted(r)) for r in record.requests if r.end not in BROKEN_ENDS]
    known = [(r, both) for r, both in drafted if both is not None]
    requests = [r for r, _ in known if r.times_s]
    tokens, steps = [a for _, (a, _) in known], [b for _, (_, b) in known]
    found = _clustered(tokens, steps, requests, record, "tokens per verify step")
    left_out = unknown_fraction(record, how)
    if found is None or left_out <= MOST_UNKNOWN_FRACTION:
        return found
    method = f"{found.method}; {left_out:.0%} of the tokens left out, their steps are unknown"
    return replace(found, method=method, provisional=True)


def unknown_fraction(record: PassRecord, stepping: Stepping) -> float:
    """Return the share of the decode tokens whose verify steps are unknown; 1 without any."""
    requests = [r for r in record.requests if r.end not in BROKEN_ENDS]
    total = sum(max(0, r.output_tokens - 1) for r in requests)
    unknown = sum(max(0, r.output_tokens - 1) for r in requests if stepping.drafted(r) is None)
    return unknown / total if total else 1.0


def _streaming_s(request: RequestRecord) -> float:
    return streaming_until_s(request) - request.times_s[0]


def _pooled(
    curves: Sequence[Curve], windows: Sequence[Window], record: PassRecord
) -> Estimate | None:
    """Return what all curves rose by in the windows over the length of the windows."""

    def parts(blocks: int) -> Parts:
        return [
            (sum(count_in(curves, w) for w in pieces), length_s(pieces))
            for pieces in block_windows(windows, blocks)
        ]

    return _blocked(parts, curves, windows, record, "")


def _blocked(
    parts: Callable[[int], Parts], curves: Sequence[Curve], windows: Sequence[Window],
    record: PassRecord, what: str,
) -> Estimate | None:  # fmt: skip
    if not windows:
        return None
    arrivals = sum(max(0, len(c.times_s) - 1) for c in curves) // record.concurrency
    found = block_ratio(parts, min(BLOCKS, arrivals // ARRIVALS_PER_BLOCK))
    if found is None or found[0].value <= 0:
        return None
    interval, blocks, method = found
    if record.concurrency > 1:
        method += f", {record.concurrency} streams pooled at full concurrency"
    method = f"{what}, {method}" if what else method
    return estimate_of(interval, length_s(windows), method, few=blocks < LEAST_BLOCKS)


def _clustered(
    numerators: Sequence[float], denominators: Sequence[float],
    requests: Sequence[RequestRecord], record: PassRecord, what: str,
) -> Estimate | None:  # fmt: skip
    interval = cluster_ratio(numerators, denominators)
    if interval is None or interval.value <= 0:
        return None
    duration_s = sum(_streaming_s(r) for r in requests) / record.concurrency
    low = None if interval.low is None else max(0.0, interval.low)
    method = f"{what} over {len(requests)} requests, spread between requests"
    kept = Interval(interval.value, low, interval.high)
    return estimate_of(kept, duration_s, method, few=len(requests) < LEAST_BLOCKS)
