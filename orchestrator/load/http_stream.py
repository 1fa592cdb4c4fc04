"""One HTTP/1.1 POST to a server of this host, its answer read as events while they arrive."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from infra.clock import Clock

_REASON_BYTES = 500
_HEAD_BYTES = 65_536
_SIZE_LINE_BYTES = 1_024


class HttpError(ValueError):
    """The answer breaks HTTP/1.1; the message says how."""


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

    def post(self, body: bytes) -> bytes:
        """Return the bytes of a request that asks to close the connection after the answer."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: {host}:{self.port}\r\n"
            "Content-Type: application/json\r\nAccept: text/event-stream\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("ascii") + body


class ResponseParser:
    """Takes an HTTP/1.1 response apart, however its bytes were cut into reads."""

    def __init__(self) -> None:
        self.status = 0
        self.complete = False
        self._buffer = bytearray()
        self._chunked = False
        self._left: int | None = None
        """Bytes left of the chunk, or of the body; None where only the end closes it."""
        self._in_chunk = False
        """Between the size line of a chunk and the line end after its data."""

    def feed(self, data: bytes) -> bytes:
        """Take a read and return the bytes of the body in it. Raises: HttpError."""
        if self.complete:
            return b""
        self._buffer += data
        if not self.status and not self._read_head():
            return b""
        return self._read_chunks() if self._chunked else self._read_plain()

    def end(self) -> None:
        """Take the end of the connection. Raises: HttpError if the answer is not whole."""
        if not self.status:
            raise HttpError("the connection closed before an answer")
        if not self.complete and (self._chunked or self._left is not None):
            raise HttpError("the connection closed in the middle of the answer")
        self.complete = True

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _HEAD_BYTES:
                raise HttpError("the header of the answer does not end")
            return False
        lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        status = _status(lines[0])
        if status < 200:  # an interim answer, such as 100 Continue
            return self._read_head()
        self.status = status
        headers = dict(_header(line) for line in lines[1:])
        self._chunked = headers.get("transfer-encoding", "").lower().endswith("chunked")
        if self._chunked:
            self._left = 0
        elif "content-length" in headers:
            self._left = _size(headers["content-length"], 10)
        return True

    def _read_plain(self) -> bytes:
        body = bytes(self._buffer if self._left is None else self._buffer[: self._left])
        self._buffer.clear()
        if self._left is not None:
            self._left -= len(body)
            self.complete = self._left == 0
        return body

    def _read_chunks(self) -> bytes:
        buffer, at, parts = self._buffer, 0, []
        left = self._left or 0
        while at < len(buffer) and not self.complete:
            if left:
                part = bytes(buffer[at : at + left])
                parts.append(part)
                at += len(part)
                left -= len(part)
                continue
            end = buffer.find(b"\r\n", at)
            if end < 0:
                if len(buffer) - at > _SIZE_LINE_BYTES:
                    raise HttpError("the size line of a chunk does not end")
                break
            line, at = buffer[at:end], end + 2
            if self._in_chunk and line:
                raise HttpError("a chunk is longer than its size")
            if not self._in_chunk:
                left = _size(line.split(b";", 1)[0].decode("latin-1"), 16)
                self.complete = left == 0
            self._in_chunk = not self._in_chunk
        del buffer[:at]
        self._left = left
        return b"".join(parts)


def _status(line: str) -> int:
    version, _, rest = line.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdigit():
        raise HttpError(f"not an HTTP status line: {line[:80]!r}")
    return int(code)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


def _size(text: str, base: int) -> int:
    try:
        size = int(text.strip(), base)
    except ValueError:
        size = -1
    if size < 0:
        raise HttpError(f"not a size: {text[:80]!r}")
    return size


class EventSplitter:
    """Cuts a body into server-sent events. Lines end with LF or CRLF; only `data` is kept."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, body: bytes) -> list[bytes]:
        """Take a piece of the body and return the data of each event that it completes."""
        lines = (self._rest + body).split(b"\n")
        self._rest = lines.pop()
        events = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                event = b"\n".join(self._data)
                self._data.clear()
                if event:
                    events.append(event)
        return events


class StreamedPost(asyncio.Protocol):
    """Sends one request once connected and hands on the events of its answer, each read timed.

    `on_events` gets the time of the read, taken before any parsing, and its events.
    `on_end` is called once, with nothing after a whole answer or with what went wrong.
    """

    def __init__(
        self,
        request: bytes,
        clock: Clock,
        on_events: Callable[[float, list[bytes]], None],
        on_end: Callable[[float, str], None],
    ) -> None:
        self.sent_s: float | None = None
        self.last_byte_s: float | None = None
        self._request = request
        self._clock = clock
        self._on_events = on_events
        self._on_end = on_end
        self._parser = ResponseParser()
        self._splitter = EventSplitter()
        self._reason = b""
        self._ended = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self._transport = cast(asyncio.Transport, transport)
        if self._ended:
            self._transport.abort()
            return
        self.sent_s = self._clock.now_s()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Time a read, then take it apart."""
        now_s = self._clock.now_s()
        self.last_byte_s = now_s
        if self._ended:
            return
        try:
            body = self._parser.feed(data)
        except HttpError as error:
            self._end(now_s, str(error))
            return
        if self._parser.status not in (0, 200):
            self._refused(now_s, body)
            return
        events = self._splitter.feed(body) if body else []
        if events:
            self._on_events(now_s, events)
        if self._parser.complete:
            self._end(now_s, "")

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the end of the connection for the end of the answer."""
        now_s = self._clock.now_s()
        try:
            self._parser.end()
        except HttpError as error:
            self._end(now_s, f"{error}: {exc}" if exc else str(error))
            return
        self._end(now_s, self._refusal() if self._parser.status != 200 else "")

    def close(self) -> None:
        """Drop the connection and report nothing more. It may be called at any time, and twice."""
        self._ended = True
        if self._transport is not None:
            self._transport.abort()

    def _refused(self, now_s: float, body: bytes) -> None:
        self._reason += body[: _REASON_BYTES - len(self._reason)]
        if self._parser.complete or len(self._reason) >= _REASON_BYTES:
            self._end(now_s, self._refusal())

    def _refusal(self) -> str:
        return f"HTTP {self._parser.status}: {self._reason.decode('utf-8', 'replace')}"

    def _end(self, now_s: float, fault: str) -> None:
        if self._ended:
            return
        self.close()
        self._on_end(now_s, fault)
