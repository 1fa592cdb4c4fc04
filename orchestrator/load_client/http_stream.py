"""One HTTP/1.1 POST to a server of this host, and the times at which its answer arrives."""

import asyncio
import fcntl
import termios
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import cast
from urllib.parse import urlsplit

from infra.clock import Clock
from infra.sglang.server_keys import NO_KEYS, ServerKeys
from orchestrator.load_client.http_answer import (
    EventSplitter,
    HttpError,
    ResponseParser,
    only_event,
)

_REASON_BYTES = 500
_READS_AT_ONCE = 16
_ENDINGS = (b"0\r\n\r\n", b"[DONE]\n\n\r\n")


Read = tuple[float, list[bytes]]
"""When bytes were read, and the events that they completed."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes."""

    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str, path: str) -> "Target":
        """Join a base URL and a path. Raises: ValueError if the URL is not plain HTTP."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"not an http:// URL with a host: {url!r}")
        return cls(parts.hostname, parts.port or 80, parts.path.rstrip("/") + path)

    def post(self, body: bytes, keys: ServerKeys = NO_KEYS) -> bytes:
        """Return the bytes of a request that asks to close the connection after the answer."""
        more = "".join(f"{name}: {text}\r\n" for name, text in keys.header(self.path).items())
        host = f"[{self.host}]" if ":" in self.host else self.host
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: {host}:{self.port}\r\n"
            "Content-Type: application/json\r\nAccept: text/event-stream\r\n"
            f"{more}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("ascii") + body


class StreamedPost(asyncio.Protocol):
    """Sends one request once connected and hands on the events of its answer, each read timed.

    A patient one only times a read as it comes, so that those of other streams are not held up,
    and takes several apart together. `on_reads` gets them, `on_end` is called once, with nothing
    after a whole answer or with what went wrong. `stagger` sets streams apart that are in step.
    """

    def __init__(
        self,
        request: bytes,
        clock: Clock,
        on_reads: Callable[[list[Read]], None],
        on_end: Callable[[float, str], None],
        stagger: int = 0,
    ) -> None:
        self.sent_s: float | None = None
        self._request = request
        self._now_s = clock.now_s
        self._on_reads = on_reads
        self._on_end = on_end
        self._reads: list[bytes] = []
        self._times_s: list[float] = []
        self._patience_reads = 1
        self._stagger = stagger
        self._parser = ResponseParser()
        self._splitter = EventSplitter()
        self._reason = b""
        self._ended = False
        self._transport: asyncio.Transport | None = None
        self._socket_number = -1

    @property
    def unread_bytes(self) -> int:
        """Return how much the kernel holds of what has come; 0 where nothing is connected."""
        if self._socket_number < 0:
            return 0
        return int.from_bytes(
            fcntl.ioctl(self._socket_number, termios.FIONREAD, bytes(4)), "little"
        )

    @property
    def uncounted_since_s(self) -> float:
        """Return when the oldest of the reads came that were not taken apart yet."""
        return self._times_s[0] if self._times_s else inf

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self._transport = cast(asyncio.Transport, transport)
        if self._ended:
            self._transport.abort()
            return
        self._socket_number = transport.get_extra_info("socket").fileno()
        self.sent_s = self._now_s()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Time a read, and take it apart with those before it once they are enough."""
        self._times_s.append(self._now_s())
        self._reads.append(data)
        if len(self._reads) >= self._patience_reads or data.endswith(_ENDINGS):
            self.catch_up()

    def catch_up(self) -> None:
        """Take apart what has been read so far."""
        if not self._reads or self._ended:
            return
        timed, self._times_s, self._reads = zip(self._times_s, self._reads, strict=True), [], []
        parser, splitter = self._parser, self._splitter
        taken: list[Read] = []
        fault: str | None = None
        now_s = 0.0
        for now_s, data in timed:
            if parser.is_between_chunks and splitter.is_between_events and (e := only_event(data)):
                taken.append((now_s, [e]))
                continue
            events, fault = self._take_apart(data)
            if events:
                taken.append((now_s, events))
            if fault is not None:
                break
        if taken:
            self._on_reads(taken)
        if fault is not None:
            self._end(now_s, fault)

    def be_patient(self) -> None:
        """Take several reads apart together from now on, if the answer shows where it ends."""
        if self._parser.marks_its_end:
            self._patience_reads = _READS_AT_ONCE - self._stagger % _READS_AT_ONCE
            self._stagger = 0

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the end of the connection for the end of the answer."""
        self._socket_number = -1
        self.catch_up()
        now_s = self._now_s()
        try:
            self._parser.end()
        except HttpError as error:
            self._end(now_s, f"{error}: {exc}" if exc else str(error))
            return
        self._end(now_s, self._refusal() if self._parser.status != 200 else "")

    def close(self) -> None:
        """Drop the connection and report nothing more. It may be called at any time, and twice."""
        self._ended = True
        self._socket_number = -1
        if self._transport is not None:
            self._transport.abort()

    def _take_apart(self, data: bytes) -> tuple[list[bytes], str | None]:
        """Return the events of a read, and how the answer ends with it: nothing if it goes on."""
        try:
            body = self._parser.feed(data)
            if self._parser.status in (0, 200):
                return self._splitter.feed(body), "" if self._parser.complete else None
        except HttpError as error:
            return [], str(error)
        self._reason += body[: _REASON_BYTES - len(self._reason)]
        whole = self._parser.complete or len(self._reason) >= _REASON_BYTES
        return [], self._refusal() if whole else None

    def _refusal(self) -> str:
        return f"HTTP {self._parser.status}: {self._reason.decode('utf-8', 'replace')}"

    def _end(self, now_s: float, fault: str) -> None:
        if self._ended:
            return
        self.close()
        self._on_end(now_s, fault)
