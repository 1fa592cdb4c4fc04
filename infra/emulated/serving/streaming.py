"""Server-sent events of running requests, and the ways in which a stream can go wrong."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from infra.emulated.scenario import StreamWorld
from infra.emulated.serving.jobs import Emission, Job
from infra.emulated.serving.replies import DONE

FAILURE = "Internal error: the request failed while it was decoded."
_NEVER_S = 3600.0


class Frames(Protocol):
    """The events of one answer."""

    job: Job

    @property
    def tells_failure(self) -> bool:
        """Tell whether the version says why the server gave a request up; else it just closes."""
        ...

    def first(self) -> bytes:
        """Return what opens it."""
        ...

    def chunk(self, emission: Emission) -> bytes:
        """Return what one emission becomes."""
        ...

    def last(self, emission: Emission) -> bytes:
        """Return what closes it."""
        ...

    def broken(self, message: str) -> bytes:
        """Return the event of a failure."""
        ...


class ConnectionCutError(Exception):
    """The connection is to close in the middle of a reply."""


class Shape:
    """How one stream departs from a chunk a step."""

    def __init__(self, world: StreamWorld, seed: str) -> None:
        self._span = world.chunk_tokens
        self._rng = random.Random(seed)
        self._held: dict[int, list[int]] = {}
        self._wanted: dict[int, int] = {}
        self._sent: dict[int, int] = {}

    def apply(self, place: int, taken: Sequence[Emission]) -> list[Emission]:
        """Merge and split what the steps gave one answer."""
        if self._span is None:
            return list(taken)
        shaped: list[Emission] = []
        for emission in taken:
            self._held.setdefault(place, []).extend(emission.tokens)
            shaped += self._cut(place, emission)
        return shaped

    def _cut(self, place: int, emission: Emission) -> list[Emission]:
        held = self._held[place]
        pieces: list[list[int]] = []
        while held and len(held) >= self._size(place):
            size = self._wanted.pop(place)
            pieces.append(held[:size])
            del held[:size]
        if emission.finished and (held or not pieces):
            pieces.append([*held])
            held.clear()
        return [self._piece(place, piece, emission) for piece in pieces] if pieces else []

    def _piece(self, place: int, tokens: list[int], emission: Emission) -> Emission:
        sent = self._sent[place] = self._sent.get(place, 0) + len(tokens)
        ends = emission.finished and not self._held[place] and sent >= emission.completion_tokens
        return Emission(
            tuple(tokens),
            sent,
            emission.at_s,
            finished=ends,
            aborted=ends and emission.aborted,
            failure=emission.failure if ends else "",
        )

    def _size(self, place: int) -> int:
        if place not in self._wanted:
            low, high = self._span or (1, 1)
            self._wanted[place] = self._rng.randint(max(1, low), max(1, low, high))
        return self._wanted[place]


class Mishap:
    """Where a stream breaks off."""

    def __init__(self, world: StreamWorld) -> None:
        self._error_tokens = world.error_after_tokens
        self._close_tokens = world.close_after_tokens
        # A stall of all requests is the scheduler's own.
        self._stall_tokens = world.stall_after_tokens if world.request else 0
        marks = (self._error_tokens, self._close_tokens, self._stall_tokens)
        self.at_tokens = min((mark for mark in marks if mark), default=0)

    def before(self, taken: Sequence[Emission]) -> tuple[list[Emission], bool]:
        """Return what still goes out, and whether it happens after that."""
        if not self.at_tokens:
            return list(taken), False
        out: list[Emission] = []
        for emission in taken:
            if self.at_tokens < 0:
                return out, True
            out.append(emission)
            if emission.completion_tokens >= self.at_tokens:
                return out, not emission.finished
        return out, False

    async def happen(self, frames: Frames) -> bytes:
        """Return an error event with the end mark, fall silent, or cut the connection.

        Raises ConnectionCutError.
        """
        if self.at_tokens == self._error_tokens:
            return frames.broken(FAILURE) + DONE
        if self.at_tokens == self._stall_tokens:
            await asyncio.sleep(_NEVER_S)
        raise ConnectionCutError


class Flow:
    """The events of answers that share one `ready`; what is due together goes together."""

    def __init__(
        self,
        answers: Sequence[Frames],
        close: Callable[[Sequence[Emission]], bytes],
        shape: Shape | None = None,
        mishap: Mishap | None = None,
    ) -> None:
        self._answers = answers
        self._close = close
        self._shape = shape
        self._mishap = mishap
        self._opened: set[int] = set()
        self._ends: dict[int, Emission] = {}
        self._broken: Frames | None = None

    async def events(self) -> AsyncIterator[bytes]:
        """Yield events to the end of the last answer. Raises ConnectionCutError."""
        parts: list[bytes] = []
        while len(self._ends) < len(self._answers):
            if parts:
                yield b"".join(parts)
            ready = self._answers[0].job.ready
            await ready.wait()
            ready.clear()
            parts = [part for place in range(len(self._answers)) for part in self._due(place)]
            if self._broken and self._mishap:
                yield b"".join(parts)
                yield await self._mishap.happen(self._broken)
                return
        ends = [self._ends[place] for place in range(len(self._answers))]
        yield b"".join([*parts, self._close(ends)])

    def _due(self, place: int) -> list[bytes]:
        """Return the events of one answer since the last look."""
        frames = self._answers[place]
        taken = frames.job.take_now()
        if self._shape:
            taken = self._shape.apply(place, taken)
        if self._mishap:
            taken, happens = self._mishap.before(taken)
            self._broken = frames if happens else self._broken
        if not taken:
            return []
        if taken[-1].failure and not frames.tells_failure:
            raise ConnectionCutError
        parts = list(map(frames.chunk, taken))
        if place not in self._opened:
            self._opened.add(place)
            parts.insert(0, frames.first())
        if taken[-1].finished:
            self._ends[place] = taken[-1]
            parts.append(frames.last(taken[-1]))
        return parts


class EventStream(Response):
    """Sends server-sent events as they come, and stops when the client goes away."""

    media_type = "text/event-stream"

    def __init__(self, stream: AsyncIterator[bytes], at_end: Callable[[], None]) -> None:
        self._stream = stream
        self._at_end = at_end
        self.status_code = 200
        self.background = None
        self.init_headers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the events or the client end; Starlette's own imports more on first use."""
        pump = asyncio.create_task(self._pump(send))
        gone = asyncio.create_task(disconnected(receive))
        try:
            await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                # A reply that ends without its end makes the web server cut the connection.
                with suppress(ConnectionCutError):
                    pump.result()
        finally:
            pump.cancel()
            gone.cancel()
            self._at_end()

    async def _pump(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for chunk in self._stream:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def disconnected(receive: Receive) -> None:
    """Wait until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def only(*parts: bytes) -> AsyncIterator[bytes]:
    """Yield events that are known from the start."""
    for part in parts:
        yield part
