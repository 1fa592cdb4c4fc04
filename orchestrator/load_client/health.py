"""How the load client fares while it measures: late wake-ups and processor time."""

import asyncio
import time
from array import array
from collections.abc import Callable, Sequence

from infra.clock import Clock
from orchestrator.load_client.seam import ClientHealth

_TICK_WALL_S = 0.01
_TICKS_PER_LOOK = 10


class HealthMeter:
    """Watches the loop that it runs on, until it is cancelled, and what waits to be read there."""

    def __init__(self, clock: Clock, unread_bytes: Callable[[], int] = lambda: 0) -> None:
        self._clock = clock
        self._look_unread_bytes = unread_bytes
        self._unread_bytes = array("q")
        self._lags_s = array("d")
        self._wall_s = self._thread_s = self._process_s = 0.0

    async def watch(self) -> None:
        """Sleep in short ticks and note how late each ends; after some, what is unread."""
        begun = time.monotonic(), time.thread_time(), time.process_time()
        try:
            while True:
                before_s = time.monotonic()
                await asyncio.sleep(_TICK_WALL_S)
                lag_s = max(0.0, time.monotonic() - before_s - _TICK_WALL_S)
                self._lags_s.append(lag_s)
                if lag_s > _TICK_WALL_S or len(self._lags_s) % _TICKS_PER_LOOK == 0:
                    self._unread_bytes.append(self._look_unread_bytes())
        finally:
            self._wall_s = time.monotonic() - begun[0]
            self._thread_s = time.thread_time() - begun[1]
            self._process_s = time.process_time() - begun[2]

    def health(self, several_events_fraction: float) -> ClientHealth:
        """Return the figures since the start of `watch`."""
        lag_wall_s = _p99(self._lags_s)
        wall_per_host_s = self._clock.real_s(1.0)
        wall_s = self._wall_s or 1.0
        return ClientHealth(
            lag_p99_s=lag_wall_s / wall_per_host_s if wall_per_host_s else 0.0,
            thread_cpu_fraction=self._thread_s / wall_s,
            process_cpu_fraction=self._process_s / wall_s,
            several_events_fraction=several_events_fraction,
            unread_p99_bytes=int(_p99(self._unread_bytes)),
        )


def _p99(values: Sequence[float]) -> float:
    """Return the value that 1 % are above; 0 of none."""
    return sorted(values)[int(0.99 * (len(values) - 1))] if values else 0.0
