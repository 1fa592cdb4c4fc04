"""Notices a control loop that stands still, and writes down where all threads are."""

import faulthandler
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.clock import Clock, ScaledClock

logger = logging.getLogger(__name__)

LIMIT_S = 180.0
"""Wall seconds without a turn of the loop. Ray's start and a slow disk take a fraction of it."""

LOOK_EVERY_S = 5.0


class Watchdog:
    """Judges a loop by how often it has turned. Each stall is told once."""

    def __init__(self, clock: Clock, turns: Callable[[], int], limit_s: float = LIMIT_S) -> None:
        self._clock, self._turns, self._limit_s = clock, turns, limit_s
        self._seen = turns()
        self._since_s = self._looked_s = clock.now_s()
        self._told = False

    def look(self) -> float | None:
        """Return for how long the loop has stood still, where that is news; None otherwise."""
        now_s, turns = self._clock.now_s(), self._turns()
        was_away = now_s - self._looked_s > self._limit_s / 2
        self._looked_s = now_s
        if turns != self._seen or was_away:  # a stopped or sleeping process is no stall
            self._seen, self._since_s, self._told = turns, now_s, False
            return None
        stood_s = now_s - self._since_s
        if self._told or stood_s < self._limit_s:
            return None
        self._told = True
        return stood_s


@contextmanager
def watched(turns: Callable[[], int], log_path: Path) -> Iterator[None]:
    """Watch a loop for as long as this lasts; the stacks of a stall go into a log."""
    over = threading.Event()
    dog = Watchdog(ScaledClock(), turns)

    def watch() -> None:
        while not over.wait(LOOK_EVERY_S):
            stood_s = dog.look()
            if stood_s is not None:
                write_stacks(log_path)
                logger.warning(
                    "the control loop has stood still for %.0f s; %s says where", stood_s, log_path
                )

    thread = threading.Thread(target=watch, name="watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=LOOK_EVERY_S)


def write_stacks(path: Path) -> None:
    """Append the stacks of all threads, without a lock that one of them may hold."""
    with path.open("a") as log:
        log.write("stacks of all threads, as the control loop stands still:\n")
        log.flush()
        faulthandler.dump_traceback(log, all_threads=True)
