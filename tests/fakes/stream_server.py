"""A raw server that streams tokens as SGLang 0.5.23 does, at a set pace and with set faults."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum


class Fault(StrEnum):
    """What goes wrong with one request."""

    NONE = "none"
    HANGS_UP = "hangs up"
    REFUSED = "refused"
    ERROR_FIRST = "error before the first token"
    ERROR_EVENT = "error event"
    ERROR_OBJECT = "error object"
    NO_FINISH = "no finish reason"
    NO_DONE = "no end mark"
    CUT = "cut"
    EMPTY = "empty"
    NO_BODY = "no body"
    NO_TOKEN = "no token"
    FALLS = "falls"
    SURPLUS = "many more tokens than asked for"
    SURPLUS_ONE = "one token more than asked for"
    LOWER_END = "a last count that is two lower"
    STOPS_SHORT = "chunks for 60 % of the tokens that the usage tells"
    LATE_COUNT = "a count at the end alone"
    NO_COUNT = "no count"
    NAN = "nan"
    ABORT = "abort"
    GARBAGE = "garbage"
    NOT_HTTP = "not http"
    STALL = "stall"
    FROZEN = "no byte at all"


@dataclass(frozen=True, slots=True)
class Script:
    """One answer: tokens of each chunk, the pause before each, and what goes wrong half-way.

    `whole` lets each chunk repeat all text so far; native streams do so by default.
    """

    chunks: tuple[int, ...] = (1, 3, 2, 1, 4)
    gap_s: float = 0.0
    fault: Fault = Fault.NONE
    verify: bool = True
    cached: int | None = None
    whole: bool | None = None
    late_end: bool = False
    """The end of the stream takes the time of the chunks that do not come."""

    @property
    def streamed(self) -> tuple[int, ...]:
        """Return the chunks that do come."""
        if self.fault is Fault.NO_TOKEN:
            return ()
        short = self.fault is Fault.STOPS_SHORT
        return self.chunks[: round(0.6 * len(self.chunks))] if short else self.chunks

    @property
    def told_tokens(self) -> int:
        """Return what the end of the stream says that there were."""
        if self.fault is Fault.NO_TOKEN:
            return 0
        off = {Fault.SURPLUS_ONE: 1, Fault.LOWER_END: -2}
        return sum(self.chunks) + off.get(self.fault, 0)

    @property
    def verify_steps(self) -> int:
        """Return the steps after the prefill: one for each chunk but the first."""
        return len(self.streamed) - 1


@dataclass(slots=True)
class StreamServer:
    """The server's own account of what it did; `sent` has (monotonic s, tokens) per request."""

    script: Callable[[int], Script]
    page: Callable[[str], Awaitable[bytes | None]] | None = None
    """Answers other requests than for tokens, by their path; None hangs up."""
    url: str = ""
    bodies: list[dict[str, object]] = field(default_factory=list)
    sent: list[list[tuple[float, int]]] = field(default_factory=list)
    most_running: int = 0
    running: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, until its answer is out or the client has gone."""
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            self.running -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(iter(_LENGTH.findall(head)), "0")
        body, path = await reader.readexactly(int(length)), head.split()[1]
        if self.page is not None and path not in _TOKEN_PATHS:
            writer.write(await self.page(path) or b"")
            await writer.drain()
            return
        number = len(self.bodies)
        self.bodies.append(json.loads(body))
        log: list[tuple[float, int]] = []
        self.sent.append(log)
        script = self.script(number)
        gone = asyncio.ensure_future(_left(reader))
        if script.fault in _WHOLE_ANSWERS:
            writer.write(_WHOLE_ANSWERS[script.fault])
            await writer.drain()
            return
        if script.fault is Fault.FROZEN:
            await gone
            return
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        shape = _chat if path == _CHAT else _generate
        for total, event in shape(script):
            if (total or event == _PAUSE) and script.gap_s:
                await asyncio.wait({gone}, timeout=script.gap_s)
            if event is None:  # stall until the client goes
                await gone
            if gone.done() or event is None:
                return
            if event != _PAUSE:
                await self._send(writer, event, log, total)
        if script.fault is not Fault.CUT:
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    async def _send(
        self, writer: asyncio.StreamWriter, event: bytes, log: list[tuple[float, int]], total: int
    ) -> None:
        data = b"data: " + event + b"\n\n"
        writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await writer.drain()
        if total:
            log.append((time.monotonic(), total))


_PAUSE = b""
"""An event that does not come, in the time of a chunk."""
_CHAT = "/v1/chat/completions"
_TOKEN_PATHS = (_CHAT, "/generate")
_LENGTH = re.compile(r"(?i)content-length: *(\d+)")
_WHOLE_ANSWERS = {
    Fault.HANGS_UP: b"",
    Fault.REFUSED: b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nqueue ful",
    Fault.NO_BODY: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    Fault.NOT_HTTP: b"SSH-2.0-OpenSSH_9\r\n\r\n",
}


async def _left(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        await reader.read()


Events = Iterator[tuple[int, bytes | None]]


def _faulty(script: Script, chunk: Callable[[int, str], bytes], finish: list[bytes]) -> Events:
    """Put a fault in the middle, or at the end where it belongs there."""
    total, half, fault = 0, len(script.chunks) // 2, script.fault
    if fault is Fault.EMPTY:
        return
    error: dict[str, object] = {"object": "error", "message": "out of memory"}
    middle: dict[Fault, Callable[[], bytes | None]] = {
        Fault.ERROR_EVENT: lambda: _dump({"error": error}),
        Fault.ERROR_OBJECT: lambda: _dump(error),
        Fault.FALLS: lambda: chunk(total - 3, "y"),
        Fault.SURPLUS: lambda: chunk(total + 1_000, "y"),
        Fault.GARBAGE: lambda: b"{not json",
        Fault.STALL: lambda: None,
    }
    if fault is Fault.ERROR_FIRST:
        yield 0, _dump({"error": error})
    for i, tokens in enumerate(script.streamed):
        total += tokens
        last = i == len(script.streamed) - 1
        told = total + (last and fault is Fault.SURPLUS_ONE)
        yield total, chunk(told, "x" * tokens)
        if i == half and fault in middle:
            yield 0, middle[fault]()
        if i == half and fault is Fault.CUT:
            return
    if script.late_end:
        yield from [(0, _PAUSE)] * (len(script.chunks) - len(script.streamed))
    if fault is not Fault.NO_FINISH:
        yield from ((0, event) for event in finish)
    if fault is not Fault.NO_DONE:
        yield 0, b"[DONE]"


def _chat(script: Script) -> Events:
    def chunk(total: int, text: str) -> bytes:
        text = "x" * (total - len(text)) + text if script.whole else text
        counts = script.fault not in (Fault.NO_COUNT, Fault.LATE_COUNT)
        usage = _usage(total, script) if counts else None
        return _dump({"choices": [_choice({"content": text})], "usage": usage})

    total = script.told_tokens
    finish = [_dump({"choices": [_choice({}, *_REASONS.get(script.fault, ("length", None)))]})]
    if script.verify:
        details = {"spec_tokens_details": {"spec_verify_ct": script.verify_steps}}
        finish.append(_dump({"choices": [], "usage": None, "sglext": details}))
    finish.append(_dump({"choices": [], "usage": _usage(total, script)}))
    if script.fault is not Fault.EMPTY:
        yield 0, _dump({"choices": [_choice({"role": "assistant", "content": ""})]})
    yield from _faulty(script, chunk, finish)


def _generate(script: Script) -> Events:
    def chunk(total: int, text: str) -> bytes:
        text = text if script.whole is False else "x" * (total - len(text)) + text
        meta = _meta(total, script)
        if script.fault is Fault.NO_COUNT:
            del meta["completion_tokens"]
        return _dump({"text": text, "meta_info": meta})

    total = script.told_tokens
    kind, matched = _REASONS.get(script.fault, ("length", None))
    last = _meta(total, script)
    last["finish_reason"] = {"type": kind, "length": total, "matched": matched}
    if script.verify:
        last["spec_verify_ct"] = script.verify_steps
    text = "" if script.whole is False else "x" * total
    yield from _faulty(script, chunk, [_dump({"text": text, "meta_info": last})])


_REASONS = {Fault.ABORT: ("abort", None), Fault.NAN: ("stop", "NaN happened")}


def _choice(
    delta: dict[str, object], finish_reason: str | None = None, matched: str | None = None
) -> dict[str, object]:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason, "matched_stop": matched}


def _usage(total: int, script: Script) -> dict[str, object]:
    details = None if script.cached is None else {"cached_tokens": script.cached}
    return {"prompt_tokens": 7, "completion_tokens": total, "prompt_tokens_details": details}


def _meta(total: int, script: Script) -> dict[str, object]:
    known = {} if script.cached is None else {"cached_tokens": script.cached}
    return {"prompt_tokens": 7, "completion_tokens": total, "finish_reason": None, **known}


def _dump(data: dict[str, object]) -> bytes:
    return json.dumps(data).encode()


@contextmanager
def stream_server(script: Callable[[int], Script]) -> Iterator[StreamServer]:
    """Serve on a free port of this host, in a thread, until the block ends."""
    served = StreamServer(script)
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(served.answer, "127.0.0.1", 0))
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield served
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        server.close()
        loop.run_until_complete(_end_all())
        loop.close()


async def _end_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)  # transports close in the next turn of the loop
