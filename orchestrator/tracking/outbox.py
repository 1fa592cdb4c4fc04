"""What is told to a tracker and not yet written: takes all at once, gives out in order."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Condition

from orchestrator.tracking.seam import Sample, SweepCard, TrialCard
from sweeps.results import TrialResult

MAX_SAMPLES = 2_000
"""Samples of one trial that wait at most; above it every second one is let go."""


@dataclass(frozen=True, slots=True)
class SweepStarted:
    """A sweep, and when it was told of (milliseconds since 1970, as all `at_ms`)."""

    card: SweepCard
    at_ms: int


@dataclass(frozen=True, slots=True)
class TrialStarted:
    """A trial."""

    card: TrialCard
    at_ms: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The samples of a trial since the last time, by whole elapsed second."""

    trial: str
    samples: Mapping[int, tuple[Sample, int]]


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """A result, and the folder with its files."""

    result: TrialResult
    folder: Path
    at_ms: int


@dataclass(frozen=True, slots=True)
class SweepEnded:
    """The end of a sweep."""

    sweep: str
    status: str
    at_ms: int


Event = SweepStarted | TrialStarted | Progress | TrialEnded | SweepEnded


class Outbox:
    """A queue from many threads to one. Nothing in it waits for the reader but `take`.

    Events are never dropped and come out in order. Samples wait by trial, one for each elapsed
    second at most, and come out before the end of their trial.
    """

    def __init__(self, linger_s: float = 2.0) -> None:
        self._linger_s = linger_s
        self._changed = Condition()
        self._events: deque[Event] = deque()
        self._samples: dict[str, dict[int, tuple[Sample, int]]] = {}
        self._due_s = 0.0
        self._closed = False

    def put(self, event: Event) -> bool:
        """Queue an event; False if the outbox is closed."""
        with self._changed:
            if self._closed:
                return False
            self._events.append(event)
            self._changed.notify()
            return True

    def put_sample(self, trial: str, sample: Sample, at_ms: int) -> bool:
        """Keep a sample, in the place of one for the same second; False if closed."""
        with self._changed:
            if self._closed:
                return False
            if not self._samples:
                self._due_s = time.monotonic() + self._linger_s
                self._changed.notify()
            waiting = self._samples.setdefault(trial, {})
            waiting[int(sample.elapsed_s)] = (sample, at_ms)
            if len(waiting) > MAX_SAMPLES:
                self._samples[trial] = dict(list(waiting.items())[1::2])
            return True

    def close(self) -> None:
        """Take nothing more. What waits can still be taken, samples without lingering."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take(self) -> Event | None:
        """Block for the next event; None once the outbox is closed and empty."""
        with self._changed:
            while True:
                if self._events:
                    return self._next_event()
                wait_s = self._due_s - time.monotonic() if self._samples else None
                if self._samples and (self._closed or (wait_s is not None and wait_s <= 0)):
                    return self._progress(next(iter(self._samples)))
                if self._closed:
                    return None
                self._changed.wait(wait_s)

    @property
    def waiting(self) -> int:
        """Return how many events and samples are waiting."""
        with self._changed:
            return len(self._events) + sum(map(len, self._samples.values()))

    def _next_event(self) -> Event:
        head = self._events[0]
        if isinstance(head, TrialEnded) and head.result.trial in self._samples:
            return self._progress(head.result.trial)
        return self._events.popleft()

    def _progress(self, trial: str) -> Progress:
        return Progress(trial, self._samples.pop(trial))
