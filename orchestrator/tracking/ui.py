"""The MLflow user interface, as a server that is started, shown and stopped."""

import contextlib
import json
import os
import socket
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.host import Command, HostError
from infra.local_host import GuardedProcess, LocalHost
from orchestrator.signals import ends_setting
from orchestrator.tracking.ui_view import runs_url

_HOST = "127.0.0.1"
_POLL_S = 0.25

GRACE_S = 10.0
"""Wall seconds between asking the server to end and killing it."""


class UiError(Exception):
    """The server did not start, or ended by itself; the message holds its last lines."""


@dataclass(frozen=True, slots=True)
class UiCommand:
    """What to start; `env` is put on top of the environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


def ui_command(store_uri: str, artifact_root: Path, port: int) -> UiCommand:
    """Return the light form of the server: one worker, no job runner; ready in about 15 s.

    The store goes by a variable: its address may hold a password, and all users see a command line.
    """
    argv = (
        sys.executable, "-m", "mlflow", "server",
        "--default-artifact-root", artifact_root.absolute().as_uri(),
        "--host", _HOST,
        "--port", str(port),
        "--workers", "1",
    )  # fmt: skip
    env = {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_BACKEND_STORE_URI": store_uri,
    }
    return UiCommand(argv, env)


def serve_ui(
    store_uri: str,
    artifact_root: Path,
    port: int,
    log_path: Path,
    on_ready: Callable[[str], None],
    *,
    stop: threading.Event | None = None,
    ready_deadline_s: float = 180.0,
) -> None:
    """Serve until interrupted, or until `stop` is set; `on_ready` gets the address.

    Blocks; nothing of the server is left when it returns. Times are wall seconds. Raises UiError.
    """
    stop = stop or threading.Event()
    address = f"http://{_HOST}:{port}"
    _require_free(port)
    with (
        ends_setting(stop),
        _running(ui_command(store_uri, artifact_root, port), log_path) as server,
    ):
        deadline_s = time.monotonic() + ready_deadline_s
        while not _is_healthy(address):
            _require_alive(server, log_path)
            if time.monotonic() > deadline_s:
                raise UiError(f"not ready within {ready_deadline_s:g} s\n{_last_lines(log_path)}")
            if stop.wait(_POLL_S):
                return
        on_ready(address)
        while not stop.wait(_POLL_S):
            _require_alive(server, log_path)


@contextlib.contextmanager
def _running(command: UiCommand, log_path: Path) -> Iterator[GuardedProcess]:
    """Start the server under a guard and end all of it.

    Where this process is killed, the guard ends the server.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    log_path.write_bytes(b"")
    started = Command(
        command.argv, {}, log_path, sweep="ui", trial=f"ui-{os.getpid()}",
        hidden={**os.environ, **command.env}, grace_s=GRACE_S,
    )  # fmt: skip
    try:
        server = LocalHost().start(started)
    except HostError as error:
        raise UiError(str(error)) from error
    try:
        yield server
    finally:
        server.stop()


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise UiError(f"port {port} cannot be used: {error.strerror}") from error


def _require_alive(server: GuardedProcess, log_path: Path) -> None:
    if (code := server.poll()) is not None:
        raise UiError(f"the server ended with {code}\n{_last_lines(log_path)}")


def sweeps_page(address: str, experiment: str) -> str:
    """Return the page of an experiment with its trials, best first; else the front page."""
    query = urllib.parse.urlencode({"experiment_name": experiment})
    answer = _get(f"{address}/api/2.0/mlflow/experiments/get-by-name?{query}")
    if answer is None:
        return address
    return runs_url(address, str(json.loads(answer)["experiment"]["experiment_id"]))


def _is_healthy(address: str) -> bool:
    return _get(f"{address}/health") is not None


def _get(url: str) -> bytes | None:
    """Return the body of a good answer; None for any other."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            return bytes(answer.read()) if answer.status == 200 else None
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return None


def _last_lines(log_path: Path, lines: int = 20) -> str:
    text = log_path.read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:])
