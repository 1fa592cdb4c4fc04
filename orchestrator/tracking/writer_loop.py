"""The thread that sends what waits in outboxes, and tries again for as long as it takes."""

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Protocol

from infra.redaction import Redactor
from orchestrator.tracking.events import Event, SweepEnded
from orchestrator.tracking.outbox import Entry, Outbox

log = logging.getLogger(__name__)

STRIKES = 4
"""Refusals of an event by a store that answers, after which it is set aside."""

CLOSING_FAILURES = 3
"""Tries in a row without an answer that end the tries once nobody is told anything any more."""


class Sink(Protocol):
    """Where events are sent. Used by one thread; may raise anything."""

    def write(self, event: Event) -> None:
        """Write one event; writing it again changes nothing."""
        ...

    def probe(self) -> None:
        """Raise if the store does not answer."""
        ...

    def is_passing(self, error: Exception) -> bool:
        """Tell whether an error says by itself that the store will take the same later."""
        ...

    def forget(self) -> None:
        """Look everything up again: something failed, and it may be because it has changed."""
        ...

    def refused(self, event: Event, reason: str) -> None:
        """Note with the run that an event could not be written."""
        ...


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits between tries, in wall seconds: they double, up to the longest, less a random part."""

    first_s: float = 0.2
    longest_s: float = 30.0

    def wait_s(self, failures: int) -> float:
        """Return the wait after so many failures in a row."""
        full_s = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 30))
        return full_s * random.uniform(0.5, 1.0)


class WriterLoop:
    """Sends the events of some earlier outboxes, then those of its own, one at a time, in order.

    While the store is away it tries again without end, or until `close` runs out of patience; what
    is not sent then stays on disk. What a store refuses is set aside, and tried again before a
    sweep ends and at the end. An ImportError ends it for good. Nothing that it meets leaves it.
    """

    def __init__(
        self,
        outbox: Outbox,
        sink: Sink,
        backoff: Backoff | None = None,
        earlier: Sequence[Path] = (),
    ) -> None:
        self.failures = 0
        self._outbox, self._sink = outbox, sink
        self._backoff = backoff or Backoff()
        self._earlier = tuple(earlier)
        self._failed_in_a_row = self._away_in_a_row = 0
        self._closing, self._given_up, self._opened = Flag(), Flag(), Flag()
        self._thread = Thread(target=self._run, name="tracker-writer", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Tell whether the thread lives."""
        return self._thread.is_alive()

    def wait_open(self, deadline_s: float) -> bool:
        """Wait until the first event was tried, with which the slow opening is over."""
        return self._opened.wait(max(0.0, deadline_s))

    def close(self, deadline_s: float) -> bool:
        """Send what is left within wall seconds; False if any of it is not sent."""
        self._outbox.close()
        self._away_in_a_row = 0
        self._closing.set()
        self._thread.join(max(0.0, deadline_s))
        if self._thread.is_alive():
            self._given_up.set()
            log.warning("the tracker did not take all within %s s", deadline_s)
            return False
        unsent = self._outbox.waiting + self._outbox.aside + self._outbox.lost
        if unsent:
            log.warning("%d events are not in the tracker yet", unsent)
        return not unsent

    def _run(self) -> None:
        for path in self._earlier:
            if (outbox := self._reopened(path)) is not None:
                self._drain(outbox)
        self._drain(self._outbox)

    def _reopened(self, path: Path) -> Outbox | None:
        opened: list[Outbox] = []
        error = self._guarded(lambda: opened.append(Outbox(path)))
        if error is not None:
            log.warning("%s is not sent: %s", path, error)
            return None
        opened[0].close()
        return opened[0]

    def _drain(self, outbox: Outbox) -> None:
        """Send all of an outbox until it is closed, or until this is given up."""
        error = self._guarded(lambda: self._send_all(outbox))
        if error is not None:
            log.error("the tracker's thread met what it does not know", exc_info=error)
        self._guarded(outbox.release)
        self._opened.set()

    def _send_all(self, outbox: Outbox) -> None:
        while not self._given_up.is_set() and (entry := outbox.take()) is not None:
            if any(isinstance(event, SweepEnded) for event in entry.events):
                self._send_asides(outbox)
            self._send(outbox, entry)
        if not self._given_up.is_set():
            self._send_asides(outbox)

    def _send_asides(self, outbox: Outbox) -> None:
        for entry in outbox.asides():
            if self._try(entry) is None:
                outbox.settle(entry)

    def _send(self, outbox: Outbox, entry: Entry) -> None:
        strikes = 0
        while (error := self._try(entry)) is not None:
            if self._is_refusal(error):
                strikes, self._away_in_a_row = strikes + 1, 0
            else:
                self._away_in_a_row += 1
            if strikes >= STRIKES:
                outbox.set_aside(entry)
                self._refused(entry, error)
                return
            if self._is_hopeless(error) or self._wait():
                self._given_up.set()
                return
        outbox.done(entry)

    def _try(self, entry: Entry) -> Exception | None:
        """Write the events of an entry; return what went wrong."""
        error = self._guarded(lambda: self._write(entry))
        if error is None:
            if self._failed_in_a_row:
                log.info("the tracker answers again after %d failures", self._failed_in_a_row)
            self._failed_in_a_row = self._away_in_a_row = 0
            self._opened.set()
            return None
        self.failures += 1
        self._failed_in_a_row += 1
        level = logging.WARNING if self._failed_in_a_row == 1 else logging.DEBUG
        log.log(level, "the tracker took no %s: %s", _named(entry), _in_short(error))
        self._guarded(self._sink.forget)
        self._opened.set()
        return error

    def _write(self, entry: Entry) -> None:
        for event in entry.events:
            self._sink.write(event)

    def _is_refusal(self, error: Exception) -> bool:
        """Tell whether the store answers all the same, so that it is the event's own fault."""
        passing: list[bool] = []
        if self._guarded(lambda: passing.append(self._sink.is_passing(error))) or any(passing):
            return False
        return self._guarded(self._sink.probe) is None

    def _refused(self, entry: Entry, error: Exception) -> None:
        log.warning("%s is set aside: %s", _named(entry), _in_short(error))
        for event in entry.events:
            self._guarded(lambda event=event: self._sink.refused(event, _in_short(error)))  # type: ignore[misc] # bound per event

    def _is_hopeless(self, error: Exception) -> bool:
        if isinstance(error, ImportError):
            log.error("the tracker cannot be loaded; nothing is tracked", exc_info=error)
            self._outbox.close()
            return True
        return False

    def _wait(self) -> bool:
        """Wait for the next try; True if there is to be none."""
        wait_s = self._backoff.wait_s(max(1, self._failed_in_a_row))
        if not self._closing.wait(wait_s):
            return False
        if self._away_in_a_row >= CLOSING_FAILURES:
            return True
        return self._given_up.wait(self._backoff.wait_s(1))

    def _guarded(self, act: Callable[[], object]) -> Exception | None:
        """Do something and return what it raises."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 # guards the loop: a store may raise anything
            return error
        return None


def _named(entry: Entry) -> str:
    return ", ".join(type(event).__name__ for event in entry.events)


def _in_short(error: Exception) -> str:
    lines = Redactor.from_environment().text(str(error)).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
