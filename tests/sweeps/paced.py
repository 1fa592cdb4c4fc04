"""A source of streams at a known pace, whatever the chunks in which the tokens come."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random

from sweeps.records import EndReason, PassRecord, RequestRecord


@dataclass(frozen=True, slots=True)
class Pace:
    """Streams in a closed loop: each decodes a token every `token_s` after its prefill."""

    streams: int
    token_s: float
    prefill_s: float
    chunks: Sequence[int]
    """Tokens of a chunk, one of them drawn for each; a chunk leaves with its last token."""
    seed: int = 0

    def record(self, lengths_tokens: Sequence[int], deadline_s: float | None = None) -> PassRecord:
        """Return what a client sees of requests of these lengths."""
        draw = Random(self.seed)
        free_s = [0.0] * self.streams
        requests = []
        for tokens in lengths_tokens:
            slot = min(range(self.streams), key=lambda i: free_s[i])
            sent_s = free_s[slot]
            if deadline_s is not None and sent_s >= deadline_s:
                break
            request = self._request(sent_s, tokens, draw)
            free_s[slot] = request.ended_s
            requests.append(_cut(request, deadline_s) if deadline_s else request)
        last_s = max(r.ended_s for r in requests)
        return PassRecord(tuple(requests), self.streams, 0.0, last_s)

    def truth_tok_s(self, lengths_tokens: Sequence[int]) -> float:
        """Return decode tokens per second of all streams, each of which waits for its prefills."""
        decoded = sum(tokens - 1 for tokens in lengths_tokens)
        busy_s = len(lengths_tokens) * self.prefill_s + decoded * self.token_s
        return self.streams * decoded / busy_s

    def _request(self, sent_s: float, tokens: int, draw: Random) -> RequestRecord:
        counts = list(self._counts(tokens, draw))
        first_s = sent_s + self.prefill_s
        times_s = tuple(first_s + (n - 1) * self.token_s for n in counts)
        return RequestRecord(sent_s, times_s, tuple(counts), EndReason.FINISHED, times_s[-1])

    def _counts(self, tokens: int, draw: Random) -> Iterator[int]:
        at = 0
        for _ in count():
            at = min(tokens, at + draw.choice(self.chunks))
            yield at
            if at == tokens:
                return


def _cut(request: RequestRecord, deadline_s: float) -> RequestRecord:
    if request.ended_s <= deadline_s:
        return request
    kept = sum(time_s <= deadline_s for time_s in request.times_s)
    return replace(
        request, times_s=request.times_s[:kept], tokens=request.tokens[:kept],
        end=EndReason.DEADLINE, ended_s=deadline_s,
    )  # fmt: skip
