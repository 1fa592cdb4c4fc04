"""The owner's end of the two pipes to a guard: orders and signs of life out, events in."""

import os
import select
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import IO

from infra import guard

_READ_BYTES = 65536
_READABLE, _WRITABLE = select.POLLIN, select.POLLOUT


@dataclass(frozen=True, slots=True)
class Started:
    """The program runs."""

    pid: int


@dataclass(frozen=True, slots=True)
class Exited:
    """The root is gone; a negative code is a signal."""

    code: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """The tree is gone, but for the survivors. The code is None if the root is among them."""

    code: int | None
    killed: int
    survivors: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was started."""

    message: str


Event = Started | Exited | Stopped | Refused


def parse_event(line: bytes) -> Event | None:
    """Return the event in a line of the guard; None if it is none that this version knows."""
    name, _, rest = os.fsdecode(line).partition(" ")
    try:
        match name, rest.split():
            case "started", [pid, _]:
                return Started(int(pid))
            case "exited", [code]:
                return Exited(int(code))
            case "stopped", [code, killed, left]:
                return Stopped(None if code == "?" else int(code), int(killed), int(left))
            case "error", _:
                return Refused(rest)
    except ValueError:
        return None
    return None


class GuardLink:
    """Both pipes. One thread receives; any may send. Nothing blocks beyond the wait it is given."""

    def __init__(self, orders: IO[bytes], events: IO[bytes]) -> None:
        self._orders = orders
        self._events = events
        self._waiting: deque[Event] = deque()
        self._rest = b""
        self._hung_up = False
        # A guard that is stopped by a signal must not stop its owner.
        os.set_blocking(orders.fileno(), False)
        os.set_blocking(events.fileno(), False)

    @property
    def hung_up(self) -> bool:
        """Tell whether the guard has ended and all it said has been received."""
        return self._hung_up and not self._waiting

    def send(self, line: bytes, wait_s: float = 0.0) -> bool:
        """Write a line; return whether all of it was taken within some wall seconds."""
        deadline_s = time.monotonic() + wait_s
        rest = line
        while rest:
            try:
                rest = rest[os.write(self._orders.fileno(), rest) :]
            except BlockingIOError:
                if not _wait_for(self._orders, _WRITABLE, deadline_s - time.monotonic()):
                    return False
            except (OSError, ValueError):
                # The guard is gone, or the link was closed.
                return False
        return True

    def receive(self, wait_s: float = 0.0) -> Event | None:
        """Return the next event, after waiting some wall seconds for one; None if there is none."""
        if not self._waiting and not self._hung_up and _wait_for(self._events, _READABLE, wait_s):
            chunk = os.read(self._events.fileno(), _READ_BYTES)
            self._hung_up = not chunk
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._waiting.extend(event for line in lines if (event := parse_event(line)))
        return self._waiting.popleft() if self._waiting else None

    def close(self) -> None:
        """Close both pipes, which tells a guard that still runs to end its tree."""
        self._hung_up = True
        self._orders.close()
        self._events.close()


def _wait_for(file: IO[bytes], event: int, wait_s: float) -> bool:
    poller = select.poll()
    poller.register(file.fileno(), event)
    return bool(poller.poll(max(0.0, wait_s) * 1000))


class Heartbeat:
    """A thread that gives signs of life over a link until it is told to end, or the guard has."""

    def __init__(self, link: GuardLink, period_s: float) -> None:
        self._link = link
        self._period_s = period_s
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="guard heartbeat", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End the thread. Must come before the link is closed, or it could write to a stranger."""
        self._enough.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._enough.wait(self._period_s):
            # A full pipe is no reason to end: the guard may be stopped for a while.
            self._link.send(guard.HEARTBEAT)
