"""A server that streams chat chunks of SGLang's shape at a set pace, and notes when each left.

All streams step together, as decode steps do. A step brings each stream a chunk, or with
`--chunk-tokens` one token, which is kept back until its chunk is whole. The schedule is absolute: a
server that falls behind catches up. It is told its terms on the command line, prints its port, and
ends on a closed input; then it writes what it made and sent, by prompt, for a client's times to be
held against.
"""

import argparse
import os
import random
import select
import socket
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import orjson

_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_MODELS = b'{"object":"list","data":[{"id":"default","object":"model","owned_by":"bench"}]}'
_PAGES = {b"/health": b"{}", b"/v1/models": _MODELS}
_ID = "adc75c0d075d49818915ba828494c430"
_PROMPT_TOKENS = 16
_READ_BYTES = 1 << 18
_CALM_S = 0.0015
"""From here on a wait ends in a plain sleep: a poll rounds up to whole milliseconds."""


def _chunk(**more: object) -> dict[str, object]:
    return {"id": _ID, "object": "chat.completion.chunk", "created": 1795983773,
            "model": "default", **more}  # fmt: skip


def _choice(content: str | None, finish_reason: str | None = None) -> list[dict[str, object]]:
    delta = {"reasoning_content": None, "content": content}
    return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason,
             "matched_stop": None}]  # fmt: skip


def _usage(tokens: int) -> dict[str, object]:
    return {"prompt_tokens": _PROMPT_TOKENS, "total_tokens": _PROMPT_TOKENS + tokens,
            "completion_tokens": tokens, "prompt_tokens_details": None, "reasoning_tokens": 0,
            "completion_tokens_details": None}  # fmt: skip


def _frame(event: bytes) -> bytes:
    data = b"data: " + event + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


@cache
def _content(total: int, tokens: int, running_usage: bool) -> bytes:
    more = {"usage": _usage(total)} if running_usage else {}
    return _frame(orjson.dumps(_chunk(choices=_choice(" word" * tokens), **more)))


@cache
def _ending(total: int, verifies: int, usage: bool, details: bool) -> bytes:
    frames = [_frame(orjson.dumps(_chunk(choices=_choice(None, "length"))))]
    if details:
        counts = {"spec_tokens_details": {"spec_verify_ct": verifies}}
        frames.append(_frame(orjson.dumps(_chunk(choices=[], sglext=counts))))
    if usage:
        frames.append(_frame(orjson.dumps(_chunk(choices=[], usage=_usage(total)))))
    return b"".join([*frames, _frame(b"[DONE]"), b"0\r\n\r\n"])


@dataclass(slots=True)
class Sent:
    """What one request was sent: the count after each chunk, and when it left."""

    prompt: str
    tokens: "array[int]" = field(default_factory=lambda: array("q"))
    times_s: "array[float]" = field(default_factory=lambda: array("d"))
    asked_s: float = 0.0
    made_s: "array[float]" = field(default_factory=lambda: array("d"))
    """When each token was there, sent or kept back; empty where a step brings a chunk."""


@dataclass(slots=True)
class Terms:
    """What a request asks for."""

    prompt: str
    max_tokens: int
    usage: bool
    running_usage: bool
    details: bool

    @classmethod
    def of(cls, body: bytes) -> "Terms":
        """Read them from a body."""
        asked = orjson.loads(body)
        options = asked.get("stream_options") or {}
        return cls(
            prompt=str(asked["messages"][-1]["content"]),
            max_tokens=asked.get("max_completion_tokens") or asked["max_tokens"],
            usage=bool(options.get("include_usage")),
            running_usage=bool(options.get("continuous_usage_stats")),
            details=bool(asked.get("return_spec_tokens_details")),
        )


class Connection:
    """One connection: requests one after the other, and the answer that is under way."""

    def __init__(self, server: "PacedServer", sock: socket.socket) -> None:
        self._server, self._sock = server, sock
        self._inbox = b""
        self._behind = b""
        self._terms: Terms | None = None
        self._sent = Sent("")
        self._sizes: Iterator[int] = iter(())
        self._total = self._verifies = self._wait_steps = self._size = 0

    def readable(self) -> None:
        """Take what came; start an answer where a request is whole."""
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._server.drop(self, self._sock)
            return
        self._inbox += data
        head, found, rest = self._inbox.partition(b"\r\n\r\n")
        if not found:
            return
        length = _length(head)
        if len(rest) < length:
            return
        self._inbox = rest[length:]
        self._asked(head, rest[:length])

    def step(self) -> None:
        """Send the next chunk; after the last one, the end."""
        terms = self._terms
        if terms is None:
            return
        if self._wait_steps:
            self._wait_steps -= 1
            return
        tokens = min(self._size, terms.max_tokens - self._total)
        if self._server.keeps_back:
            self._sent.made_s.append(time.monotonic())
            if len(self._sent.made_s) < self._total + tokens:
                return
        self._size = next(self._sizes)
        self._total += tokens
        self._verifies += 1
        self._sent.tokens.append(self._total)
        self._sent.times_s.append(time.monotonic())
        self._send(_content(self._total, tokens, terms.running_usage))
        if self._total >= terms.max_tokens:
            self._terms = None
            self._server.ended(self)
            self._send(_ending(self._total, self._verifies - 1, terms.usage, terms.details))

    def _asked(self, head: bytes, body: bytes) -> None:
        method, path, _ = head.split(b" ", 2)
        if method != b"POST":
            page = _PAGES.get(path)
            answer = page or b"{}"
            status = b"200 OK" if page else b"404 Not Found"
            text = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
            self._send(text % (status, len(answer), answer))
            return
        self._terms = Terms.of(body)
        self._sent = Sent(self._terms.prompt, asked_s=time.monotonic())
        self._sizes = self._server.sizes(self._terms.prompt)
        self._size = next(self._sizes)
        self._total = self._verifies = 0
        self._wait_steps = self._server.prefill_steps
        self._send(_HEAD)
        self._server.begun(self, self._sent)

    def _send(self, data: bytes) -> None:
        if self._behind:
            data = self._behind + data
        try:
            count = self._sock.send(data)
        except BlockingIOError:
            count = 0
        except OSError:
            self._server.drop(self, self._sock)
            return
        self._behind = data[count:] if count < len(data) else b""


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


class PacedServer:
    """All connections, stepped together `rate_per_s` times a second."""

    def __init__(
        self, rate_per_s: float, most_tokens: int, seed: int,
        chunk_tokens: Sequence[int] = (), prefill_steps: int = 0,
    ) -> None:  # fmt: skip
        self.prefill_steps = prefill_steps
        self._chunk_tokens = chunk_tokens
        self.sent: list[Sent] = []
        self.late_s = array("d")
        self._rate_per_s, self._most_tokens, self._seed = rate_per_s, most_tokens, seed
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        self._poll.register(sys.stdin, select.EPOLLIN)
        self._connections: dict[int, Connection] = {}
        self._active: dict[Connection, None] = {}
        self._over = False

    def serve(self) -> None:
        """Serve until the standard input is closed."""
        period_s = 1 / self._rate_per_s
        due_s = time.monotonic()
        while not self._over:
            if not self._active:
                self._events(0.05)
                due_s = time.monotonic() + period_s
                continue
            self._wait(due_s)
            self.late_s.append(time.monotonic() - due_s)
            for connection in tuple(self._active):
                connection.step()
            due_s += period_s
        self._poll.close()
        self._listener.close()

    @property
    def keeps_back(self) -> bool:
        """Tell whether a step makes one token, which waits for its chunk."""
        return bool(self._chunk_tokens)

    def sizes(self, prompt: str) -> Iterator[int]:
        """Return the tokens of each chunk of an answer."""
        draw = random.Random(f"{self._seed} {prompt}")
        while self._chunk_tokens:
            yield draw.choice(self._chunk_tokens)
        while True:
            yield draw.randint(1, self._most_tokens) if self._most_tokens > 1 else 1

    def begun(self, connection: Connection, sent: Sent) -> None:
        """Let a connection take part in the steps."""
        self.sent.append(sent)
        self._active[connection] = None

    def ended(self, connection: Connection) -> None:
        """Leave a connection out of the steps."""
        self._active.pop(connection, None)

    def drop(self, connection: Connection, sock: socket.socket) -> None:
        """Forget a connection."""
        self.ended(connection)
        if sock.fileno() >= 0:
            self._connections.pop(sock.fileno(), None)
            self._poll.unregister(sock)
            sock.close()

    def _wait(self, due_s: float) -> None:
        self._events(0)
        while (left_s := due_s - time.monotonic()) > 0:
            if left_s > _CALM_S:
                self._events(left_s - _CALM_S)
            else:
                time.sleep(left_s)
                self._events(0)

    def _events(self, wait_s: float) -> None:
        for number, _ in self._poll.poll(wait_s):
            if number == self._listener.fileno():
                self._accept()
            elif number == sys.stdin.fileno():
                self._over = True
            elif connection := self._connections.get(number):
                connection.readable()

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[sock.fileno()] = Connection(self, sock)
        self._poll.register(sock, select.EPOLLIN)


def main() -> None:
    """Serve by the command line, then write the account."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rate-per-s", type=float, required=True)
    parser.add_argument("--most-tokens", type=int, default=1)
    parser.add_argument("--chunk-tokens", type=int, nargs="*", default=())
    parser.add_argument("--prefill-steps", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu", type=int, help="Stay on this core, before all others there.")
    parser.add_argument("--account", type=Path, required=True)
    options = parser.parse_args()
    if options.cpu is not None:
        _stay_on(options.cpu)
    server = PacedServer(
        options.rate_per_s, options.most_tokens, options.seed,
        options.chunk_tokens, options.prefill_steps,
    )  # fmt: skip
    print(server.port, flush=True)
    server.serve()
    streams = [
        {"prompt": s.prompt, "tokens": s.tokens.tolist(), "times_s": s.times_s.tolist(),
         "asked_s": s.asked_s, "made_s": s.made_s.tolist()}
        for s in server.sent
    ]  # fmt: skip
    account = {"streams": streams, "late_s": server.late_s.tolist(), "cpu_s": time.process_time()}
    options.account.write_bytes(orjson.dumps(account))


def _stay_on(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except OSError:  # not everybody may
        return


if __name__ == "__main__":
    main()
