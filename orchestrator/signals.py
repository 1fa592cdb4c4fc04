"""How a sweep is asked to end from outside: cleanly at first, at once at the second time."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a supervisor, and a terminal that was closed."""


def hear_ctrl_c() -> None:
    """Let Ctrl-C end this process. A shell starts what stands behind `&` without that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def ends_setting(stop: threading.Event) -> Iterator[None]:
    """Have the first Ctrl-C or SIGTERM set an event, so that none is too early for a server.

    The next one raises KeyboardInterrupt. Outside the main thread it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def take(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, take) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interrupts:
    """Turns the first signal into KeyboardInterrupt in the main thread, the second into the end.

    `at_once` is called at every signal after the first. It should end the process.
    """

    def __init__(self, at_once: Callable[[], None]) -> None:
        self._at_once = at_once
        self._gently: Callable[[], bool] | None = None
        self._count = 0

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Hear the signals for as long as this lasts; outside the main thread it changes nothing.

        SIGHUP stays without effect where it had none before, as below `nohup`.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        outlives = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        heard = [number for number in SIGNALS if number != signal.SIGHUP or not outlives]
        before = {number: signal.signal(number, self._take) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[Sequence[bool]]:
        """Have the first signal wait for the end of what must not be cut off in the middle.

        What it yields is empty until there is such a signal.
        """
        waiting: list[bool] = []

        def wait() -> bool:
            waiting.append(True)
            return True

        try:
            with self.first_told_to(wait):
                yield waiting
        finally:
            if waiting:
                raise KeyboardInterrupt

    @contextmanager
    def first_told_to(self, gently: Callable[[], bool]) -> Iterator[None]:
        """Have the first signal told to a loop that ends by itself; False: it does not listen."""
        self._gently = gently
        try:
            yield
        finally:
            self._gently = None

    def _take(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _write_nowhere()
        self._count += 1
        if self._count > 1:
            self._at_once()
        if self._count > 1 or self._gently is None or not self._gently():
            raise KeyboardInterrupt


def _write_nowhere() -> None:
    """Let a program outlive its terminal: what it prints has nowhere to go."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        os.close(nowhere)
