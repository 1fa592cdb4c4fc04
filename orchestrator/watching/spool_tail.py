"""A running trial as its spool tells it, read on from where the last look ended."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.journal import unseal
from orchestrator.spool import (
    PHASE,
    SAMPLE,
    START_PHASE,
    TRIAL,
    SpooledSample,
    SpooledTrial,
    sample_from,
    trial_from,
)
from orchestrator.watching.sweep_status import CurvePoint
from sweeps.results import Phase

MOST_POINTS = 240
"""Of a curve; a longer one loses every second point of all but its end."""

_NOTHING = SpooledSample(0.0, 0, None, None, None, None)


@dataclass(slots=True)
class SpoolTail:
    """Follows one spool. It only reads, and each line once; a line that is damaged is passed over.

    Raises OSError for a file that is there and cannot be read.
    """

    path: Path
    head: SpooledTrial | None = None
    phase: str = Phase.ADMITTED.value
    detail: str = ""
    elapsed_s: float = 0.0
    """At its last record."""
    last: SpooledSample = _NOTHING
    """The last sample with a rate, or else with anything."""
    curve: list[CurvePoint] = field(default_factory=list)
    written_s: float = 0.0
    """When it last grew, in seconds since 1970."""
    _read_bytes: int = 0

    def look(self) -> None:
        """Take in what has come since the last look."""
        for data in self._news():
            self._take(data)
        if len(self.curve) > MOST_POINTS:
            self.curve = [*self.curve[:-40:2], *self.curve[-40:]]

    @property
    def silent_s(self) -> float:
        """Return for how many wall seconds nothing came; 0 before anything did."""
        return max(0.0, time.time() - self.written_s) if self.written_s else 0.0

    def _news(self) -> Iterator[Mapping[str, object]]:
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                self.written_s = found.st_mtime
                if found.st_size < self._read_bytes:
                    self._read_bytes = 0
                file.seek(self._read_bytes)
                whole, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return
        self._read_bytes += len(whole) + len(newline)
        for line in whole.split(b"\n"):
            if (data := unseal(line)) is not None:
                yield data

    def _take(self, data: Mapping[str, object]) -> None:
        match data.get("kind"):
            case str(kind) if kind == TRIAL:
                self.head = trial_from(data)
            case str(kind) if kind == PHASE:
                self.phase, self.detail = str(data.get("phase")), ""
                self._reach(data.get("at_s"))
            case str(kind) if kind == START_PHASE:
                self.detail = str(data.get("phase"))
                self._reach(data.get("at_s"))
            case str(kind) if kind == SAMPLE:
                self._sample(sample_from(data))

    def _reach(self, at_s: object) -> None:
        if isinstance(at_s, int | float):
            self.elapsed_s = max(self.elapsed_s, float(at_s))

    def _sample(self, seen: SpooledSample) -> None:
        self._reach(seen.elapsed_s)
        if seen.tok_s is not None or self.last.tok_s is None:
            self.last = seen
        self.curve.append(
            CurvePoint(
                seen.elapsed_s, seen.phase, seen.tok_s, seen.low, seen.high, seen.accept_length,
                seen.steps_per_s, seen.tokens,
            )
        )  # fmt: skip
