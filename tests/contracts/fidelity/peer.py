"""One of the two servers, as the suite talks to it."""

import http.client
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.patience import GIVE_UP_S

LIMIT_S = GIVE_UP_S

Json = dict[str, Any]

_HEADERS = ("content-type", "transfer-encoding", "allow")


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        """The body as an object."""
        parsed = json.loads(self.body)
        assert isinstance(parsed, dict), self.body
        return parsed

    @property
    def events(self) -> list[str]:
        """The data of each server-sent event, the end mark included."""
        blocks = self.body.decode().split("\n\n")
        assert blocks.pop() == "", "the stream ended in the middle of an event"
        return [block.removeprefix("data: ") for block in blocks]

    @property
    def chunks(self) -> list[Json]:
        """The events that carry JSON."""
        return [json.loads(event) for event in self.events if event != "[DONE]"]


@dataclass(frozen=True, slots=True)
class Peer:
    """One of the two servers."""

    name: str
    port: int
    log_path: Path
    process: subprocess.Popen[bytes] | None = None
    """Set where this suite started it."""

    def ask(self, method: str, path: str, body: object = None) -> Reply:
        """Do one request; bytes are sent as they are, all else as JSON."""
        with self.asking(method, path, body) as connection:
            return _read(connection)

    def generate(self, prompt: str | list[int], tokens: int, **more: object) -> Reply:
        """Do one greedy request on the native route."""
        return self.ask("POST", "/generate", native(prompt, tokens, **more))

    def flush(self) -> None:
        """Empty the caches as soon as the server is idle."""
        until_s = time.monotonic() + LIMIT_S
        while self.ask("POST", "/flush_cache").status != 200:
            assert time.monotonic() < until_s, f"{self.name} does not get idle"
            time.sleep(0.05)

    @contextmanager
    def asking(
        self, method: str, path: str, body: object = None
    ) -> Iterator[http.client.HTTPConnection]:
        """Send one request and hand out the connection, which is closed at the end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {} if raw is None else {"Content-Type": "application/json"}
        try:
            connection.request(method, path, raw, headers)
            yield connection
        finally:
            connection.close()

    @contextmanager
    def streaming(self, body: Json, path: str = "/generate") -> Iterator["Running"]:
        """Start a streamed request, and wait for its first event."""
        with self.asking("POST", path, {**body, "stream": True}) as connection:
            running = Running(connection.getresponse())
            running.read_some()
            yield running


class Running:
    """A streamed request that is not over."""

    def __init__(self, reply: http.client.HTTPResponse) -> None:
        self._reply = reply
        self._body = b""

    def read_some(self) -> None:
        """Wait for more of it."""
        self._body += self._reply.read1(1 << 16)

    def rest(self) -> Reply:
        """Read all of it."""
        return Reply(self._reply.status, _kept(self._reply), self._body + self._reply.read())


def native(prompt: str | list[int], tokens: int, **more: object) -> Json:
    """Return the body of a greedy `/generate` request; `more` goes to its top level."""
    field = "text" if isinstance(prompt, str) else "input_ids"
    sampling = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True}
    return {field: prompt, "sampling_params": sampling, **more}


def chat(prompt: str, tokens: int, **more: object) -> Json:
    """Return the body of a greedy chat request."""
    return {
        "model": "m",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        **more,
    }


def _read(connection: http.client.HTTPConnection) -> Reply:
    reply = connection.getresponse()
    return Reply(reply.status, _kept(reply), reply.read())


def _kept(reply: http.client.HTTPResponse) -> dict[str, str]:
    found = {name: reply.headers[name] for name in _HEADERS if name in reply.headers}
    if "allow" in found:  # a set, in no order
        found["allow"] = ", ".join(sorted(found["allow"].split(", ")))
    return found
