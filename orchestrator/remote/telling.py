"""Tells on the host how a run and its sweep stand, for whoever follows from elsewhere.

One line of JSON for each piece of news, and a beat where there is none: who hears nothing at all
is cut off. It ends with its input, and so with the connection.
"""

import json
import os
import select
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from orchestrator.remote.notes import OUTPUT, RunNote, newest
from orchestrator.remote.place import Place
from orchestrator.state import State
from orchestrator.watching.sweep_status import SweepStatus
from orchestrator.watching.watcher import Watcher, what_counts

LOOK_S = 1.0
"""Wall seconds between two looks: they must not disturb what is measured there."""
BEAT_S = 2.0
_CHUNK_BYTES = 1 << 16
_CLOCK_S = 2.0
"""By how much a sweep may seem to begin before its command: both round their times."""


def tell(place: Place, asked: Mapping[str, Any]) -> None:
    """Print news until the run has ended and all of it is told, or the input ends."""
    run, offset = str(asked.get("run", "")), int(asked.get("offset", 0))
    said_s = 0.0
    teller = _Teller(place, run, offset)
    while True:
        lines = list(teller.news())
        if not lines and time.monotonic() - said_s >= BEAT_S:
            lines = [{"kind": "beat"}]
        if lines:
            sys.stdout.write("".join(json.dumps(line) + "\n" for line in lines))
            sys.stdout.flush()
            said_s = time.monotonic()
        if lines and lines[-1]["kind"] == "end":
            return
        if _input_ends(LOOK_S):
            return


def now(place: Place, sweep_id: str | None) -> dict[str, Any]:
    """Return how the newest run, or a sweep that is named, stands at this moment."""
    note = newest(place.runs)
    state = State(place.state)
    found = sweep_id or (note and _sweep_of(state, note)) or (state.sweep_ids() or [""])[-1]
    seen = Watcher(state, found).look() if state.card(found) else None
    return {"run": note and note.as_data(), "status": seen and seen.as_data()}


class _Teller:
    """Looks again and again; each look tells what the last one did not."""

    def __init__(self, place: Place, run: str, offset: int) -> None:
        self._place, self._run, self._offset = place, run, offset
        self._state = State(place.state)
        self._watcher: Watcher | None = None
        self._told: object = None
        self._named = False

    def news(self) -> Iterator[dict[str, Any]]:
        """Yield what is new; the end comes last."""
        note = newest(self._place.runs, self._run)
        if note is None:
            yield {"kind": "end", "code": None, "why": "nothing was started there"}
            return
        self._run = note.run
        if not self._named:
            self._named = True
            yield {"kind": "run", "run": note.as_data()}
        is_over = not note.is_running and note.began_s > 0
        status = self._status(note)
        # What the command says comes before what it does, and its last words come last.
        if not is_over:
            yield from self._output()
        if status is not None:
            yield {"kind": "status", "status": status.as_data()}
        if is_over:
            yield from self._output(to_end=True)
            yield {"kind": "end", "code": note.code}

    def _status(self, note: RunNote) -> SweepStatus | None:
        """Return how the sweep stands, if that is new."""
        if self._watcher is None:
            sweep_id = _sweep_of(self._state, note)
            self._watcher = Watcher(self._state, sweep_id) if sweep_id else None
        seen = self._watcher.look() if self._watcher else None
        if seen is None or what_counts(seen) == self._told:
            return None
        self._told = what_counts(seen)
        return seen

    def _output(self, *, to_end: bool = False) -> Iterator[dict[str, Any]]:
        """Yield what the command printed since, in whole lines."""
        while data := _read(self._place.run(self._run) / OUTPUT, self._offset):
            whole = data if to_end or len(data) == _CHUNK_BYTES else data[: data.rfind(b"\n") + 1]
            if not whole:
                return
            self._offset += len(whole)
            yield {"kind": "output", "text": whole.decode(errors="replace"), "at": self._offset}


def _sweep_of(state: State, note: RunNote) -> str:
    """Return the sweep that a run began or went on with; empty where none has begun yet."""
    began = {one: _began_s(state, one) for one in state.sweep_ids()}
    its = [one for one, at_s in began.items() if at_s >= note.began_s - _CLOCK_S]
    return max(its, key=lambda one: began[one], default="")


def _began_s(state: State, sweep_id: str) -> float:
    try:
        return datetime.fromisoformat(str(state.card(sweep_id).get("began_at"))).timestamp()
    except ValueError:
        return 0.0


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(_CHUNK_BYTES)
    except OSError:
        return b""


def _input_ends(wait_s: float) -> bool:
    """Wait; tell whether whoever asked has gone."""
    ready = select.select([sys.stdin], [], [], wait_s)[0]
    return bool(ready) and not os.read(sys.stdin.fileno(), 1024)
