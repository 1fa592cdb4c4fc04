"""A real MLflow server for tests, that can be stopped in the middle and set going again."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.orchestrator.tracking.sessions import stop_session
from tests.patience import GIVE_UP_S
from tests.ports import free_port

READY_S = GIVE_UP_S


@dataclass(frozen=True)
class Server:
    """A server, with its files in a folder of its own."""

    uri: str
    pid: int

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Let it hang: it takes connections, and answers nothing."""
        members = [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
        for member in members:
            member.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for member in members:
                member.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def serving(store_uri: str, folder: Path) -> Iterator[Server]:
    """Serve a store, and files through the server."""
    port = free_port()
    argv = [
        sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store_uri,
        "--artifacts-destination", (folder / "served").as_uri(),
        "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
    ]  # fmt: skip
    env = {
        **os.environ,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            argv, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        made = Server(f"http://127.0.0.1:{port}", server.pid)
        _wait_ready(made, server, folder / "server.log")
        yield made
    finally:
        stop_session(server)


def _wait_ready(server: Server, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline_s = time.monotonic() + READY_S
    while time.monotonic() < deadline_s:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(urllib.error.URLError, OSError):
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            if opener.open(f"{server.uri}/health", timeout=5).status == 200:
                return
        time.sleep(0.25)
    raise AssertionError(log.read_text())
