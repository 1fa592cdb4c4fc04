"""A real emulated server for tests, and the smallest client that reads it."""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.patience import GIVE_UP_S
from tests.ports import free_port

LIMIT_S = GIVE_UP_S

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply."""

    status: int
    body: bytes

    def json(self) -> Json:
        """Parse the body as an object."""
        parsed = json.loads(self.body)
        assert isinstance(parsed, dict)
        return parsed


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event, and when its read returned."""

    at_s: float
    data: Json


@dataclass(frozen=True, slots=True)
class Served:
    """A running server."""

    process: subprocess.Popen[bytes]
    port: int
    log_path: Path

    def log(self) -> str:
        """Return all that the server wrote."""
        return self.log_path.read_text()

    def ask(self, method: str, path: str, body: object = None) -> Reply:
        """Do one request."""
        connection = self.open(method, path, body)
        try:
            reply = connection.getresponse()
            return Reply(reply.status, reply.read())
        finally:
            connection.close()

    def open(self, method: str, path: str, body: object = None) -> http.client.HTTPConnection:
        """Send one request without waiting for the reply. The caller closes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, None if body is None else raw)
        return connection

    def stream(self, path: str, body: Mapping[str, object]) -> list[Event]:
        """Do one streamed request to its end mark."""
        connection = self.open("POST", path, {**body, "stream": True})
        try:
            return list(events(connection))
        finally:
            connection.close()

    def wait_ready(self) -> None:
        """Wait until the server answers its health check."""
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if self.ask("GET", "/health").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError(f"the server did not get ready:\n{self.log()}")


def events(connection: http.client.HTTPConnection) -> Iterator[Event]:
    """Read server-sent events up to the end mark."""
    reply = connection.getresponse()
    assert reply.status == 200
    rest = b""
    while chunk := reply.read1(1 << 16):
        at_s = time.monotonic()
        *whole, rest = (rest + chunk).split(b"\n\n")
        for event in whole:
            data = event.removeprefix(b"data: ")
            if data == b"[DONE]":
                return
            yield Event(at_s, json.loads(data))
    raise AssertionError("the stream ended without its mark")


@contextmanager
def serve(
    *flags: str, scale: float = 200.0, port: int | None = None, world: str = "", **env: str
) -> Iterator[Served]:
    """Start an emulated server in a world (TOML of a scenario), and end it with its session."""
    port = free_port() if port is None else port
    argv = [sys.executable, "-m", "infra.emulated", "--model-path", "m", "--tp-size", "8"]
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("NCCL", "EMULATED"))}
    with tempfile.TemporaryDirectory() as folder:
        log_path = Path(folder) / "server.log"
        if world:
            scenario_path = Path(folder) / "world.toml"
            scenario_path.write_text(world)
            env["EMULATED_SCENARIO"] = str(scenario_path)
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [*argv, "--port", str(port), *flags],
                env={**clean, "EMULATED_TIME_SCALE": str(scale), **env},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield Served(process, port, log_path)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(LIMIT_S)
