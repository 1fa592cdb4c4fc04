"""The streaming load client: a closed loop of requests on an event loop of its own."""

import asyncio
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from infra.clock import Clock
from orchestrator.load.dialects import DIALECTS, Dialect
from orchestrator.load.flight import Flight
from orchestrator.load.health import HealthMeter
from orchestrator.load.http_stream import Target
from orchestrator.load.progress import ProgressMeter
from orchestrator.load.seam import ClientHealth, PassProgress, Sampling
from sweeps.prompts import Prompt
from sweeps.records import EndReason, PassRecord

_PROGRESS_WALL_S = 0.25
_PROBE_TOKENS = 4
PROBE = Prompt.of("Hello")
"""What is asked to see that a server generates."""


class StreamingClient:
    """The `LoadClient` for SGLang: `/v1/chat/completions` and `/generate` over loopback HTTP."""

    def __init__(
        self, clock: Clock, new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    ) -> None:
        self._clock = clock
        self._new_loop = new_loop or _fastest_loop()
        self._last_health: ClientHealth | None = None

    @property
    def last_health(self) -> ClientHealth | None:
        """Return how the client fared in the last pass; None before the first."""
        return self._last_health

    def run_pass(  # noqa: PLR0913 - each is a term of the load
        self,
        url: str,
        prompts: Sequence[Prompt],
        sampling: Sampling,
        *,
        concurrency: int,
        dialect: str,
        deadline_s: float,
        silence_s: float,
        on_progress: Callable[[PassProgress], None],
        should_stop: Callable[[], bool],
    ) -> PassRecord:
        """Send the prompts in a closed loop and return what came; see `LoadClient`."""
        if concurrency < 1:
            raise ValueError(f"a pass needs at least one stream, not {concurrency}")
        order = _Order.of(url, dialect, sampling, silence_s)
        running = _Pass(order, prompts, concurrency, self._clock)
        meter = HealthMeter(self._clock)
        with _quiet_collector(), asyncio.Runner(loop_factory=self._new_loop) as runner:
            record = runner.run(running.run(deadline_s, meter, on_progress, should_stop))
        several = running.several_event_reads / max(1, running.event_reads)
        self._last_health = meter.health(several)
        return record

    def probe(self, url: str, dialect: str, deadline_s: float) -> bool:
        """Tell whether the server generates a token in time."""
        sampling = Sampling(max_tokens=_PROBE_TOKENS, ignore_eos=True)
        order = _Order.of(url, dialect, sampling, deadline_s)
        running = _Pass(order, [PROBE], 1, self._clock)
        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            record = runner.run(
                running.run(deadline_s, HealthMeter(self._clock), lambda _: None, lambda: False)
            )
        return any(r.end is EndReason.FINISHED and r.output_tokens for r in record.requests)


@dataclass(frozen=True, slots=True)
class _Order:
    """What every request of a pass has in common."""

    target: Target
    dialect: Dialect
    sampling: Sampling
    silence_s: float

    @classmethod
    def of(cls, url: str, dialect: str, sampling: Sampling, silence_s: float) -> "_Order":
        known = DIALECTS.get(dialect)
        if known is None:
            raise ValueError(f"no dialect {dialect!r}; there are {', '.join(DIALECTS)}")
        return cls(Target.of(url, known.path), known, sampling, silence_s)


class _Pass:
    """One pass: workers that take prompts in order, and a watcher that may end them all."""

    def __init__(
        self, order: _Order, prompts: Sequence[Prompt], concurrency: int, clock: Clock
    ) -> None:
        self.event_reads = 0
        self.several_event_reads = 0
        self._order = order
        self._prompts = iter(prompts)
        self._concurrency = concurrency
        self._clock = clock
        self._flights: list[Flight] = []
        self._meter = ProgressMeter(concurrency)
        self._stopped: EndReason | None = None

    async def run(
        self,
        deadline_s: float,
        meter: HealthMeter,
        on_progress: Callable[[PassProgress], None],
        should_stop: Callable[[], bool],
    ) -> PassRecord:
        loop = asyncio.get_running_loop()
        started_s = self._clock.now_s()
        wait_s = max(0.0, self._clock.real_s(deadline_s))
        timer = loop.call_later(wait_s, self._stop, EndReason.DEADLINE)
        ticker = loop.create_task(meter.watch())
        workers = [loop.create_task(self._work()) for _ in range(self._concurrency)]
        try:
            pending = set(workers)
            while pending:
                done, pending = await asyncio.wait(pending, timeout=_PROGRESS_WALL_S)
                for worker in done:
                    worker.result()
                on_progress(self._meter.progress(self._flights, self._clock.now_s() - started_s))
                if pending and should_stop():
                    self._stop(EndReason.CANCELLED)
        finally:
            timer.cancel()
            ticker.cancel()
            self._stop(EndReason.CANCELLED)
            await asyncio.gather(ticker, *workers, return_exceptions=True)
        return PassRecord(
            tuple(flight.record() for flight in self._flights),
            self._concurrency,
            started_s,
            self._clock.now_s(),
        )

    async def _work(self) -> None:
        order = self._order
        for prompt in self._prompts:
            if self._stopped is not None:
                return
            body = order.dialect.body(prompt, order.sampling)
            flight = Flight(order.target, order.dialect, self._clock, order.silence_s)
            self._flights.append(flight)
            await flight.fly(order.target.post(body))
            self.event_reads += flight.event_reads
            self.several_event_reads += flight.several_event_reads

    def _stop(self, reason: EndReason) -> None:
        if self._stopped is None:
            self._stopped = reason
            for flight in self._flights:
                flight.stop(reason)


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Keep what exists out of garbage collections, which would hold up the reads."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # not to be had on every platform
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
