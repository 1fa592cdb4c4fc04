"""Time as the host under test lives it: real, faster than life, or simulated."""

import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock in the host's own seconds. Safe to share between threads."""

    def now_s(self) -> float:
        """Return the time; it never goes back."""
        ...

    def sleep_s(self, duration_s: float) -> None:
        """Block for a span of the host's time."""
        ...

    def real_s(self, duration_s: float) -> float:
        """Return how long a span of the host's time takes on the wall, to wait on a socket."""
        ...


class ScaledClock:
    """The wall clock, read `scale` times faster: 1 is real life."""

    def __init__(self, scale: float = 1.0) -> None:
        if scale <= 0:
            raise ValueError(f"a clock cannot run at {scale} times real time")
        self.scale = scale
        self._origin_s = time.monotonic()

    def now_s(self) -> float:
        """Return the host's seconds since the clock was made."""
        return (time.monotonic() - self._origin_s) * self.scale

    def sleep_s(self, duration_s: float) -> None:
        """Block for a span of the host's time."""
        time.sleep(max(0.0, self.real_s(duration_s)))

    def real_s(self, duration_s: float) -> float:
        """Return the same span in wall seconds."""
        return duration_s / self.scale


class SimulatedClock:
    """A clock that moves only when somebody sleeps on it."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now_s(self) -> float:
        """Return the simulated time."""
        return self._now_s

    def sleep_s(self, duration_s: float) -> None:
        """Move the time on, at once."""
        self._now_s += max(0.0, duration_s)

    def real_s(self, duration_s: float) -> float:
        """Return zero: simulated time costs none."""
        return 0.0


def host_s(clock: Clock, wall_s: float) -> float:
    """Return how much of the host's time passes in a span on the wall: none where it is simulated.

    The other way round than `Clock.real_s`.
    """
    wall_per_host_s = clock.real_s(1.0)
    return wall_s / wall_per_host_s if wall_per_host_s else 0.0
