"""Emulated servers without process, port or wire: a host of objects on a simulated clock.

The same arguments, engine and scheduler as the HTTP server's. What needs a real process (its tree,
signals, its connections) is emulated by the HTTP form alone, and `unsimulated` names it.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from math import inf
from pathlib import Path
from typing import TypeVar

from infra.clock import Clock
from infra.emulated.arguments import overridden, parse, read_emulation
from infra.emulated.drafting.remembered import KnownDrafts
from infra.emulated.engine import EmulatedEngine
from infra.emulated.life.loading import BROKEN_WEIGHTS, Launch, StartTimes, plan_start, runs_out
from infra.emulated.life.phase_lines import cuda_out_of_memory
from infra.emulated.logs import last_words
from infra.emulated.resolution import resolve
from infra.emulated.rules import communicator_fault, load_fault, resolution_fault
from infra.emulated.scenario import HEALTHY, OomMoment, Scenario
from infra.emulated.serving.scheduler import Scheduler
from infra.emulated.settings import make_settings
from infra.emulated.text_file import source_of
from infra.emulated.versions import manners
from infra.host import Command, HostError, StopReport

WARM_UP_PROMPT = "The capital city of France is"
WARM_UP_TOKENS = 8
_FIRST_PORT = 31000
_USAGE_EXIT, _REFUSED_EXIT, _KILLED_EXIT = 2, 1, -9

T = TypeVar("T")


class InProcessServer:
    """One server: an engine behind a scheduler, on an event loop that runs while somebody asks."""

    def __init__(
        self, launch: Launch, times: StartTimes, clock: Clock, known: KnownDrafts | None = None
    ) -> None:
        self.launch = launch
        self.clock = clock
        world = launch.emulation.scenario.now
        source = source_of(world.text.path)
        self.engine = EmulatedEngine(
            launch.settings, launch.truth, launch.emulation.seed, source,
            known if world is HEALTHY else None,
        )  # fmt: skip
        self.scheduler = Scheduler(
            self.engine,
            clock,
            first_use_s=times.warm_up_s,
            scenario=launch.emulation.scenario,
            how=manners(launch.emulation.version),
        )
        self.scheduler.on_failed = self._fail
        self.failure = ""
        """The exception that ended it; empty while it lives."""
        hangs = world.start.hang_in and world.start.concerns(launch.environment)
        self.loaded_at_s = inf if hangs else clock.now_s() + _load_s(times)
        self.numbers = count(1)
        """Of its requests."""
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._stepping = self._loop.create_task(self.scheduler.run())
        self._warm = False

    @property
    def is_loaded(self) -> bool:
        """Tell whether the port would be open."""
        return self.clock.now_s() >= self.loaded_at_s

    def _fail(self, error: str) -> None:
        self.failure = error
        self.scheduler.end()

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Let the server live until a client's work is done."""
        return self._runner.run(work)

    def warm_up(self) -> None:
        """Serve the request that a server sends itself before it is ready."""
        if not self._warm:
            self._warm = True
            self.run(self._serve_warm_up())

    def info(self) -> dict[str, object]:
        """Return what `/server_info` would say of settings and accept length."""
        totals = self.scheduler.totals
        state: dict[str, object] = {}
        if totals.verifies:
            state["avg_spec_accept_length"] = totals.verified_tokens / totals.verifies
        version = self.launch.emulation.version
        return {**self.launch.args, "version": version, "internal_states": [state]}

    def close(self) -> None:
        """End the loop and what runs on it."""
        self._stepping.cancel()
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._stepping)
        self._runner.close()

    async def _serve_warm_up(self) -> None:
        job = self.scheduler.submit("warm_up", self.engine.open(WARM_UP_PROMPT, WARM_UP_TOKENS))
        while not (await job.take())[-1].finished:
            pass


@dataclass(slots=True)
class InProcessProcess:
    """What stands for the process of a server: an exit code from the start, or a server."""

    host: "InProcessHost"
    pid: int
    port: int
    lines: Sequence[str]
    log_path: Path
    exit_code: int | None = None
    server: InProcessServer | None = None
    _report: StopReport | None = field(default=None)

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        if self.exit_code is None and self.server and self.server.failure:
            self.exit_code = _KILLED_EXIT
            self.lines = last_words(self.server.failure)
            self.log_path.write_text("\n".join([*self.lines, ""]))
        return self.exit_code

    def stop(self, grace_s: float | None = None) -> StopReport:
        """End the server at once."""
        if self._report is None:
            if self.server is not None:
                self.server.close()
            self.host.forget(self.port)
            if self.poll() is None:
                self.exit_code = 0
            self._report = StopReport(self.exit_code, killed=0, survivors=0)
        return self._report

    def log_tail(self, lines: int) -> list[str]:
        """Return what a refused launch or a server that died would have written last."""
        self.poll()
        return "\n".join(self.lines).splitlines()[-lines:]

    def listens_on(self, port: int) -> bool:
        """Tell whether the server is on that port and loaded."""
        return port == self.port and self.server is not None and self.server.is_loaded


class InProcessHost:
    """A `Host` on a simulated clock. One thread uses it."""

    def __init__(self, clock: Clock, known: KnownDrafts | None = None) -> None:
        self._clock, self._known = clock, known
        self._numbers = count()
        self._processes: dict[int, InProcessProcess] = {}

    def start(self, command: Command) -> InProcessProcess:
        """Start a server, or have it refuse as the real one would. Raises HostError."""
        flags, port = _split(command.argv)
        process = InProcessProcess(self, 1 + next(self._numbers), port, (), command.log_path)
        process.exit_code, process.lines, process.server = self._launch(flags, command.env)
        command.log_path.write_text("\n".join([*process.lines, ""]))
        self._processes[port] = process
        return process

    def free_port(self) -> int:
        """Return a number that no server of this host has."""
        return _FIRST_PORT + next(self._numbers)

    def is_port_free(self, port: int) -> bool:
        """Tell whether no server of this host has that number."""
        return port not in self._processes

    def reap(self, sweep: str, trial: str | None = None) -> int:
        """Do nothing: what is in this process ends with it."""
        return 0

    def server(self, url: str) -> InProcessServer | None:
        """Find the server under a URL; None where none is loaded."""
        process = self._processes.get(int(url.rsplit(":", 1)[1]))
        server = process.server if process else None
        return server if server is not None and server.is_loaded else None

    def forget(self, port: int) -> None:
        """Free a number."""
        self._processes.pop(port, None)

    def _launch(
        self, flags: Sequence[str], env: Mapping[str, str]
    ) -> tuple[int | None, Sequence[str], InProcessServer | None]:
        emulation = read_emulation(env)
        version = emulation.version
        try:
            given = parse(flags, version)
            given, env = overridden(given, env, emulation.scenario.now.overrides)
        except SystemExit:
            return _USAGE_EXIT, [f"sglang serve: error: refused: {' '.join(flags)}"], None
        args = resolve(given, version, env)
        settings = make_settings(given, env, version)
        launch = Launch(flags, args, settings, emulation, environment=env)
        if fault := resolution_fault(args, emulation.gpus, version):
            return _REFUSED_EXIT, [fault], None
        if fault := communicator_fault(settings) or load_fault(args, settings, launch.truth):
            return _KILLED_EXIT, [fault], None
        times = plan_start(launch.truth, settings, emulation.seed, emulation.scenario.now.start)
        if ending := _failed_start(launch, times):
            return *ending, None
        return None, (), InProcessServer(launch, times, self._clock, self._known)


_UNSIMULATED = {
    "start": ("hang_rank",),
    "processes": (),
    "health": (),
    "stream": (),
    "faults": ("die_after_s", "hang_at_request", "worker_dies_at_request"),
    "overrides": ("reported",),
}
"""Sections of a scenario, each with the fields that need a process or a connection; none: all."""


def unsimulated(world: Scenario) -> tuple[str, ...]:
    """Name what of a scenario takes a process or a connection of its own."""
    found = []
    for section, names in _UNSIMULATED.items():
        mine, healthy = getattr(world, section), getattr(HEALTHY, section)
        if not names and mine != healthy:
            found.append(section)
        found += [
            f"{section}.{name}" for name in names if getattr(mine, name) != getattr(healthy, name)
        ]
    return tuple(found)


def _failed_start(launch: Launch, times: StartTimes) -> tuple[int, Sequence[str]] | None:
    """Return how a start ends by its scenario: the exit code and the last lines."""
    scenario = launch.emulation.scenario.now
    start = scenario.start
    if start.die_in and start.concerns(launch.environment):
        code = _KILLED_EXIT if start.exit_code is None else start.exit_code
        return code, last_words(start.last_line or BROKEN_WEIGHTS)
    gib = launch.truth.gpu_memory_gib
    full = cuda_out_of_memory(wanted_gib=1.0, capacity_gib=gib, free_gib=0.5, gpu=0, others=())
    graph = max(times.graph_sizes, default=0)
    for moment, requests, error in (
        (OomMoment.WEIGHTS, 0, f"torch.OutOfMemoryError: {full}"),
        (OomMoment.GRAPHS, graph, f"Exception: Capture cuda graph failed: {full}"),
    ):
        if any(runs_out(rule, moment, launch.settings, requests) for rule in scenario.oom):
            return _KILLED_EXIT, last_words(error)
    return None


def _split(argv: Sequence[str]) -> tuple[list[str], int]:
    """Return the flags of a planned command line, and its port."""
    try:
        flags = list(argv[argv.index("-m") + 2 :])
        return flags, int(flags[flags.index("--port") + 1])
    except (ValueError, IndexError) as error:
        raise HostError(f"no command line of an emulated server: {argv}") from error


def _load_s(times: StartTimes) -> float:
    return (
        times.spawn_s
        + times.distributed_init_s
        + times.weights_s
        + times.memory_pool_s
        + times.graphs_s
    )
