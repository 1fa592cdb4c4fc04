"""The streaming load client: the requests of a pass on an event loop of its own."""

import asyncio
import gc
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from infra.clock import Clock
from infra.sglang.server_keys import NO_KEYS, ServerKeys
from orchestrator.load_client.arrivals import Arrivals
from orchestrator.load_client.flight import CANNOT_CONNECT, Flight, Order
from orchestrator.load_client.health import HealthMeter
from orchestrator.load_client.progress import ProgressMeter
from orchestrator.load_client.seam import ClientHealth, PassProgress, ProbeAnswer, Sampling
from orchestrator.load_client.tally import NO_COUNTS
from sweeps.prompts import Prompt
from sweeps.records import EndReason, PassRecord, RequestRecord

_UNSPOKEN = re.compile(rf"HTTP (?:400|404|405|422|501)\b|{re.escape(NO_COUNTS)}")
_PROGRESS_WALL_S = 0.25
_PROBE_TOKENS = 4
PROBE = Prompt.of("Hello")
"""What is asked to see that a server generates."""


class StreamingClient:
    """The `LoadClient` for SGLang: `/v1/chat/completions` and `/generate` over loopback HTTP."""

    def __init__(
        self,
        clock: Clock,
        new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
        keys: ServerKeys = NO_KEYS,
    ) -> None:
        self._clock = clock
        self._new_loop = new_loop or _fastest_loop()
        self._keys = keys
        self._last_health: ClientHealth | None = None

    @property
    def last_health(self) -> ClientHealth | None:
        """Return how the client fared in the last pass; None before the first."""
        return self._last_health

    def bearing(self, keys: ServerKeys) -> "StreamingClient":
        """Return a client that sends the keys of a server."""
        return StreamingClient(self._clock, self._new_loop, keys)

    def run_pass(  # noqa: PLR0913 - each is a term of the load
        self,
        url: str,
        prompts: Iterable[Prompt],
        sampling: Sampling,
        *,
        concurrency: int,
        arrivals: Arrivals | None = None,
        dialect: str,
        deadline_s: float,
        silence_s: float,
        on_progress: Callable[[PassProgress], None],
        should_stop: Callable[[], bool],
    ) -> PassRecord:
        """Send the prompts and return what came; see `LoadClient`."""
        if concurrency < 1:
            raise ValueError(f"a pass needs at least one stream, not {concurrency}")
        order = Order.of(url, dialect, sampling, silence_s, self._keys)
        running = _Pass(order, prompts, concurrency, self._clock, arrivals)
        meter = HealthMeter(self._clock, running.unread_bytes)
        with _quiet_collector(), asyncio.Runner(loop_factory=self._new_loop) as runner:
            runner.run(running.run(deadline_s, meter, on_progress, should_stop))
        several = running.several_event_reads / max(1, running.event_reads)
        self._last_health = health = meter.health(several)
        return running.record(health.lag_p99_s)

    def probe(self, url: str, dialect: str, deadline_s: float) -> ProbeAnswer:
        """Tell whether the server generates a token in time."""
        sampling = Sampling(max_tokens=_PROBE_TOKENS, ignore_eos=True)
        order = Order.of(url, dialect, sampling, deadline_s, self._keys)
        running = _Pass(order, [PROBE], 1, self._clock)
        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            runner.run(
                running.run(deadline_s, HealthMeter(self._clock), lambda _: None, lambda: False)
            )
        return _probed(running.record().requests)


class _Pass:
    """One pass: workers that take prompts in order, and a watcher that may end them all."""

    def __init__(
        self,
        order: Order,
        prompts: Iterable[Prompt],
        concurrency: int,
        clock: Clock,
        arrivals: Arrivals | None = None,
    ) -> None:
        self.event_reads = 0
        self.several_event_reads = 0
        self._order = order
        self._prompts = iter(prompts)
        self._concurrency = concurrency
        self._clock = clock
        self._arrivals = arrivals
        self._aloft: set[Flight] = set()
        self._flights: list[Flight] = []
        self._meter = ProgressMeter(concurrency)
        self._stopped: EndReason | None = None
        self._left_prompts = False
        self._halt = asyncio.Event()
        self._started_s = self._ended_s = 0.0

    async def run(
        self,
        deadline_s: float,
        meter: HealthMeter,
        on_progress: Callable[[PassProgress], None],
        should_stop: Callable[[], bool],
    ) -> None:
        """Fly all requests to their ends.

        It returns nothing: `asyncio.Runner` has the result of its main task written out as text
        when it puts the signal handler back (CPython 3.11), and a record is long.
        """
        loop = asyncio.get_running_loop()
        started_s = self._started_s = self._clock.now_s()
        wait_s = max(0.0, self._clock.real_s(deadline_s))
        timer = loop.call_later(wait_s, self._stop, EndReason.DEADLINE)
        ticker = loop.create_task(meter.watch())
        if self._arrivals is None:
            works = [self._work() for _ in range(self._concurrency)]
        else:
            works = [self._work_to_schedule(self._arrivals)]
        workers = [loop.create_task(work) for work in works]
        try:
            pending = set(workers)
            while pending:
                done, pending = await asyncio.wait(pending, timeout=_PROGRESS_WALL_S)
                for worker in done:
                    worker.result()
                self._catch_up()
                on_progress(self._meter.progress(self._flights, started_s, self._clock.now_s()))
                if pending and should_stop():
                    self._stop(EndReason.CANCELLED)
        finally:
            timer.cancel()
            ticker.cancel()
            self._stop(EndReason.CANCELLED)
            await asyncio.gather(ticker, *workers, return_exceptions=True)
            self._ended_s = self._clock.now_s()

    def record(self, client_lag_s: float | None = None) -> PassRecord:
        """Return what came, once the pass is over."""
        requests = tuple(flight.record() for flight in self._flights)
        return PassRecord(
            requests, self._concurrency, self._started_s, self._ended_s, client_lag_s=client_lag_s,
            left_prompts=self._left_prompts and self._stopped is EndReason.DEADLINE,
        )  # fmt: skip

    def _catch_up(self) -> None:
        """Count what slow streams have brought; fast ones count by themselves, and in turns."""
        known_s = self._clock.now_s() - _PROGRESS_WALL_S / (self._clock.real_s(1.0) or 1.0)
        for flight in tuple(self._aloft):
            flight.catch_up(known_s)

    def unread_bytes(self) -> int:
        """Return how much has come on all streams that was not read yet."""
        return sum(flight.unread_bytes for flight in self._aloft)

    async def _work(self) -> None:
        for prompt in self._prompts:
            if self._stopped is not None:
                self._left_prompts = True
                return
            await self._fly(self._book(prompt))

    async def _work_to_schedule(self, arrivals: Arrivals) -> None:
        """Book each request when it is due. It flies at once, or when one of the others is over."""
        slots = asyncio.Semaphore(self._concurrency)
        async with asyncio.TaskGroup() as group:
            for prompt, offset_s in zip(self._prompts, arrivals.offsets_s(), strict=False):
                due_s = self._started_s + offset_s
                await self._wait_until(due_s)
                if self._stopped is not None:
                    self._left_prompts = True
                    return
                group.create_task(self._fly_in_turn(self._book(prompt, due_s), slots))

    async def _fly_in_turn(self, flight: Flight, slots: asyncio.Semaphore) -> None:
        async with slots:
            if not flight.over:
                await self._fly(flight)

    def _book(self, prompt: Prompt, scheduled_s: float | None = None) -> Flight:
        flight = Flight(self._order, prompt, self._clock, len(self._flights), scheduled_s)
        self._flights.append(flight)
        return flight

    async def _fly(self, flight: Flight) -> None:
        self._aloft.add(flight)
        try:
            await flight.fly()
        finally:
            self._aloft.discard(flight)
        self.event_reads += flight.event_reads
        self.several_event_reads += flight.several_event_reads

    async def _wait_until(self, due_s: float) -> None:
        """Sleep until a time has come or the pass is stopped; a loop's timers may be early."""
        while self._stopped is None and (left_s := due_s - self._clock.now_s()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._halt.wait(), self._clock.real_s(left_s))

    def _stop(self, reason: EndReason) -> None:
        if self._stopped is None:
            self._stopped = reason
            self._halt.set()
            for flight in self._flights:
                flight.stop(reason)


def _probed(requests: Sequence[RequestRecord]) -> ProbeAnswer:
    for request in requests:
        if request.end is EndReason.FINISHED:
            return ProbeAnswer()
        if request.end is EndReason.BROKEN:
            unspoken = _UNSPOKEN.match(request.detail) is not None
            answered = not request.detail.startswith(CANNOT_CONNECT)
            return ProbeAnswer(request.detail, answered, unspoken)
        return ProbeAnswer(request.detail or "nothing came in time", answered=False)
    return ProbeAnswer("nothing was asked", answered=False)


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
