"""What one stream has brought so far: counts over time, text, and the end that it met."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import StringIO

from sweeps.token_accounts import MISCOUNT, tolerated_tokens

NO_COUNTS = "text came without a token count: no continuous usage"

_END_TOKENS = 1
"""A token that ends the text has none of its own."""
_MOST_TOLD = 500


def aborted_by(message: object, status: object = None) -> str:
    """Say that the server gave a request up, in its own words as far as it has any."""
    words = " ".join(str(message or "").split())[:_MOST_TOLD]
    told = "the server aborted the request" + (f" ({status})" if status else "")
    return f"{told}: {words}" if words else told


@dataclass(slots=True)
class Tally:
    """What one stream has brought so far. `now_s` is the time of the read that is being parsed.

    `times_s`, `tokens` and `chunks` run in parallel, one entry for each read with new tokens:
    the server's own cumulative count, and how many chunks raised it.
    """

    most_tokens: int | None = None
    """What was asked for; a count above it is a fault."""
    now_s: float = 0.0
    times_s: "array[float]" = field(default_factory=lambda: array("d"))
    tokens: "array[int]" = field(default_factory=lambda: array("q"))
    chunks: "array[int]" = field(default_factory=lambda: array("q"))
    heard_s: float | None = None
    """When text or a higher count came last."""
    output_tokens: int = 0
    """The server's last count."""
    chunk_count: int = 0
    text: StringIO = field(default_factory=StringIO)
    fault: str = ""
    done: bool = False
    finish_reason: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    verify_steps: int | None = None
    queue_s: float | None = None
    deviation_tokens: int = 0
    """The most by which a count was off; negative for one that was too low."""
    uncounted_chunks: int = 0
    """Chunks of text without a count."""
    text_chunks: int = 0
    most_rise: int = 0
    """The most tokens that one chunk after the first has brought."""
    keeps_ids: bool = False
    """Ids that come with every chunk are wanted."""
    output_ids: list[int] = field(default_factory=list)
    prompt_ids: list[int] = field(default_factory=list)

    def count(self, total_tokens: int, *, textless: bool = False) -> None:
        """Take the server's cumulative count; `textless` where it came without new text.

        A count that falls, exceeds the limit, or rises without text faster than tokens came before
        is off: by little it is noted, by more it is a fault. A lower one changes nothing.
        """
        if total_tokens <= self.output_tokens:
            if total_tokens < self.output_tokens:
                told = f"the count fell from {self.output_tokens} to {total_tokens}"
                self._deviate(total_tokens - self.output_tokens, told)
            return
        if self.most_tokens is not None and total_tokens > self.most_tokens:
            told = f"{total_tokens} tokens were counted of at most {self.most_tokens}"
            self._deviate(total_tokens - self.most_tokens, told, self.most_tokens)
        rise = total_tokens - self.output_tokens
        if textless and not self.uncounted_chunks:
            self._check_rise(rise)
        if self.fault:
            return
        if self.tokens:  # the first holds what the prefill took
            self.most_rise = max(self.most_rise, rise)
        chunk_count = self.chunk_count + 1
        if self.times_s and self.times_s[-1] == self.now_s:
            self.tokens[-1], self.chunks[-1] = total_tokens, chunk_count
        else:
            self.tokens.append(total_tokens)  # first: it refuses what is no count
            self.times_s.append(self.now_s)
            self.chunks.append(chunk_count)
        self.output_tokens, self.chunk_count = total_tokens, chunk_count
        self.heard_s = self.now_s

    def compare(self, count_tokens: int, what: str) -> None:
        """Hold another count of the whole answer against the last."""
        told = f"{what} {count_tokens}, with {self.output_tokens} tokens counted"
        self._deviate(count_tokens - self.output_tokens, told)

    def _check_rise(self, rise: int) -> None:
        """Hold tokens without text against a step of this stream and against its pace."""
        told = f"usage counts {self.output_tokens + rise} tokens, but {rise} came without a text"
        step = max(_END_TOKENS, self.most_rise)
        self._deviate(max(0, rise - step - int(self._expected_tokens())), told)

    def _expected_tokens(self) -> float:
        """Return what the pace so far makes of the time since the last arrival."""
        if len(self.times_s) < 2:
            return 0.0
        pace_per_s = (self.tokens[-1] - self.tokens[0]) / (self.times_s[-1] - self.times_s[0])
        return pace_per_s * (self.now_s - self.times_s[-1])

    def _deviate(self, tokens: int, told: str, of_tokens: int = 0) -> None:
        if abs(tokens) > abs(self.deviation_tokens):
            self.deviation_tokens = tokens
        if abs(tokens) > tolerated_tokens(max(of_tokens, self.output_tokens)):
            self.fail(f"{MISCOUNT}: {told}")

    def count_each(self, times_s: Sequence[float], totals: Sequence[int]) -> None:
        """Take rising counts with their times, each a chunk, as one `count` for each would."""
        if not totals:
            return
        self.times_s.extend(times_s)
        self.tokens.extend(totals)
        self.chunks.extend(range(self.chunk_count + 1, self.chunk_count + 1 + len(totals)))
        self.now_s, self.output_tokens = times_s[-1], totals[-1]
        self.chunk_count += len(totals)

    def fail(self, fault: str) -> None:
        """Keep the first fault."""
        self.fault = self.fault or fault

    def finish(
        self, reason: str, matched: object, message: object = None, status: object = None
    ) -> None:
        """Take the finish reason; an abort may have a message and an HTTP status."""
        self.finish_reason = reason
        if reason == "abort":
            self.fail(aborted_by(message, status))
        elif matched == "NaN happened":  # SGLang 0.5.23, srt/managers/schedule_batch.py
            self.fail("the server met NaN and stopped the request")

    def close(self) -> None:
        """Take the end mark of the stream."""
        if not self.finish_reason:
            self.fail("the stream ended without a finish reason")
        elif self.uncounted_chunks > self.text_chunks / 2:
            self.fail(NO_COUNTS)
        elif not self.tokens:
            self.fail("the stream ended without a token")
        elif (over := self.text_chunks - self.output_tokens) > 0:
            told = f"{self.text_chunks} chunks of text came for {self.output_tokens} tokens"
            self._deviate(-over, told)
        self.done = True
