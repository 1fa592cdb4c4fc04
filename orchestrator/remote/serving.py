"""Serves a page on the host for as long as somebody elsewhere listens."""

import json
import os
import sys
import threading
from enum import StrEnum

from infra.local_host import LocalHost
from orchestrator.remote.place import Place
from orchestrator.state import State
from orchestrator.tracking.tracking_uri import is_remote, shown_uri, tracking_uri


class Page(StrEnum):
    """What can be looked at from elsewhere."""

    MLFLOW = "the MLflow UI"
    WATCH = "the page of its sweep"


def serve_tied(place: Place, page: Page) -> None:
    """Serve until the input ends; the first line told is where, or why not."""
    state = State(place.state)
    if not state.sweep_ids():
        _tell({"why": "no sweep lies there"})
        return
    stop = threading.Event()
    threading.Thread(target=_watch_input, args=(stop,), daemon=True).start()
    if page is Page.WATCH:
        _serve_watch(state, stop)
    else:
        _serve_mlflow(state, stop)


def _serve_watch(state: State, stop: threading.Event) -> None:
    from orchestrator.watching.page import Board, serve_page
    from orchestrator.watching.watcher import Watcher

    board = Board(Watcher(state, state.sweep_ids()[-1]).look)
    serve_page(board, 0, lambda address: _tell({"port": int(address.rpartition(":")[2])}), stop)


def _serve_mlflow(state: State, stop: threading.Event) -> None:
    from orchestrator.tracking.ui import UiError, serve_ui

    uri, port = tracking_uri(state.mlflow_uri), LocalHost().free_port()
    if is_remote(uri):
        _tell({"elsewhere": shown_uri(uri)})
        return
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
