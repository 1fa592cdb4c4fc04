"""Token counts of a pass held against each other: the stream's, the usage's, the server's own.

Counts may differ a little for good reasons: an end token without a text, a token beyond a limit
that a verify step had accepted already. More than that, and a rate cannot be had from them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sweeps.phrases import figure
from sweeps.rates import decode_rate
from sweeps.records import EndReason, PassRecord, RequestRecord

TOLERATED_TOKENS = 2
TOLERATED_FRACTION = 0.02
"""As much as makes no difference between two variants (`sweeps.ranking`)."""

MISCOUNT = "token counts contradict each other"
"""What the detail of a request begins with whose own counts do."""

LOG_FRACTION = 0.1
LEAST_INTERVALS = 3
"""A pass may stream this much faster than the fastest of so many intervals of the server's log:
an interval holds steps alone, or pauses and prefills as well, so that it can only be slower."""

TOKENS_COUNTER = "generation_tokens_total"
VERIFIES_COUNTER = "spec_verify_calls_total"
"""Counters of SGLang's /metrics; both grow when a request finishes (0.5.23,
srt/observability/metrics_collector.py)."""


def tolerated_tokens(count: int) -> float:
    """Return by how many tokens a count may be off."""
    return max(TOLERATED_TOKENS, TOLERATED_FRACTION * count)


@dataclass(frozen=True, slots=True)
class Account:
    """What the counts of a pass say of each other."""

    told: tuple[str, ...] = ()
    """Small deviations, in words."""
    contradiction: str = ""
    """Why no rate can be had; empty where one can."""


@dataclass(frozen=True, slots=True)
class ServerCounts:
    """What a server counted itself over a pass; empty where it tells nothing."""

    counters: Mapping[str, float] = field(default_factory=dict)
    """By how much those of /metrics rose."""
    log_tok_s: Sequence[float] = ()
    """The rate of each interval that its log tells."""


NO_COUNTS = ServerCounts()


def account_of(
    record: PassRecord, draft_tokens: int | None, theirs: ServerCounts = NO_COUNTS
) -> Account:
    """Hold the counts of a pass against each other.

    `draft_tokens` is the most that a verify step can commit, None where that is not known.
    """
    finished = [r for r in record.requests if r.end is EndReason.FINISHED]
    whole = len(finished) == len(record.requests)
    found = [
        *_of_steps(finished, draft_tokens),
        *(_of_counters(finished, theirs.counters) if whole else ()),
        *_of_log(record, theirs.log_tok_s),
    ]
    told = [*_of_requests(record.requests), *(text for text, sound in found if sound)]
    contradictions = [text for text, sound in found if not sound]
    return Account(tuple(told), "; ".join(contradictions))


def _of_requests(requests: Sequence[RequestRecord]) -> Iterator[str]:
    off = [abs(r.deviation_tokens) for r in requests if r.deviation_tokens]
    if off:
        yield (
            f"the token counts of {len(off)} of {len(requests)} requests disagree within"
            f" themselves, by {max(off)} at the most: too little to matter"
        )


_Finding = tuple[str, bool]
"""A deviation in words, and whether it is too small to matter."""


def _of_steps(requests: Sequence[RequestRecord], draft_tokens: int | None) -> Iterator[_Finding]:
    """Find more tokens per verify step than a step can commit."""
    verified = [r for r in requests if r.verify_steps]
    steps = sum(r.verify_steps or 0 for r in verified)
    if not steps or draft_tokens is None:
        return
    length = sum(r.output_tokens - 1 for r in verified) / steps
    if length > draft_tokens:
        text = (
            f"{figure(length)} tokens a verify step by the counts of the requests, of"
            f" {draft_tokens} that a step can commit at the most"
        )
        yield text, length <= draft_tokens * (1 + TOLERATED_FRACTION)


def _of_counters(
    requests: Sequence[RequestRecord], counters: Mapping[str, float]
) -> Iterator[_Finding]:
    ours = {
        TOKENS_COUNTER: sum(r.output_tokens for r in requests),
        VERIFIES_COUNTER: sum(r.verify_steps or 0 for r in requests),
    }
    for name, mine in ours.items():
        theirs = counters.get(name)
        if theirs is None or not mine or theirs == mine:
            continue
        text = f"the server's {name} rose by {theirs:g}, and its requests tell of {mine}"
        yield text, abs(theirs - mine) <= tolerated_tokens(mine)


def _of_log(record: PassRecord, log_tok_s: Sequence[float]) -> Iterator[_Finding]:
    """Find a rate above all that the server's log tells. How that counts differs by version, so it
    is told and decides nothing."""
    rate = decode_rate(record)
    if rate is None or len(log_tok_s) < LEAST_INTERVALS:
        return
    fastest = max(log_tok_s)
    if rate.value > fastest * (1 + LOG_FRACTION):
        text = (
            f"{figure(rate.value, 'tok/s')} by the counts of the requests, but the server's log"
            f" tells of {figure(fastest)} at the most"
        )
        yield text, True
