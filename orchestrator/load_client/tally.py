"""What one stream has brought so far: counts over time, text, and the end that it met."""

from array import array
from dataclasses import dataclass, field
from io import StringIO

NO_COUNTS = "text came without a token count: no continuous usage"

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
    keeps_ids: bool = False
    """Ids that come with every chunk are wanted."""
    output_ids: list[int] = field(default_factory=list)
    prompt_ids: list[int] = field(default_factory=list)

    def count(self, total_tokens: int) -> None:
        """Take the server's cumulative count. One that falls, or exceeds the limit, is a fault."""
        if total_tokens <= self.output_tokens:
            if total_tokens < self.output_tokens:
                self.fail(f"the token count fell from {self.output_tokens} to {total_tokens}")
            return
        if self.most_tokens is not None and total_tokens > self.most_tokens:
            self.fail(f"{total_tokens} tokens were counted of at most {self.most_tokens}")
            return
        chunk_count = self.chunk_count + 1
        if self.times_s and self.times_s[-1] == self.now_s:
            self.tokens[-1], self.chunks[-1] = total_tokens, chunk_count
        else:
            self.tokens.append(total_tokens)  # first: it refuses what is no count
            self.times_s.append(self.now_s)
            self.chunks.append(chunk_count)
        self.output_tokens, self.chunk_count = total_tokens, chunk_count

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
        elif not self.tokens:
            self.fail("the stream ended without a token")
        self.done = True
