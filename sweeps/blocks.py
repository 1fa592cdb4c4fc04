"""Where a pass counts as streaming, and how many tokens came in each block of that time."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isinf

from sweeps.records import EndReason, PassRecord, RequestRecord

BROKEN_ENDS = (EndReason.BROKEN, EndReason.SILENT)


@dataclass(frozen=True, slots=True)
class Curve:
    """A cumulative count of one stream: linear between arrivals, flat after the last."""

    sent_s: float
    times_s: Sequence[float]
    counts: Sequence[float]
    until_s: float
    """When it stopped streaming: at its last arrival if it finished, else when it was ended."""
    ended_s: float
    ok: bool = True

    def at(self, time_s: float) -> float:
        """Return the count at a time; before the first arrival, what that arrival brought.

        So no difference between two times holds the first arrival's tokens, those of prefill.
        """
        index = bisect_right(self.times_s, time_s)
        if index == 0:
            return self.counts[0]
        if index == len(self.times_s):
            return self.counts[-1]
        since_s, next_s = self.times_s[index - 1], self.times_s[index]
        share = (time_s - since_s) / (next_s - since_s)
        return self.counts[index - 1] + share * (self.counts[index] - self.counts[index - 1])


Window = tuple[float, float]
"""A span of time, from and to, in the host's seconds."""


def curve_of(request: RequestRecord, counts: Sequence[float]) -> Curve:
    """Return how something rose in a request that is over: `counts` is as long as its times."""
    return Curve(
        request.sent_s,
        request.times_s,
        counts,
        streaming_until_s(request),
        request.ended_s,
        request.end not in BROKEN_ENDS,
    )


def curves_of(record: PassRecord) -> tuple[Curve, ...]:
    """Return the token curves of a pass that is over."""
    return tuple(curve_of(request, request.tokens) for request in record.requests)


def streaming_until_s(request: RequestRecord) -> float:
    """Return when a request stopped streaming. A stall before a deadline is streaming time."""
    if request.end is EndReason.FINISHED and request.times_s:
        return request.times_s[-1]
    return request.ended_s


def streaming_windows(curves: Sequence[Curve], concurrency: int) -> list[Window]:
    """Return the time that counts for the decode rate.

    One stream: from its first arrival on, request by request; broken requests are left out.
    Several: from when each of the first `concurrency` requests has its first token until the
    first slot stays empty (prefills in between are part of the load); tokens of all requests
    count there, since a broken one is replaced at once.
    """
    if concurrency == 1:
        windows = [(c.times_s[0], c.until_s) for c in curves if c.ok and c.times_s]
        return sorted(w for w in windows if w[0] < w[1])
    if len(curves) < concurrency:
        return []
    by_start = sorted(curves, key=lambda curve: curve.sent_s)
    firsts = [curve.times_s[0] for curve in by_start[:concurrency] if curve.times_s]
    last_sent_s = by_start[-1].sent_s
    start_s = max(firsts, default=last_sent_s)
    end_s = min((c.ended_s for c in curves if c.ended_s > last_sent_s), default=last_sent_s)
    return [(start_s, end_s)] if firsts and start_s < end_s else []


def live_windows(curves: Sequence[Curve], concurrency: int) -> list[Window]:
    """Return the streaming windows of a running pass, as far as all its streams have reported.

    A running curve ends at infinity. What lies in these windows does not change any more.
    """
    if concurrency > 1:
        firsts = sorted(curves, key=lambda curve: curve.sent_s)[:concurrency]
        if any(isinf(curve.ended_s) and not curve.times_s for curve in firsts):
            return []
    heard_s = [c.times_s[-1] for c in curves if isinf(c.ended_s) and c.times_s]
    over_s = [c.ended_s for c in curves if not isinf(c.ended_s)]
    known_s = min(heard_s) if heard_s else max(over_s, default=0.0)
    windows = [(a, min(b, known_s)) for a, b in streaming_windows(curves, concurrency)]
    return [window for window in windows if window[0] < window[1]]


def length_s(windows: Sequence[Window]) -> float:
    """Return the total length of windows."""
    return sum(end_s - start_s for start_s, end_s in windows)


def count_in(curves: Sequence[Curve], window: Window) -> float:
    """Return what all curves rose by in a window."""
    start_s, end_s = window
    return sum(
        curve.at(end_s) - curve.at(start_s)
        for curve in curves
        if curve.times_s and curve.times_s[0] < end_s and curve.until_s > start_s
    )


def stream_s_in(curves: Sequence[Curve], window: Window) -> float:
    """Return how long the curves streamed in a window, all together."""
    start_s, end_s = window
    return sum(
        max(0.0, min(curve.until_s, end_s) - max(curve.times_s[0], start_s))
        for curve in curves
        if curve.times_s
    )


def block_windows(windows: Sequence[Window], blocks: int) -> list[list[Window]]:
    """Cut joined windows into equal blocks: the pieces of each."""
    block_s = length_s(windows) / blocks
    return [list(_pieces(windows, i * block_s, (i + 1) * block_s)) for i in range(blocks)]


def block_rates(
    curves: Sequence[Curve], windows: Sequence[Window], block_s: float, blocks: range
) -> list[float]:
    """Return the count per second in blocks of the joined windows, by their numbers."""
    return [
        sum(count_in(curves, piece) for piece in _pieces(windows, i * block_s, (i + 1) * block_s))
        / block_s
        for i in blocks
    ]


def _pieces(windows: Sequence[Window], from_s: float, to_s: float) -> Iterator[Window]:
    """Find the part of the windows between two points of their joined time."""
    passed_s = 0.0
    for start_s, end_s in windows:
        shift_s = start_s - passed_s
        piece = (max(start_s, from_s + shift_s), min(end_s, to_s + shift_s))
        if piece[0] < piece[1]:
            yield piece
        passed_s += end_s - start_s
        if passed_s >= to_s:
            return
