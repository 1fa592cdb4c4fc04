"""How many steps a request took: by the server's count, by its tokens, or by its chunks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sweeps.blocks import BROKEN_ENDS
from sweeps.records import EndReason, Measurement, PassRecord, RequestRecord

SAME_FRACTION = 0.02
"""Chunks are taken for steps where those of finished requests agree within this."""
LEAST_STEPS = 50
"""Fewer verify steps do not show what a chunk is."""


@dataclass(frozen=True, slots=True)
class Stepping:
    """How steps are told apart in the passes of one server."""

    plain: bool
    """One token a step, and no verify count."""
    chunk_is_step: bool
    """Finished requests had as many chunks as verify steps, so unfinished ones may be counted."""

    def steps(self, request: RequestRecord) -> float | None:
        """Return the steps from the first to the last arrival; None where they are unknown.

        Less than the server's count where the first arrival already held the tokens of some.
        """
        if self.plain:
            return float(request.decode_tokens)
        if request.end is EndReason.FINISHED and request.verify_steps and request.output_tokens > 1:
            return request.verify_steps * request.decode_tokens / (request.output_tokens - 1)
        if self.chunk_is_step and request.end is not EndReason.FINISHED:
            return float(request.decode_chunks)
        return None

    def drafted(self, request: RequestRecord) -> tuple[float, float] | None:
        """Return the decode tokens of all verify steps that are known, and how many those are."""
        if self.plain:
            return None
        if request.end is EndReason.FINISHED and request.verify_steps and request.output_tokens > 1:
            return float(request.output_tokens - 1), float(request.verify_steps)
        steps = self.steps(request)
        return (float(request.decode_tokens), steps) if steps else None

    def counts(self, request: RequestRecord) -> Sequence[float] | None:
        """Return the steps up to each arrival, known steps spread evenly over the chunks."""
        if self.plain:
            return request.tokens
        steps, chunks = self.steps(request), request.decode_chunks
        if steps is None or not chunks:
            return None
        return [count * steps / chunks for count in request.chunk_counts]


def stepping_of(passes: Iterable[PassRecord], *, plain: bool | None = None) -> Stepping:
    """Tell how the server of some passes steps; `plain` is what its configuration says, if known.

    Without that, decode is plain where no finished request has a verify count.
    """
    records = tuple(passes)
    if plain is None:
        plain = any(map(is_plain, records)) and not any(map(_verified, records))
    return Stepping(plain, chunk_is_step=not plain and _chunk_is_step(records))


def stepping_in(measurement: Measurement) -> Stepping:
    """Tell how the server of a trial steps."""
    return stepping_of(measurement.passes, plain=measurement.plain)


def is_plain(record: PassRecord) -> bool:
    """Tell whether the finished requests show plain decode: no verify count in any."""
    ends = [r.verify_steps for r in record.requests if r.end is EndReason.FINISHED]
    return bool(ends) and all(steps is None for steps in ends)


def decoded(record: PassRecord) -> list[RequestRecord]:
    """Return the requests whose decoding counts: not broken, and past their first arrival."""
    return [r for r in record.requests if r.end not in BROKEN_ENDS and r.decode_tokens]


def _verified(record: PassRecord) -> list[RequestRecord]:
    return [r for r in decoded(record) if r.end is EndReason.FINISHED and r.verify_steps]


def _chunk_is_step(records: Sequence[PassRecord]) -> bool:
    told = Stepping(plain=False, chunk_is_step=False)
    verified = [request for record in records for request in _verified(record)]
    steps = sum(told.steps(request) or 0.0 for request in verified)
    chunks = sum(request.decode_chunks for request in verified)
    return steps >= LEAST_STEPS and abs(chunks / steps - 1) <= SAME_FRACTION
