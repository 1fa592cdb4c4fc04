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
    at once. Outside the main thread it changes nothing. A program that a shell started behind `&`
    is born deaf to SIGINT: it must hear ours all the same.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if deaf:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    previous = signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
        if deaf:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
