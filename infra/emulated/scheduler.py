"""The scheduler of the emulated server: all running requests step together on one timetable.

Step k of a busy spell is due at its start plus the sum of the step times before it. A loop that
wakes late hands out everything that is due, so its lag never enters a rate.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field

from infra.clock import Clock
from infra.emulated.engine import EmulatedEngine, Generation, Step
from infra.emulated.logs import RANK, DecodeWindow, decode_line, die, prefill_line
from infra.emulated.scenario import OomMoment, OutOfMemory
from infra.emulated.scenario_file import ScenarioSource

_LEAST_SLEEP_S = 0.001
_BURST_S = 0.004
"""Wall time after which the loop lets the connections write."""
_SIMULATED_BURST_STEPS = 64
_PREFILL_TOKENS = 16384
_LAG_WARNING_S = 1.0


@dataclass(frozen=True, slots=True)
class Emission:
    """What one step gave one request, and when it was due, in host seconds."""

    tokens: tuple[int, ...]
    completion_tokens: int
    at_s: float
    finished: bool = False
    aborted: bool = False


@dataclass(eq=False, slots=True)
class Job:
    """A request on its way through the scheduler."""

    rid: str
    generation: Generation
    arrived_s: float
    emissions: list[Emission] = field(default_factory=list)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    held: list[int] = field(default_factory=list)
    """Tokens that wait for the stream interval."""

    async def take(self) -> list[Emission]:
        """Wait until there is something, and take all of it."""
        await self.ready.wait()
        self.ready.clear()
        taken, self.emissions = self.emissions, []
        return taken


@dataclass(slots=True)
class Totals:
    """Counters since the start or the last flush, as `/server_info` shows them."""

    verifies: int = 0
    verified_tokens: int = 0
    last_gen_throughput: float = 0.0
    steps: int = 0


class Scheduler:
    """Runs the engine for all requests. Every method belongs to the event loop's thread."""

    def __init__(
        self,
        engine: EmulatedEngine,
        clock: Clock,
        *,
        first_use_s: float = 0.0,
        scenario: ScenarioSource | None = None,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.totals = Totals()
        self.lag_s = 0.0
        """How far the loop was behind its timetable at worst, in host seconds."""
        self._first_use_s = first_use_s
        self._scenario = scenario or ScenarioSource(None)
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []
        self._touched: list[Job] = []
        self._wake = asyncio.Event()
        self._due_s = 0.0
        self._yielded_s = 0.0
        self._simulated = clock.real_s(1.0) == 0.0
        self._steps_since_yield = 0
        self._somebody_ended = False
        self._window = _Window(clock.now_s())

    @property
    def idle(self) -> bool:
        """Tell whether no request is waiting or running."""
        return not self._waiting and not self._running

    @property
    def remaining(self) -> list[str]:
        """List the requests that are not finished."""
        return [job.rid for job in [*self._waiting, *self._running]]

    @property
    def held_tokens(self) -> int:
        """Return what the running requests hold in the KV cache."""
        return sum(job.generation.context_tokens for job in self._running)

    def submit(self, rid: str, generation: Generation) -> Job:
        """Queue a request."""
        job = Job(rid, generation, self.clock.now_s())
        self._waiting.append(job)
        self._wake.set()
        return job

    def abort(self, rid: str, *, every: bool = False) -> int:
        """End the requests whose id starts with `rid`; return how many there were."""
        hit = [j for j in [*self._waiting, *self._running] if every or j.rid.startswith(rid)]
        for job in hit:
            self._remove(job)
            done = len(job.generation.output)
            job.emissions.append(
                Emission((), done, self.clock.now_s(), finished=True, aborted=True)
            )
            job.ready.set()
        return len(hit)

    def drop(self, job: Job) -> None:
        """Forget a request whose client has gone; nothing happens if it has ended."""
        self._remove(job)

    def flush(self) -> bool:
        """Empty the caches if nothing runs; tell whether that was so."""
        if not self.idle:
            return False
        self.engine.flush()
        self.totals = Totals(last_gen_throughput=self.totals.last_gen_throughput)
        self._window = _Window(self.clock.now_s())
        return True

    async def run(self) -> None:
        """Step for ever."""
        while True:
            if self.idle:
                self._signal()
                self._wake.clear()
                await self._wake.wait()
                self._due_s = self.clock.now_s()
            admitted = self._admit()
            if admitted:
                await self._prefill(admitted)
            elif self._running:
                await self._decode()

    def _remove(self, job: Job) -> None:
        if job in self._running:
            self._running.remove(job)
        elif job in self._waiting:
            self._waiting.remove(job)

    def _admit(self) -> list[Job]:
        """Take waiting requests in order, as far as places, KV room and a prefill batch go."""
        admitted: list[Job] = []
        settings = self.engine.settings
        room = self.engine.kv_room_tokens - sum(_reserved(job) for job in self._running)
        prompt_tokens = 0
        while self._waiting:
            job = self._waiting[0]
            room -= _reserved(job)
            prompt_tokens += len(job.generation.prompt)
            full = len(self._running) + len(admitted) >= settings.max_running_requests
            alone = not self._running and not admitted
            if full or (not alone and (room < 0 or prompt_tokens > _PREFILL_TOKENS)):
                break
            admitted.append(self._waiting.popleft())
        return admitted

    async def _prefill(self, admitted: list[Job]) -> None:
        before = len(self._running)
        self._running += admitted
        steps = self.engine.prefill([job.generation for job in admitted])
        took_s = steps[0].duration_s + self._first_use_s
        self._first_use_s = 0.0
        self._log_prefill(admitted, before, took_s)
        await self._wait_until_due(took_s)
        self._deliver(admitted, steps)

    async def _decode(self) -> None:
        jobs = list(self._running)
        await self._misbehave(jobs)
        steps = self.engine.decode([job.generation for job in jobs])
        await self._wait_until_due(steps[0].duration_s)
        self._deliver(jobs, steps)
        self._count(steps)

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
        if time.monotonic() - self._yielded_s > _BURST_S:
            self._signal()
            await asyncio.sleep(0)
            self._yielded_s = time.monotonic()

    async def _move_time(self, ahead_s: float) -> None:
        """Live through a step at once; let clients run when a request ended, and now and then."""
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
        for job, step in zip(jobs, steps, strict=True):
            if job not in self._running:
                continue
            generation = job.generation
            finished = generation.finished
            job.held += step.tokens
            if finished:
                self._running.remove(job)
                self._somebody_ended = True
            if finished or len(job.held) >= interval or len(generation.output) == 1:
                job.emissions.append(
                    Emission(tuple(job.held), len(generation.output), self._due_s, finished)
                )
                job.held = []
                self._touched.append(job)

    def _signal(self) -> None:
        for job in self._touched:
            job.ready.set()
        self._touched.clear()

    def _count(self, steps: list[Step]) -> None:
        drafts = self.engine.settings.draft_tokens - 1
        self._window.add(steps, drafts)
        self.totals.steps += 1
        if self._window.steps < self.engine.settings.decode_log_interval:
            return
        window = self._window.close(self._due_s)
        self._window = _Window(self._due_s)
        self.totals.verifies += window.verifies
        self.totals.verified_tokens += window.verified_tokens
        self.totals.last_gen_throughput = window.tokens / max(1e-9, window.duration_s)
        settings = self.engine.settings
        RANK.info(
            decode_line(
                window,
                running=len(steps),
                held=self.held_tokens,
                room=self.engine.kv_room_tokens,
                queued=len(self._waiting),
                graph=settings.cuda_graph and len(steps) <= settings.graph_max_batch,
            )
        )

    def _log_prefill(self, admitted: list[Job], before: int, took_s: float) -> None:
        cached = sum(job.generation.cached_tokens for job in admitted)
        new = sum(len(job.generation.prompt) for job in admitted) - cached
        RANK.info(
            prefill_line(
                new=len(admitted),
                new_tokens=new,
                cached=cached,
                usage=self.held_tokens / self.engine.kv_room_tokens,
                running=before,
                queued=len(self._waiting),
                rate=new / took_s,
            )
        )

    async def _misbehave(self, jobs: list[Job]) -> None:
        world = self._scenario.now
        if any(self._runs_out(rule, jobs) for rule in world.oom):
            self._signal()
            await asyncio.sleep(_BURST_S)
            gib = self.engine.truth.gpu_memory_gib
            die(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.17 GiB. "
                f"GPU 0 has a total capacity of {gib:.2f} GiB of which 612.00 MiB is free."
            )
        if limit := world.stream.stall_after_tokens:
            while any(len(job.generation.output) >= limit for job in self._running):
                self._signal()
                await asyncio.sleep(0.05)
                self._due_s = self.clock.now_s()

    def _runs_out(self, rule: OutOfMemory, jobs: list[Job]) -> bool:
        settings = self.engine.settings
        return (
            rule.moment is OomMoment.SERVING
            and len(jobs) >= rule.running_requests_from
            and self.held_tokens >= rule.context_tokens_from
            and settings.draft_tokens >= rule.draft_tokens_from
            and settings.mem_fraction >= rule.mem_fraction_from
        )


class _Window:
    """Counts decode steps until the next decode line."""

    def __init__(self, since_s: float) -> None:
        self._since_s = since_s
        self.steps = 0
        self._tokens = 0
        self._correct = 0
        self._proposed = 0
        self._verifies = 0
        self._verified = 0

    def add(self, steps: list[Step], drafts: int) -> None:
        self.steps += 1
        for step in steps:
            self._tokens += len(step.tokens)
            if step.verifies:
                self._correct += step.correct_drafts
                self._proposed += drafts
                self._verifies += 1
                self._verified += step.correct_drafts + 1

    def close(self, now_s: float) -> DecodeWindow:
        return DecodeWindow(
            self.steps,
            self._tokens,
            self._correct,
            self._proposed,
            self._verifies,
            self._verified,
            now_s - self._since_s,
        )


def _reserved(job: Job) -> int:
    return len(job.generation.prompt) + job.generation.limit_tokens
