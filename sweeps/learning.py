"""Whether the drafts of a server became better within a pass: their cache was still learning."""

from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.intervals import Interval, cluster_ratio, quotient
from sweeps.records import EndReason, PassRecord, RequestRecord

LEARNING = ("NGRAM",)
"""Algorithms whose drafts come from a cache of what the server has generated."""
TELLING_FRACTION = 0.02
"""A rise below this is not worth telling: loads that differ by as much are called alike."""


@dataclass(frozen=True, slots=True)
class Rise:
    """The accept length of the first and of the last half of a pass."""

    first: float
    last: float


def learning_in(record: PassRecord) -> Rise | None:
    """Return how the accept length rose within a pass; None where nothing shows that it did.

    Over the finished requests in the order of their sending. It must rise by more than requests
    differ by chance (95 %).
    """
    told = [r for r in record.requests if r.end is EndReason.FINISHED and r.verify_steps]
    told.sort(key=lambda request: request.sent_s)
    half = len(told) // 2
    first, last = _accept(told[:half]), _accept(told[half:])
    if first is None or last is None:
        return None
    gain = quotient(last, first)
    if gain.low is None or gain.low <= 1 or gain.value < 1 + TELLING_FRACTION:
        return None
    return Rise(first.value, last.value)


def _accept(requests: Sequence[RequestRecord]) -> Interval | None:
    tokens = [float(r.output_tokens - 1) for r in requests]
    return cluster_ratio(tokens, [float(r.verify_steps or 0) for r in requests])
