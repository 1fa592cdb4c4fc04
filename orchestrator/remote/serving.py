"""Serves the MLflow UI on the host for as long as somebody elsewhere listens."""

import json
import os
import socket
import sys
import threading

from orchestrator.remote.place import Place
from orchestrator.state import State
from orchestrator.tracking.tracking_uri import is_remote, shown_uri, tracking_uri


def serve_tied(place: Place) -> None:
    """Serve until the input ends; the first line told is where, or why not."""
    from orchestrator.tracking.ui import UiError, serve_ui

    state = State(place.state)
    uri = tracking_uri(state.mlflow_uri)
    if not state.sweep_ids():
        _tell({"why": "no sweep lies there"})
    elif is_remote(uri):
        _tell({"elsewhere": shown_uri(uri)})
    else:
        stop, port = threading.Event(), _free_port()
        threading.Thread(target=_watch_input, args=(stop,), daemon=True).start()
        try:
            serve_ui(
                uri, state.artifact_root, port, state.root / "ui.log",
                on_ready=lambda _address: _tell({"port": port}), stop=stop,
            )  # fmt: skip
        except UiError as error:
            _tell({"why": str(error)})


def _watch_input(stop: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    stop.set()


def _tell(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
