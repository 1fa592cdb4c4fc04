"""Where a pass counts as streaming, and how many tokens came in each block of that time."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isinf

from sweeps.records import EndReason, PassRecord, RequestRecord

BROKEN_ENDS = (EndReason.BROKEN, EndReason.SILENT)
CUT_ENDS = (EndReason.DEADLINE, EndReason.CANCELLED)

PREFILL_TOKENS = 1
"""What prefill brings; the other tokens of a first arrival were decoded before it."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A cumulative count of one stream: linear between arrivals, flat after the last."""

    sent_s: float
    times_s: Sequence[float]
    counts: Sequence[float]
    until_s: float
    """When it stopped streaming, see `ends_s`."""
    ended_s: float
    ok: bool = True
    prefilled: float | None = None
    """The part of the first arrival that prefill brought; None: all of it, as in a count of steps.

    The rest was decoded while the request waited, and rises over that wait.
    """

    def at(self, time_s: float) -> float:
        """Return the count at a time.

        No difference between two times holds what prefill brought.
        """
        index = bisect_right(self.times_s, time_s)
        if index == 0:
            return self._waiting_at(time_s)
        if index == len(self.times_s):
            return self.counts[-1]
        since_s, next_s = self.times_s[index - 1], self.times_s[index]
        share = (time_s - since_s) / (next_s - since_s)
        return self.counts[index - 1] + share * (self.counts[index] - self.counts[index - 1])

    def _waiting_at(self, time_s: float) -> float:
        first, wait_s = self.counts[0], self.times_s[0] - self.sent_s
        if self.prefilled is None or wait_s <= 0:  # nothing is decoded in no time
            return first
        share = max(0.0, time_s - self.sent_s) / wait_s
        return self.prefilled + share * (first - self.prefilled)


Window = tuple[float, float]
"""A span of time, from and to, in the host's seconds."""


def curve_of(
    request: RequestRecord, counts: Sequence[float], *, prefilled: float | None = None
) -> Curve:
    """Return how something rose in a request that is over: `counts` is as long as its times."""
    until_s, ended_s = ends_s(request.times_s, request.ended_s, request.end)
    ok = request.end not in BROKEN_ENDS
    return Curve(request.sent_s, request.times_s, counts, until_s, ended_s, ok, prefilled)


def curves_of(record: PassRecord) -> tuple[Curve, ...]:
    """Return the token curves of a pass that is over."""
    return tuple(curve_of(r, r.tokens, prefilled=PREFILL_TOKENS) for r in record.requests)


def running_curve(
    sent_s: float,
    times_s: Sequence[float],
    counts: Sequence[float],
    ends: tuple[float, float] | None = None,
) -> Curve:
    """Return the curve of a request of a running pass, of tokens or of chunks.

    `ends` are its `ends_s`; None while it runs, it then ends at infinity.
    """
    until_s, ended_s = ends or (times_s[-1] if times_s else sent_s, inf)
    return Curve(sent_s, times_s, counts, until_s, ended_s, prefilled=PREFILL_TOKENS)


def ends_s(times_s: Sequence[float], ended_s: float, end: EndReason) -> tuple[float, float]:
    """Return when a request stopped streaming, and when its slot was free.

    It streamed until its last arrival, also where it was cut off: what was on its way then is not
    counted, so neither is its time. After more than its longest gap it was stalled, and a stall is
    streaming time.
    """
    if not times_s:
        return ended_s, ended_s
    if end is EndReason.FINISHED:
        return times_s[-1], ended_s
    longest_s = max((b - a for a, b in pairwise(times_s)), default=0.0)
    until_s = ended_s if ended_s - times_s[-1] > longest_s else times_s[-1]
    return until_s, until_s if end in CUT_ENDS else ended_s


def streaming_until_s(request: RequestRecord) -> float:
    """Return when a request stopped streaming."""
    return ends_s(request.times_s, request.ended_s, request.end)[0]


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
    heard_s = [
        c.times_s[-1] if c.times_s else c.sent_s for c in curves if isinf(c.ended_s)
    ]  # what the first arrival brings may rise from the sending on
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
        if curve.times_s and curve.sent_s < end_s and curve.until_s > start_s
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
