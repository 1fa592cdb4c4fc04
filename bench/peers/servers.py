"""The servers that the clients read, started for a while and ended by their ids."""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_END_S = 20.0
_START_S = 60.0


@dataclass(slots=True)
class Sent:
    """What a paced server sent to one prompt: the count after each chunk, and when it left."""

    prompt: str
    tokens: list[int]
    times_s: list[float]
    asked_s: float = 0.0
    made_s: list[float] = field(default_factory=list)
    """When each token was there, where tokens were kept back for their chunks."""


@dataclass(slots=True)
class Paced:
    """A paced server; `sent` and `late_s` are there once it has ended."""

    url: str
    sent: list[Sent] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)
    """How late each step was that all streams took together."""


@contextmanager
def paced_server(
    rate_per_s: float,
    *,
    cpu: int | None,
    most_tokens: int = 1,
    chunk_tokens: Sequence[int] = (),
    prefill_steps: int = 0,
) -> Iterator[Paced]:
    """Serve at a pace, on one core of its own if one is told."""
    with tempfile.TemporaryDirectory() as folder:
        account = Path(folder) / "account.json"
        argv = [
            sys.executable, str(Path(__file__).with_name("paced_server.py")),
            "--rate-per-s", f"{rate_per_s:g}", "--most-tokens", str(most_tokens),
            "--account", str(account), "--prefill-steps", str(prefill_steps),
            "--chunk-tokens", *map(str, chunk_tokens),
        ]  # fmt: skip
        argv += [] if cpu is None else ["--cpu", str(cpu)]
        server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            paced = Paced(f"http://127.0.0.1:{int(server.stdout.readline())}")
            yield paced
            server.stdin.close()
            server.wait(_END_S)
            told = json.loads(account.read_text())
            paced.late_s = told["late_s"]
            paced.sent = [Sent(**stream) for stream in told["streams"]]
        finally:
            server.kill()
            server.wait()
            server.stdin.close()
            server.stdout.close()


@dataclass(frozen=True, slots=True)
class Emulated:
    """A running emulated server."""

    pid: int
    port: int

    @property
    def url(self) -> str:
        """Return where it answers."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def emulated_server(arguments: Sequence[str], scale: float) -> Iterator[Emulated]:
    """Serve with the emulated host at so many times its pace."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    argv = [sys.executable, "-m", "infra.emulated", *arguments,
            "--port", str(port), "--log-level", "error"]  # fmt: skip
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("NCCL_", "EMULATED_"))}
    server = subprocess.Popen(
        argv,
        cwd=Path(__file__).parents[2],
        env={**clean, "EMULATED_TIME_SCALE": f"{scale:g}"},
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_ready(server, port)
        yield Emulated(server.pid, port)
    finally:
        server.terminate()
        try:
            server.wait(_END_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_ready(server: "subprocess.Popen[bytes]", port: int) -> None:
    until_s = time.monotonic() + _START_S
    while time.monotonic() < until_s and server.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_S)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.05)
    sys.exit("the emulated server did not get ready")
