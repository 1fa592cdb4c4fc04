"""The scheduler of the emulated server: all running requests step together on one timetable.

Step k of a busy spell is due at its start plus the sum of the step times before it. A loop that
wakes late hands out everything that is due, so its lag never enters a rate.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NoReturn

from infra.clock import Clock
from infra.emulated.engine import EmulatedEngine, Generation, Step
from infra.emulated.logs import RANK, Pressure, decode_line, die, prefill_line, retract_line
from infra.emulated.scenario import HEALTHY, OomMoment, OutOfMemory, Scenario
from infra.emulated.scenario_file import ScenarioSource
from infra.emulated.serving.admission import Admission
from infra.emulated.serving.jobs import Emission, Job, Totals, Watcher, Window
from infra.emulated.versions import Manners, manners
from infra.sglang.flags import NEWEST

_ABORTED = (
    "Fatal Python error: Aborted\nterminate called after throwing an instance of 'c10::Error'"
)
_LEAST_SLEEP_S = 0.001
_BURST_S = 0.004
"""Wall time after which the loop lets the connections write."""
_LATE_S, _LATE_BURST_S = 0.05, 0.02
"""Once the loop is late by so much wall time, fewer writes let it catch up."""
_SIMULATED_BURST_STEPS = 64
_LAG_WARNING_S = 1.0
_STALL_LOOK_S = 0.05


class Scheduler:
    """Runs the engine for all requests. Every method belongs to the event loop's thread."""

    def __init__(
        self,
        engine: EmulatedEngine,
        clock: Clock,
        *,
        first_use_s: float = 0.0,
        scenario: ScenarioSource | None = None,
        how: Manners | None = None,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.totals = Totals()
        self.hung = False
        """True: no further step is made, as when a rank is gone and nobody has noticed."""
        self.lag_s = 0.0
        """How far the loop was behind its timetable at worst, in host seconds."""
        self.on_worker_lost: Callable[[], None] = _nothing
        """Called when the scenario lets a scheduler process die unnoticed."""
        self.on_worker_aborted: Callable[[], None] | None = None
        """Called when the scenario lets a scheduler process abort in native code; None: it fails
        as by any other exception."""
        self.on_failed: Callable[[str], object] = die
        """Called with the exception that ends the server."""
        self.watcher: Watcher | None = None
        self._how = how or manners(NEWEST)
        self.scenario = scenario or ScenarioSource(None)
        self._slow_left = max(1, self.scenario.now.speed.slow_requests)
        self._slow_share_s = first_use_s / self._slow_left
        self._admission = Admission(engine.settings, engine.kv_room_tokens)
        self.passes = 0
        """Forwards since the start."""
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []
        self._touched: list[Job] = []
        self._wake = asyncio.Event()
        self._due_s = 0.0
        self._yielded_s = 0.0
        self._simulated = clock.real_s(1.0) == 0.0
        self._steps_since_yield = 0
        self._somebody_ended = False
        self._alarm: tuple[float, asyncio.Event] | None = None
        self._window = Window(clock.now_s())
        self.look_at_s: float | None = None
        """When a client that takes steps by the spell next wants to look, in host seconds."""

    @property
    def idle(self) -> bool:
        """Tell whether no request is waiting or running."""
        return not self._waiting and not self._running

    @property
    def remaining(self) -> list[str]:
        """List the requests that are not finished."""
        return [job.rid for job in [*self._waiting, *self._running]]

    @property
    def running(self) -> int:
        """Return how many requests step together."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Return how many requests wait for a place."""
        return len(self._waiting)

    @property
    def held_tokens(self) -> int:
        """Return what the running requests hold in the KV cache."""
        return sum(job.generation.context_tokens for job in self._running)

    def submit(
        self,
        rid: str,
        generation: Generation,
        *,
        number: int = 0,
        streams: bool = False,
        ready: asyncio.Event | None = None,
    ) -> Job:
        """Queue a request. Requests with one `ready` are taken together."""
        job = Job(
            rid, generation, self.clock.now_s(), number, streams, ready=ready or asyncio.Event()
        )
        self._waiting.append(job)
        self._wake.set()
        return job

    def abort(self, rid: str, *, every: bool = False) -> int:
        """End a request, or every one; return how many there were."""
        hit = [j for j in [*self._waiting, *self._running] if every or j.rid == rid]
        for job in hit:
            self._end_early(job, "")
        return len(hit)

    def drop(self, job: Job) -> None:
        """Forget a request whose client has gone; nothing happens if it has ended."""
        if job in self._running or job in self._waiting:
            self._remove(job)
            if self.watcher is not None:
                self.watcher.ended(job, aborted=True)

    def flush(self) -> bool:
        """Empty the caches if nothing runs; tell whether that was so."""
        if not self.idle:
            return False
        self.engine.flush()
        self.totals = Totals(last_gen_throughput=self.totals.last_gen_throughput)
        self._window = Window(self.clock.now_s())
        return True

    def end(self) -> None:
        """End all requests, as the end of a process does; no further step is made."""
        self.hung = True
        self.abort("", every=True)
        if self._alarm:
            self._alarm[1].set()
            self._alarm = None

    def forget_totals(self) -> None:
        """Count the accept length anew."""
        self.totals.verifies = self.totals.verified_tokens = 0

    async def run(self) -> None:
        """Step for ever."""
        while True:
            if self.idle:
                self._signal()
                if self._alarm:
                    await self._ring(*self._alarm)
                    continue
                self._wake.clear()
                await self._wake.wait()
                self._due_s = self.clock.now_s()
                self._admission.reset()
            if self.hung:
                self._signal()
                await asyncio.Event().wait()
            admitted = (
                self._admission.admit(self._waiting, self._running) if self._waiting else None
            )
            if admitted:
                await self._prefill(admitted)
            elif self._runs_alone():
                await self._decode_alone(self._running[0])
            elif self._running:
                await self._decode()

    def _remove(self, job: Job) -> None:
        if job in self._running:
            self._running.remove(job)
        elif job in self._waiting:
            self._waiting.remove(job)

    def _end_early(self, job: Job, failure: str) -> None:
        self._remove(job)
        job.ended_s = self.clock.now_s()
        done = len(job.generation.output)
        job.emissions.append(
            Emission((), done, job.ended_s, finished=True, aborted=True, failure=failure)
        )
        job.ready.set()
        if self.watcher:
            self.watcher.ended(job, aborted=True)

    async def _prefill(self, admitted: list[Job]) -> None:
        before = len(self._running)
        self._running += admitted
        self.passes += 1
        self._start_clocks(admitted)
        world = self.scenario.now
        if world is not HEALTHY:
            await self._go_wrong(world, admitted)
        steps = self.engine.prefill([job.generation for job in admitted])
        took_s = steps[0].duration_s + self._first_use_s(admitted) + world.speed.spin_ms / 1000
        self._log_prefill(admitted, before, took_s)
        await self._wait_until_due(took_s)
        for job in admitted:
            job.prefilled_s = self._due_s
        self._deliver(admitted, steps)

    def _start_clocks(self, admitted: list[Job]) -> None:
        for job in admitted:
            if job.started_s is None:
                job.started_s = max(job.arrived_s, self._due_s)

    def _first_use_s(self, admitted: list[Job]) -> float:
        """Return what the first requests after a start pay for kernels that are not compiled."""
        if not self._slow_left:
            return 0.0
        slow = min(self._slow_left, sum(not job.generation.probe for job in admitted))
        self._slow_left -= slow
        return slow * self._slow_share_s

    async def _decode(self) -> None:
        self._make_room()
        jobs = list(self._running)
        if not jobs:
            return
        self.passes += 1
        world = self.scenario.now
        if world is not HEALTHY:
            await self._misbehave(world, jobs)
        steps = self.engine.decode([job.generation for job in jobs])
        await self._wait_until_due(steps[0].duration_s + world.speed.spin_ms / 1000)
        self._deliver(jobs, steps)
        self._count(steps)

    def _runs_alone(self) -> bool:
        """Tell whether a simulated request can run on with nothing that would meet it."""
        if self.look_at_s is None or not self._simulated:
            return False
        if len(self._running) != 1 or self._waiting or self._alarm:
            return False
        generation, settings = self._running[0].generation, self.engine.settings
        most_tokens = len(generation.prompt) + generation.limit_tokens + settings.draft_tokens
        fits = most_tokens <= self.engine.kv_room_tokens
        plain_world = self.scenario.now is HEALTHY and self.watcher is None
        return fits and plain_world and settings.stream_interval == 1

    async def _decode_alone(self, job: Job) -> None:
        """Live through all steps until the request ends or its client wants to look."""
        until_s = self.look_at_s or 0.0
        spell = self.engine.decode_alone(job.generation, self._due_s, until_s)
        self.passes += len(spell.times_s)
        self._due_s = spell.times_s[-1]
        self.clock.sleep_s(self._due_s - self.clock.now_s())
        finished = job.generation.finished
        if finished:
            self._finish(job)
        done = len(job.generation.output)
        job.emissions.append(Emission((), done, self._due_s, finished, spell=spell))
        self._touched.append(job)
        self._window.add_spell(spell, self.engine.settings.draft_tokens - 1)
        self.totals.steps += len(spell.times_s)
        self._close_window(running=1)
        self._signal()
        await asyncio.sleep(0)

    def _make_room(self) -> None:
        """Take away the places of the newest requests when the next step would not fit."""
        before = self._admission.ratio
        if self._admission.fits(self._running):
            self._admission.decay()
            return
        gone, hopeless = self._admission.retract(self._running)
        for job in gone:
            job.retractions += 1
        self._waiting.extend(gone)
        gained = sum(job.generation.context_tokens for job in gone)
        RANK.warning(retract_line(self._how, len(gone), gained, before, self._admission.ratio))
        if gone and self.watcher:
            self.watcher.retracted(gone)
        if hopeless:
            self._running.append(hopeless)
            self._end_early(hopeless, "Out of memory even after retracting all other requests.")

    async def _wait_until_due(self, duration_s: float) -> None:
        self._due_s += duration_s
        ahead_s = self._due_s - self.clock.now_s()
        if self._simulated:
            await self._move_time(ahead_s)
            return
        if ahead_s > 0:
            self._signal()
            await asyncio.sleep(max(_LEAST_SLEEP_S, self.clock.real_s(ahead_s)))
            self._yielded_s = time.monotonic()
            return
        self._note_lag(-ahead_s)
        late = self.clock.real_s(-ahead_s) > _LATE_S
        if time.monotonic() - self._yielded_s > (_LATE_BURST_S if late else _BURST_S):
            self._signal()
            await asyncio.sleep(0)
            self._yielded_s = time.monotonic()

    def alarm(self, at_s: float) -> asyncio.Event:
        """Return what is set at a time of a simulated clock, for one client at a time."""
        rung = asyncio.Event()
        self._alarm = (at_s, rung)
        self._wake.set()
        return rung

    async def _ring(self, at_s: float, rung: asyncio.Event) -> None:
        self._alarm = None
        self.clock.sleep_s(at_s - self.clock.now_s())
        rung.set()
        await asyncio.sleep(0)

    async def _move_time(self, ahead_s: float) -> None:
        """Live through a step at once; let clients run when a request ended, and now and then."""
        while self._alarm and self._alarm[0] <= self._due_s:
            await self._ring(*self._alarm)
            ahead_s = self._due_s - self.clock.now_s()
        self._steps_since_yield += 1
        if self._somebody_ended or self._steps_since_yield >= _SIMULATED_BURST_STEPS:
            self._somebody_ended = False
            self._steps_since_yield = 0
            self._signal()
            await asyncio.sleep(0)
        self.clock.sleep_s(ahead_s)

    def _note_lag(self, lag_s: float) -> None:
        if lag_s > _LAG_WARNING_S > self.lag_s:
            RANK.warning("Emulation is behind its timetable: the machine is too slow for its scale")
        self.lag_s = max(self.lag_s, lag_s)

    def _deliver(self, jobs: list[Job], steps: list[Step]) -> None:
        interval = self.engine.settings.stream_interval
        at_s, watcher = self._due_s, self.watcher
        running, touched = set(self._running), self._touched
        for job, step in zip(jobs, steps, strict=True):
            if job not in running:
                continue
            generation = job.generation
            done = len(generation.output)
            finished = done >= generation.limit_tokens
            tokens: Sequence[int] = step.tokens
            if interval > 1:
                job.held += tokens
                tokens = job.held
            if watcher:
                watcher.emitted(job, len(step.tokens), at_s)
            if finished:
                self._finish(job)
            if finished or interval == 1 or len(tokens) >= interval or done == 1:
                job.emissions.append(Emission(tuple(tokens), done, at_s, finished))
                job.held = []
                touched.append(job)

    def _finish(self, job: Job) -> None:
        self._running.remove(job)
        self._somebody_ended = True
        job.ended_s = self._due_s
        if self.watcher:
            self.watcher.ended(job, aborted=False)

    def _signal(self) -> None:
        for job in self._touched:
            job.ready.set()
        self._touched.clear()

    def _count(self, steps: list[Step]) -> None:
        settings = self.engine.settings
        self._window.add(steps, settings.draft_tokens - 1)
        self.totals.steps += 1
        self._close_window(len(steps))

    def _close_window(self, running: int) -> None:
        settings = self.engine.settings
        if self._window.steps < settings.decode_log_interval:
            return
        window = self._window.close(self._due_s)
        self._window = Window(self._due_s)
        self.totals.verifies += window.verifies
        self.totals.verified_tokens += window.verified_tokens
        self.totals.last_gen_throughput = window.tokens / max(1e-9, window.duration_s)
        graph = settings.cuda_graph and running <= settings.graph_max_batch
        RANK.info(decode_line(self._how, window, self._pressure(running), settings, graph=graph))
        if self.watcher:
            self.watcher.decoded(window, graph=graph)

    def _pressure(self, running: int) -> Pressure:
        held, room = self.held_tokens, self.engine.kv_room_tokens
        return Pressure(running, len(self._waiting), held, held / room, self.passes)

    def _log_prefill(self, admitted: list[Job], before: int, took_s: float) -> None:
        cached = sum(job.generation.cached_tokens for job in admitted)
        new = sum(job.generation.context_tokens for job in admitted) - cached - len(admitted)
        RANK.info(
            prefill_line(
                self._how,
                self._pressure(before),
                new=len(admitted),
                new_tokens=new,
                cached=cached,
                rate=new / took_s,
            )
        )
        if self.watcher:
            self.watcher.prefilled(admitted, new, cached)

    async def _go_wrong(self, world: Scenario, admitted: list[Job]) -> None:
        """Do what the scenario has for the requests that start now."""
        faults = world.faults
        numbers = {job.number for job in admitted} - {0}
        self.engine.misverifies = world.speed.corrupt_verify
        if faults.die_at_request in numbers:
            await self._fail("RuntimeError: CUDA error: an illegal memory access was encountered")
        if faults.abort_at_request in numbers:
            if self.on_worker_aborted is None:
                await self._fail(_ABORTED)
            await self._let_write()
            self.on_worker_aborted()
            self.hung = True
        if faults.worker_dies_at_request in numbers:
            self.on_worker_lost()
            self.hung = True
        if faults.hang_at_request in numbers:
            self.hung = True
        if self.hung:
            await self._let_write()
            await asyncio.Event().wait()

    async def _misbehave(self, world: Scenario, jobs: list[Job]) -> None:
        self.engine.misverifies = world.speed.corrupt_verify
        if any(self._runs_out(rule, jobs) for rule in world.oom):
            gib = self.engine.truth.gpu_memory_gib
            await self._fail(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.17 GiB. "
                f"GPU 0 has a total capacity of {gib:.2f} GiB of which 612.00 MiB is free."
            )
        limit = world.stream.stall_after_tokens
        if limit and not world.stream.request:
            while any(len(job.generation.output) >= limit for job in self._running):
                self._signal()
                await asyncio.sleep(_STALL_LOOK_S)
                self._due_s = self.clock.now_s()

    async def _fail(self, error: str) -> NoReturn:
        """End the server; where its process outlives it, nothing more is done here."""
        await self._let_write()
        self.on_failed(error)
        await asyncio.Event().wait()
        raise AssertionError("nothing sets it")

    async def _let_write(self) -> None:
        """Let the connections have what is due before it is too late."""
        self._signal()
        await asyncio.sleep(_BURST_S)

    def _runs_out(self, rule: OutOfMemory, jobs: list[Job]) -> bool:
        settings = self.engine.settings
        return (
            rule.moment is OomMoment.SERVING
            and len(jobs) >= rule.running_requests_from
            and self.held_tokens >= rule.context_tokens_from
            and settings.draft_tokens >= rule.draft_tokens_from
            and settings.mem_fraction >= rule.mem_fraction_from
        )


def _nothing() -> None:
    """Stand for a process that this form of the emulation does not have."""
