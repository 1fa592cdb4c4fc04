"""How a sweep is asked to end from outside."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def terminate_like_interrupt() -> Iterator[None]:
    """Let SIGTERM end a sweep as Ctrl-C does, for as long as this lasts.

    Enter it after Ray has started: Ray installs a handler of its own, which would end the process
    at once. Outside the main thread it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
