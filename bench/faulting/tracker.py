"""An MLflow server that is hit with the rest, comes back, and is stopped for a time of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

READY_S = 240.0


class TrackerServer:
    """A server over a store in a folder, always at the same port."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._process = self._start()

    @property
    def uri(self) -> str:
        """Return the address of the server."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def store_uri(self) -> str:
        """Return the address of what the server writes to."""
        return f"sqlite:///{self._folder / 'served.db'}"

    @property
    def pid(self) -> int:
        """Return the process that leads the session of the server."""
        return self._process.pid

    def come_back(self, number: signal.Signals) -> None:
        """Start it again where a signal ended it."""
        if number == signal.SIGSTOP:
            return
        self.end()
        self._process = self._start()

    def end(self) -> None:
        """End it with all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=READY_S)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Let it hang for as long as this lasts: it takes connections, and answers nothing."""
        os.killpg(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self._process.pid, signal.SIGCONT)

    def wait_ready(self) -> None:
        """Wait until it answers."""
        until_s = time.monotonic() + READY_S
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while time.monotonic() < until_s:
            with contextlib.suppress(urllib.error.URLError, OSError):
                if opener.open(f"{self.uri}/health", timeout=5).status == 200:
                    return
            time.sleep(0.25)
        raise RuntimeError((self._folder / "server.log").read_text()[-2000:])

    def _start(self) -> "subprocess.Popen[bytes]":
        argv = [
            sys.executable, "-m", "mlflow", "server", "--backend-store-uri", self.store_uri,
            "--artifacts-destination", (self._folder / "served").as_uri(),
            "--host", "127.0.0.1", "--port", str(self._port), "--workers", "1",
        ]  # fmt: skip
        more = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        with (self._folder / "server.log").open("ab") as log:
            return subprocess.Popen(
                argv, env={**os.environ, **more}, cwd=self._folder, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
