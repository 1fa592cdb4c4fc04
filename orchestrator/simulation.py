"""Whole sweeps on a simulated clock: emulated servers in this process, thousands of trials an hour.

Everything but the wire is the real thing: the trial, the search, the engine and its scheduler.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.clock import SimulatedClock
from infra.emulated.drafting.remembered import KnownDrafts
from infra.emulated.in_process import InProcessHost, InProcessServer
from infra.emulated.serving.jobs import Emission, Job
from infra.emulated.serving.requests import Asked, read_chat, read_generate
from infra.emulated.serving.validation import BadRequestError, read_body
from infra.emulated.text import render_all
from infra.emulated.versions import manners
from infra.engines import ENGINES
from infra.gpus import Gpu, GpuProcess
from infra.host import CleanReport, Reservation
from infra.sglang.control import ControlError, unproved_flush
from infra.sglang.protocol import CHAT, GENERATE, Feature
from infra.sglang.server_keys import ServerKeys
from orchestrator.job import StopOrder, TrialProgress
from orchestrator.load_client.arrivals import Arrivals
from orchestrator.load_client.client import PROBE
from orchestrator.load_client.dialects import DIALECTS
from orchestrator.load_client.flight import CANNOT_CONNECT
from orchestrator.load_client.progress import ProgressMeter
from orchestrator.load_client.seam import (
    BLOCK_S,
    ClientHealth,
    PassProgress,
    ProbeAnswer,
    Sampling,
)
from orchestrator.load_client.tally import NO_COUNTS, Tally, aborted_by
from orchestrator.sweep_run import SweepRun
from orchestrator.trial import run_trial
from orchestrator.trial_seam import Tools
from sweeps.blocks import Curve, ends_s, running_curve
from sweeps.hosts import EngineName
from sweeps.prompts import Prompt
from sweeps.records import EndReason, PassRecord, RequestRecord

logger = logging.getLogger(__name__)

_READERS = {CHAT: read_chat, GENERATE: read_generate}
_PROBE_TOKENS = 4
_CLOSED = "the connection closed in the middle of the answer"


def drive(run: SweepRun) -> None:
    """Run a sweep on emulated hosts to its end, one trial after another in this thread.

    Raises ValueError if a host of the sweep is not emulated.
    """
    for host in run.sweep.hosts:
        if not host.emulated:
            raise ValueError(f"host {host.name} is real: only emulated hosts can be simulated")
    known = KnownDrafts(run.drafts_path)
    tools = {host.name: simulated_tools(known) for host in run.sweep.hosts}
    while not run.is_over:
        for host in run.sweep.hosts:
            job = run.next_job(host)
            if job is not None:
                run.on_result(run_trial(job, tools[host.name], _Inline(run)))
    try:
        known.save()
    except OSError as error:
        logger.warning("drafts are not kept for other sweeps: %s", error)


def simulated_tools(known: KnownDrafts | None = None) -> Tools:
    """Fill the seams with a host that lives on a clock of its own; `known` drafts cost nothing."""
    clock = SimulatedClock()
    host = InProcessHost(clock, known)

    def control(url: str, answer_s: float, keys: ServerKeys) -> SimulatedControl:
        return SimulatedControl(host, url)

    engine = ENGINES[EngineName.EMULATED]
    client, premises = SimulatedClient(host, clock), SimulatedPremises(host)
    return Tools(host, engine, clock, client, control, premises, _NoGpus())


class _NoGpus:
    """Servers of this process hold no memory that one could see."""

    def list_gpus(self) -> tuple[Gpu, ...]:
        return ()

    def gpu_processes(self) -> tuple[GpuProcess, ...]:
        return ()


class SimulatedPremises:
    """Ports of servers that listen nowhere, and of which nothing can be left."""

    def __init__(self, host: InProcessHost) -> None:
        self._host = host

    @contextmanager
    def reserve(self, sweep: str, trial: str, folder: Path) -> Iterator[Reservation]:
        """Lend two ports."""
        yield Reservation(sweep, trial, self._host.free_port(), self._host.free_port(), folder)

    def prove_clean(self, reservation: Reservation, deadline_s: float) -> CleanReport:
        """Report that nothing is left."""
        return CleanReport()


class _Inline:
    """Follows a trial from its own thread: an order is there before the trial goes on."""

    def __init__(self, run: SweepRun) -> None:
        self._run = run
        self._order: StopOrder | None = None

    def report(self, progress: TrialProgress) -> None:
        self._order = self._order or self._run.on_progress(progress)

    def order(self) -> StopOrder | None:
        return self._order


class SimulatedControl:
    """The control of a server of this process."""

    def __init__(self, host: InProcessHost, url: str) -> None:
        self._host, self._url = host, url

    def is_healthy(self) -> bool:
        """Tell whether the server is loaded; the first look after that lets it warm up."""
        server = self._host.server(self._url)
        if server is not None:
            server.warm_up()
        return server is not None and not server.failure

    def info(self) -> Mapping[str, object]:
        """Return the server's own account. Raises ControlError."""
        return self._server().info()

    def counters(self) -> Mapping[str, float]:
        """Return none: servers of this process export no metrics."""
        return {}

    def flush(self) -> str:
        """Empty the caches. Raises ControlError."""
        server = self._server()
        if not server.scheduler.flush():
            raise ControlError("/flush_cache was refused: requests are running")
        return unproved_flush(server.info())

    def abort_all(self) -> None:
        """End all running requests."""
        server = self._host.server(self._url)
        if server is not None:
            server.scheduler.abort("", every=True)

    def _server(self) -> InProcessServer:
        server = self._host.server(self._url)
        if server is None or server.failure:
            raise ControlError(f"{self._url} did not answer")
        return server


class SimulatedClient:
    """The `LoadClient` of servers of this process: exact times, and no time of its own."""

    def __init__(self, host: InProcessHost, clock: SimulatedClock) -> None:
        self._host, self._clock = host, clock

    @property
    def last_health(self) -> ClientHealth | None:
        """Return None: a client without a wire distorts nothing."""
        return None

    def bearing(self, keys: ServerKeys) -> "SimulatedClient":
        """Return itself: there is no wire, and no gate."""
        return self

    def run_pass(  # noqa: PLR0913 - each is a term of the load
        self,
        url: str,
        prompts: Iterable[Prompt],
        sampling: Sampling,
        *,
        concurrency: int,
        dialect: str,
        deadline_s: float,
        silence_s: float,
        on_progress: Callable[[PassProgress], None],
        should_stop: Callable[[], bool],
        arrivals: Arrivals | None = None,
    ) -> PassRecord:
        """Send the prompts; see `LoadClient`. Simulated servers never fall silent.

        Progress comes once in each block of the host's time.
        """
        if concurrency < 1:
            raise ValueError(f"a pass needs at least one stream, not {concurrency}")
        server = self._host.server(url)
        if server is None or dialect not in _READERS:
            raise ValueError(f"no server at {url}, or no dialect {dialect}")
        ask = _asker(server, dialect, sampling)
        told = _Told.by(server, dialect, ids=sampling.token_ids)
        running = _Pass(server, concurrency, self._clock.now_s() + deadline_s, told, arrivals)
        requests = ((prompt.key, ask(prompt)) for prompt in prompts)
        return server.run(running.run(requests, on_progress, should_stop))

    def probe(self, url: str, dialect: str, deadline_s: float) -> ProbeAnswer:
        """Tell whether the server generates a token in time."""
        record = self.run_pass(
            url,
            [PROBE],
            Sampling(max_tokens=_PROBE_TOKENS, ignore_eos=True),
            concurrency=1,
            dialect=dialect,
            deadline_s=deadline_s,
            silence_s=deadline_s,
            on_progress=lambda _: None,
            should_stop=lambda: False,
        )
        finished = any(request.end is EndReason.FINISHED for request in record.requests)
        return ProbeAnswer("" if finished else "nothing came in time", answered=finished)


def _asker(
    server: InProcessServer, dialect: str, sampling: Sampling
) -> Callable[[Prompt], Asked | str]:
    """Make what turns a prompt into a request by way of the body that HTTP would carry."""

    def ask(prompt: Prompt) -> Asked | str:
        body = read_body(DIALECTS[dialect].body(prompt, sampling))
        try:
            return _READERS[dialect](body, server.engine)
        except BadRequestError as error:
            return str(error)

    return ask


@dataclass(frozen=True, slots=True)
class _Told:
    """What the streams of a server tell of a request, by its version and the dialect."""

    counts: bool
    """Tokens, chunk by chunk."""
    verifies: bool
    ids: bool

    @classmethod
    def by(cls, server: InProcessServer, dialect: str, *, ids: bool) -> "_Told":
        how = manners(server.launch.emulation.version)
        if dialect != CHAT:
            return cls(counts=True, verifies=how.has(Feature.VERIFY_COUNT), ids=ids)
        return cls(
            counts=how.has(Feature.CONTINUOUS_USAGE),
            verifies=how.has(Feature.CHAT_VERIFY_COUNT),
            ids=ids and how.has(Feature.CHAT_IDS),
        )


class _Flight:
    """One request on its way; what a stream would have brought, with the exact times."""

    def __init__(
        self, prompt_key: str, sent_s: float, told: _Told, scheduled_s: float | None = None
    ) -> None:
        self.tally = Tally(keeps_ids=told.ids)
        self._told = told
        self.end: EndReason | None = None
        self._prompt_key = prompt_key
        self._scheduled_s = scheduled_s
        self._sent_s = self._ended_s = sent_s
        self._ends: tuple[float, float] | None = None
        self._detail = ""
        self._text = ""

    def take(self, emissions: Sequence[Emission], until_s: float) -> bool:
        """Count what is due by then; tell whether the request is over."""
        for emission in emissions:
            if not self._told.counts and not emission.aborted:
                self.finish(min(emission.at_s, until_s), EndReason.BROKEN, NO_COUNTS)
                return True
            if emission.spell is not None:
                times_s, counts = emission.spell.times_s, emission.spell.completion_tokens
                due = bisect_right(times_s, until_s)
                self.tally.count_each(times_s[:due], counts[:due])
            if emission.at_s > until_s:
                self.finish(until_s, EndReason.DEADLINE)
                return True
            self.tally.now_s = emission.at_s
            if emission.aborted:
                self.finish(emission.at_s, EndReason.BROKEN, aborted_by(emission.failure))
            self.tally.count(emission.completion_tokens)  # says nothing new after a spell
            if emission.finished:
                self.finish(emission.at_s, EndReason.FINISHED)
        return self.end is not None

    def finish(self, ended_s: float, end: EndReason, detail: str = "") -> None:
        """End the request, once."""
        if self.end is None:
            self.end, self._ended_s, self._detail = end, ended_s, detail
            self._ends = ends_s(self.tally.times_s, ended_s, end)

    def note(self, asked: Asked) -> None:
        """Take what the server tells at the end of a request."""
        generation = asked.generation
        self.tally.prompt_tokens = len(generation.prompt)
        self.tally.cached_tokens = generation.cached_tokens
        if self.end is EndReason.FINISHED and self._told.verifies:
            self.tally.verify_steps = generation.verifies or None
        self._text = render_all(generation.output[: self.tally.output_tokens])
        if self.tally.keeps_ids:
            self.tally.output_ids = generation.output[: self.tally.output_tokens]
            self.tally.prompt_ids = list(generation.prompt)

    def curve(self) -> Curve:
        """Return the tokens over time."""
        return self._curve(self.tally.tokens)

    def chunk_curve(self) -> Curve:
        """Return the chunks over time."""
        return self._curve(self.tally.chunks)

    def record(self) -> RequestRecord:
        """Return the record of a request that has ended."""
        tally = self.tally
        return RequestRecord(
            sent_s=self._sent_s,
            times_s=tuple(tally.times_s),
            tokens=tuple(tally.tokens),
            end=self.end or EndReason.CANCELLED,
            ended_s=self._ended_s,
            detail=self._detail,
            finish_reason="length" if self.end is EndReason.FINISHED else "",
            prompt_tokens=tally.prompt_tokens,
            cached_tokens=tally.cached_tokens,
            verify_steps=tally.verify_steps,
            text=self._text,
            chunks=tuple(tally.chunks),
            scheduled_s=self._scheduled_s,
            prompt_key=self._prompt_key,
            output_ids=tuple(self.tally.output_ids),
            prompt_ids=tuple(self.tally.prompt_ids),
        )

    def _curve(self, counts: Sequence[int]) -> Curve:
        return running_curve(self._sent_s, self.tally.times_s, counts, self._ends)


Asking = Iterator[tuple[str, Asked | str]]
"""The key of each prompt, with its request or why there is none."""


class _Pass:
    """The requests of a pass; its workers take prompts in order, or send them when due."""

    def __init__(
        self,
        server: InProcessServer,
        concurrency: int,
        until_s: float,
        told: _Told,
        arrivals: Arrivals | None = None,
    ) -> None:
        self._server = server
        self._told = told
        self._clock = server.clock
        self._concurrency = concurrency
        self._until_s = until_s
        self._arrivals = arrivals
        self._flights: list[_Flight] = []
        self._meter = ProgressMeter(concurrency)
        self._started_s = self._clock.now_s()
        self._told_s = self._started_s
        self._stopped = self._left_prompts = False

    async def run(
        self,
        requests: Asking,
        on_progress: Callable[[PassProgress], None],
        should_stop: Callable[[], bool],
    ) -> PassRecord:
        def look() -> None:
            on_progress(self._meter.progress(self._flights, self._started_s, self._clock.now_s()))
            self._stopped = self._stopped or should_stop()

        if self._arrivals is not None:
            await self._work_to_schedule(requests, self._arrivals, look)
        else:
            await asyncio.gather(*(self._work(requests, look) for _ in range(self._concurrency)))
        look()
        records = tuple(flight.record() for flight in self._flights)
        ended_s = min(self._until_s, self._clock.now_s())
        return PassRecord(
            records, self._concurrency, self._started_s, ended_s,
            left_prompts=self._left_prompts and not self._stopped,
        )  # fmt: skip

    async def _work(self, requests: Asking, look: Callable[[], None]) -> None:
        for key, asked in requests:
            if self._is_over():
                self._left_prompts = True
                return
            await self._ask(_Flight(key, self._clock.now_s(), self._told), asked, look)

    async def _work_to_schedule(
        self, requests: Asking, arrivals: Arrivals, look: Callable[[], None]
    ) -> None:
        """Send each request when it is due; the server's own queue takes what it cannot run."""
        async with asyncio.TaskGroup() as group:
            for (key, asked), offset_s in zip(requests, arrivals.offsets_s(), strict=False):
                due_s = self._started_s + offset_s
                if self._clock.now_s() < due_s < self._until_s and not self._server.failure:
                    await self._server.scheduler.alarm(due_s).wait()
                if due_s >= self._until_s or self._is_over():
                    self._left_prompts = True
                    return
                flight = _Flight(key, self._clock.now_s(), self._told, due_s)
                group.create_task(self._ask(flight, asked, look))
                await asyncio.sleep(0)

    def _is_over(self) -> bool:
        return self._stopped or self._clock.now_s() >= self._until_s

    async def _ask(self, flight: "_Flight", asked: Asked | str, look: Callable[[], None]) -> None:
        self._flights.append(flight)
        refused = f"{CANNOT_CONNECT}: the server is gone" if self._server.failure else asked
        if isinstance(refused, str):
            flight.finish(self._clock.now_s(), EndReason.BROKEN, refused)
            return
        number = next(self._server.numbers)
        job = self._server.scheduler.submit(refused.rid, refused.generation, number=number)
        await self._fly(flight, job, look)
        flight.note(refused)

    async def _fly(self, flight: "_Flight", job: Job, look: Callable[[], None]) -> None:
        try:
            while not flight.take(await self._taken(job), self._until_s):
                if self._server.failure:
                    flight.finish(self._clock.now_s(), EndReason.BROKEN, _CLOSED)
                    return
                if self._clock.now_s() - self._told_s >= BLOCK_S:
                    self._told_s = self._clock.now_s()
                    look()
                if self._stopped:
                    flight.finish(self._clock.now_s(), EndReason.CANCELLED)
                    return
        finally:
            self._server.scheduler.drop(job)

    async def _taken(self, job: Job) -> Sequence[Emission]:
        scheduler = self._server.scheduler
        scheduler.look_at_s = min(self._until_s, self._told_s + BLOCK_S)
        taken = await job.take()
        return [one for one in taken if not one.aborted] if self._server.failure else taken
