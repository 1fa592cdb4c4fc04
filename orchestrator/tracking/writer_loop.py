"""The thread that writes events, tries again what fails, and keeps what it could not write."""

import logging
from collections.abc import Callable, Sequence
from threading import Event as Flag
from threading import Thread

from orchestrator.tracking.outbox import Event, Outbox, SweepEnded

log = logging.getLogger(__name__)


class WriterLoop:
    """Takes events from an outbox and has them written, one at a time, in order.

    A write that fails is tried again after each of `backoff_s` wall seconds, then set aside, and
    tried once more at the end of the sweep and at `close`. `on_failure` is called in between.
    An ImportError ends it for good.
    """

    def __init__(
        self,
        outbox: Outbox,
        write: Callable[[Event], None],
        on_failure: Callable[[], None],
        backoff_s: Sequence[float],
    ) -> None:
        self.failures = 0
        self.unwritten: list[Event] = []
        self._outbox = outbox
        self._write = write
        self._on_failure = on_failure
        self._backoff_s = tuple(backoff_s)
        self._given_up = Flag()
        self._opened = Flag()
        self._thread = Thread(target=self._run, name="tracker-writer", daemon=True)
        self._thread.start()

    def wait_open(self, deadline_s: float) -> bool:
        """Wait until the first event was tried, with which the slow opening is over."""
        return self._opened.wait(max(0.0, deadline_s))

    def close(self, deadline_s: float) -> bool:
        """Write what is left within wall seconds; False if any of it is not written."""
        self._outbox.close()
        self._thread.join(max(0.0, deadline_s))
        if self._thread.is_alive():
            self._given_up.set()
            log.warning("the tracker did not take all within %s s", deadline_s)
            return False
        if self.unwritten:
            log.warning("%d events are not in the tracker", len(self.unwritten))
        return not self.unwritten

    def _run(self) -> None:
        while (event := self._outbox.take()) is not None:
            if isinstance(event, SweepEnded):
                self._try_unwritten()
            self._try(event, self._backoff_s)
            self._opened.set()
        self._try_unwritten()

    def _try_unwritten(self) -> None:
        again, self.unwritten = self.unwritten, []
        for event in again:
            self._try(event, ())

    def _try(self, event: Event, backoff_s: Sequence[float]) -> None:
        for wait_s in (0.0, *backoff_s):
            if self._given_up.wait(wait_s):
                break
            if self._attempt(event):
                return
        self.unwritten.append(event)

    def _attempt(self, event: Event) -> bool:
        what = type(event).__name__
        try:
            self._write(event)
        except ImportError:
            log.error("the tracker cannot be loaded; nothing is tracked", exc_info=True)
            self.failures += 1
            self._given_up.set()
            self._outbox.close()
        except Exception:  # guards the loop: whatever a store raises concerns one event
            self.failures += 1
            log.warning("event=%s is not written (failure %d)", what, self.failures, exc_info=True)
            self._on_failure()
        else:
            return True
        return False
