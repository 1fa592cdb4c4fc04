"""HTTP/1.1 answers taken apart into server-sent events, however their bytes were cut."""

_HEAD_BYTES = 65_536
_SIZE_LINE_BYTES = 1_024
_MOST_INTERIM = 16
"""Answers such as 100 Continue before the one that counts."""
MOST_EVENT_BYTES = 16 << 20
"""Of one event: all that a request may bring fits, with its ids and texts told anew each time."""
_CR = 13


class HttpError(ValueError):
    """The answer breaks HTTP/1.1; the message says how."""


class ResponseParser:
    """Takes an HTTP/1.1 response apart, however its bytes were cut into reads."""

    def __init__(self) -> None:
        self.status = 0
        self.complete = False
        self._buffer = bytearray()
        self._chunked = False
        self._left: int | None = None
        """Bytes left of the chunk, or of the body; None where only the end closes it."""
        self._interim = 0
        self._in_chunk = False
        """Between the size line of a chunk and the line end after its data."""
        self.is_between_chunks = False
        """Nothing is kept back, and the next byte is the first of a chunk's size line."""

    @property
    def marks_its_end(self) -> bool:
        """Tell whether the last bytes of the answer show that they are the last."""
        return self._chunked and self.status == 200

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
        status = 0
        while status < 200:
            self._interim += bool(status)
            if self._interim > _MOST_INTERIM:
                raise HttpError(f"more than {_MOST_INTERIM} answers that announce another")
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _HEAD_BYTES:
                    raise HttpError("the header of the answer does not end")
                return False
            lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
            del self._buffer[: end + 4]
            status = _status(lines[0])
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
        self.is_between_chunks = not (buffer or self._in_chunk or self.complete)
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
        self._rest: list[bytes] = []
        """Pieces of a line that has not ended."""
        self._data: list[bytes] = []
        self._kept_bytes = 0
        """Since the last event."""

    @property
    def is_between_events(self) -> bool:
        """Tell whether nothing is kept back."""
        return not self._rest and not self._data

    def feed(self, body: bytes) -> list[bytes]:
        """Take a piece of the body and return the data of each event that it completes.

        Raises HttpError for an event that does not end.
        """
        self._kept_bytes += len(body)
        if b"\n" not in body:
            if body:
                self._rest.append(body)
            self._refuse_too_long()
            return []
        lines = b"".join([*self._rest, body]).split(b"\n")
        self._rest = [lines[-1]] if lines[-1] else []
        lines.pop()
        events = self._events(lines)
        if events or not self._data:
            self._kept_bytes = sum(map(len, (*self._data, *self._rest)))
        self._refuse_too_long()
        return events

    def _refuse_too_long(self) -> None:
        if self._kept_bytes > MOST_EVENT_BYTES:
            raise HttpError(f"an event does not end within {MOST_EVENT_BYTES} bytes")

    def _events(self, lines: list[bytes]) -> list[bytes]:
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


def only_event(data: bytes) -> bytes:
    """Return the event of a read that is one whole chunk with one event of one line, as most are.

    Of any other read, nothing: `ResponseParser` and `EventSplitter` know what to make of it. Where
    they are between two chunks and between two events, they would say the same of this one.
    """
    at = data.find(b"\r\n", 1) + 2
    if not data.startswith(b"data: ", at) or not data.endswith(b"\n\n\r\n"):
        return b""
    end = len(data) - 4
    if data.find(b"\n", at) != end or data[end - 1] == _CR:
        return b""
    try:
        size = int(data[: at - 2], 16)
    except ValueError:
        return b""
    return data[at + 6 : end] if size == end + 2 - at else b""
