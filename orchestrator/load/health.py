"""How the load client fares while it measures: late wake-ups and processor time."""

import asyncio
import time
from array import array

from infra.clock import Clock
from orchestrator.load.seam import ClientHealth

_TICK_WALL_S = 0.01


class HealthMeter:
    """Watches the loop that it runs on, until it is cancelled."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lags_s = array("d")
        self._wall_s = self._thread_s = self._process_s = 0.0

    async def watch(self) -> None:
        """Sleep in short ticks and note how late each ends."""
        begun = time.monotonic(), time.thread_time(), time.process_time()
        try:
            while True:
                before_s = time.monotonic()
                await asyncio.sleep(_TICK_WALL_S)
                self._lags_s.append(max(0.0, time.monotonic() - before_s - _TICK_WALL_S))
        finally:
            self._wall_s = time.monotonic() - begun[0]
            self._thread_s = time.thread_time() - begun[1]
            self._process_s = time.process_time() - begun[2]

    def health(self, several_events_fraction: float) -> ClientHealth:
        """Return the figures since the start of `watch`."""
        lags_s = sorted(self._lags_s)
        lag_wall_s = lags_s[int(0.99 * (len(lags_s) - 1))] if lags_s else 0.0
        wall_per_host_s = self._clock.real_s(1.0)
        wall_s = self._wall_s or 1.0
        return ClientHealth(
            lag_p99_s=lag_wall_s / wall_per_host_s if wall_per_host_s else 0.0,
            thread_cpu_fraction=self._thread_s / wall_s,
            process_cpu_fraction=self._process_s / wall_s,
            several_events_fraction=several_events_fraction,
        )
