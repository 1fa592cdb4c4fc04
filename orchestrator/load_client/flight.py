"""One request in flight: connected, counted, watched for silence, and ended once."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from infra.clock import Clock
from infra.sglang.server_keys import NO_KEYS, ServerKeys
from orchestrator.load_client.dialects import DIALECTS, Dialect, take_reads
from orchestrator.load_client.http_stream import Read, StreamedPost, Target
from orchestrator.load_client.seam import Sampling
from orchestrator.load_client.tally import Tally
from sweeps.blocks import Curve, ends_s, running_curve
from sweeps.prompts import Prompt
from sweeps.records import EndReason, RequestRecord

CANNOT_CONNECT = "cannot connect"
"""What the detail of a request begins with that found nobody there."""


@dataclass(frozen=True, slots=True)
class Order:
    """What every request of a pass has in common."""

    target: Target
    dialect: Dialect
    sampling: Sampling
    silence_s: float
    keys: ServerKeys = NO_KEYS

    @classmethod
    def of(
        cls, url: str, dialect: str, sampling: Sampling, silence_s: float, keys: ServerKeys
    ) -> "Order":
        """Look the dialect up. Raises: ValueError for one that is not known, or a bad URL."""
        known = DIALECTS.get(dialect)
        if known is None:
            raise ValueError(f"no dialect {dialect!r}; there are {', '.join(DIALECTS)}")
        return cls(Target.of(url, known.path), known, sampling, silence_s, keys)


class Flight:
    """A request from its sending to its record. It belongs to one event loop.

    `number` tells those of a pass apart. `scheduled_s` is when an open loop had it due.
    """

    def __init__(
        self,
        order: Order,
        prompt: Prompt,
        clock: Clock,
        number: int = 0,
        scheduled_s: float | None = None,
    ) -> None:
        self.tally = Tally(
            most_tokens=order.sampling.max_tokens, keeps_ids=order.sampling.token_ids
        )
        self.end: EndReason | None = None
        self.event_reads = 0
        self.several_event_reads = 0
        self._order = order
        self._prompt = prompt
        self._clock = clock
        self._number = number
        self._scheduled_s = scheduled_s
        self._detail = ""
        self._begun_s = self._ended_s = clock.now_s()
        self._ends: tuple[float, float] | None = None
        self._post: StreamedPost | None = None
        self._over = asyncio.Event()

    @property
    def over(self) -> bool:
        """Tell whether the request has ended, for whatever reason."""
        return self.end is not None

    @property
    def sent_s(self) -> float:
        """Return when the request was sent; before the connection stands, when it was begun."""
        sent_s = self._post.sent_s if self._post else None
        return self._begun_s if sent_s is None else sent_s

    @property
    def unread_bytes(self) -> int:
        """Return how much has come that was not read yet."""
        return self._post.unread_bytes if self._post else 0

    async def fly(self) -> None:
        """Send the request and wait until it has ended. The connection is closed on return."""
        loop = asyncio.get_running_loop()
        target, dialect = self._order.target, self._order.dialect
        request = target.post(dialect.body(self._prompt, self._order.sampling), self._order.keys)
        post = StreamedPost(request, self._clock, self._on_reads, self._on_end, self._number)
        self._begun_s, self._post = self._clock.now_s(), post
        host, port = target.host, target.port
        connecting = loop.create_task(loop.create_connection(lambda: post, host, port))
        connecting.add_done_callback(self._on_connected)
        watch = loop.create_task(self._watch_silence())
        try:
            await self._over.wait()
        finally:
            watch.cancel()
            connecting.cancel()
            post.close()
            await asyncio.gather(watch, connecting, return_exceptions=True)

    def stop(self, reason: EndReason) -> None:
        """End the request now; it keeps what it has. Without effect once it has ended."""
        self.catch_up()
        self._finish(self._clock.now_s(), reason, "")

    def catch_up(self, if_before_s: float = inf) -> None:
        """Count all that has been read, if the oldest of what is not counted is that old."""
        if self._post is not None and self._post.uncounted_since_s < if_before_s:
            self._post.catch_up()

    def curve(self) -> Curve:
        """Return the token curve so far, to the last arrival; it ends never while it runs."""
        return self._curve(self.tally.tokens)

    def chunk_curve(self) -> Curve:
        """Return the curve of the chunks that brought tokens."""
        return self._curve(self.tally.chunks)

    def record(self) -> RequestRecord:
        """Return the record of a request that has ended."""
        tally = self.tally
        return RequestRecord(
            sent_s=self.sent_s,
            times_s=tuple(tally.times_s),
            tokens=tuple(tally.tokens),
            end=self.end or EndReason.CANCELLED,
            ended_s=self._ended_s,
            detail=self._detail,
            finish_reason=tally.finish_reason,
            prompt_tokens=tally.prompt_tokens,
            cached_tokens=tally.cached_tokens,
            verify_steps=tally.verify_steps,
            queue_s=tally.queue_s,
            text=tally.text.getvalue(),
            chunks=() if tally.chunk_count == len(tally.chunks) else tuple(tally.chunks),
            scheduled_s=self._scheduled_s,
            prompt_key=self._prompt.key,
            output_ids=tuple(tally.output_ids),
            prompt_ids=tuple(tally.prompt_ids),
            deviation_tokens=tally.deviation_tokens,
        )

    def _curve(self, counts: Sequence[int]) -> Curve:
        return running_curve(self.sent_s, self.tally.times_s, counts, self._ends)

    def _on_reads(self, reads: list[Read]) -> None:
        self.event_reads += len(reads)
        self.several_event_reads += sum(len(events) > 1 for _, events in reads)
        take_reads(self._order.dialect, reads, self.tally)
        now_s = self.tally.now_s
        if self.tally.tokens and self._post is not None:  # the first token is seen at once
            self._post.be_patient()
        if self.tally.fault:
            self._finish(now_s, EndReason.BROKEN, self.tally.fault)
        elif self.tally.done:
            self._finish(now_s, EndReason.FINISHED, "")

    def _on_end(self, now_s: float, fault: str) -> None:
        if not fault:
            fault = "the stream ended without its end mark"
            fault = fault if self.event_reads else "the answer held no event"
        self._finish(now_s, EndReason.BROKEN, fault)

    def _on_connected(self, connecting: "asyncio.Task[object]") -> None:
        error = None if connecting.cancelled() else connecting.exception()
        if error is not None:
            self._finish(self._clock.now_s(), EndReason.BROKEN, f"{CANNOT_CONNECT}: {error}")

    async def _watch_silence(self) -> None:
        """End the request once it has brought nothing for too long; other bytes do not count."""
        while True:
            now_s = self._clock.now_s()
            if self._silent_at_s() <= now_s:
                self.catch_up()
            if self._silent_at_s() <= now_s:
                silence = f"nothing for {self._order.silence_s:g} s"
                self._finish(now_s, EndReason.SILENT, silence)
                return
            await asyncio.sleep(self._clock.real_s(self._silent_at_s() - now_s))

    def _silent_at_s(self) -> float:
        heard_s = self._begun_s if self.tally.heard_s is None else self.tally.heard_s
        return heard_s + self._order.silence_s

    def _finish(self, now_s: float, end: EndReason, detail: str) -> None:
        if self.over:
            return
        self.end, self._ended_s, self._detail = end, now_s, detail
        self._ends = ends_s(self.tally.times_s, now_s, end)
        if self._post is not None:
            self._post.close()
        self._over.set()
