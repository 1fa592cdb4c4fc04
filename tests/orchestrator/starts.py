"""Servers that start, real ones: an emulated SGLang, or a few lines that write its log."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from infra.clock import Clock
from infra.host import Command, Process
from infra.sglang.start_log import StartPhase
from orchestrator.simulation import simulated_tools
from orchestrator.starting import Patience, StartReport, wait_until_ready
from orchestrator.tools import local_tools
from orchestrator.trial_seam import Tools
from sweeps.hosts import EngineName, HostSpec
from sweeps.launch import Deadlines, LaunchPlan
from sweeps.values import Value
from tests.infra.trees import fresh_sweep, python
from tests.ports import free_port

DIALECT = "generate"


@dataclass(slots=True)
class Attendant:
    """Notes what it is told; counts the looks, with what the clock said at each."""

    clock: Clock
    enough: int = 10**6
    """Looks after which it wants the start to end."""
    phases: list[StartPhase] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    on_look: Callable[[], None] = lambda: None

    def check(self) -> None:
        self.at_s.append(self.clock.now_s())
        self.on_look()
        if len(self.at_s) > self.enough:
            raise EnoughError

    def beat(self, phase: StartPhase) -> None:
        self.phases.append(phase)

    def waited_in_s(self, phase: StartPhase) -> float:
        """Return the host's time from the first look that saw a phase until now."""
        return self.clock.now_s() - self.at_s[self.phases.index(phase)]


class EnoughError(Exception):
    """The order to stop."""


@dataclass
class Start:
    """A server that was just started, and all that the wait for it needs."""

    plan: LaunchPlan
    process: Process
    log_path: Path
    tools: Tools
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        self.attendant = Attendant(self.tools.clock)

    def wait(self) -> StartReport:
        """Wait until it is ready."""
        return wait_until_ready(
            self.plan, self.process, self.log_path, self.tools, self.attendant, DIALECT,
            self.patience,
        )  # fmt: skip


@contextmanager
def emulated(
    folder: Path,
    world: str = "",
    *,
    version: str = "0.5.23",
    scale: float = 100.0,
    settings: Mapping[str, Value] | None = None,
    deadlines: Deadlines | None = None,
    port: int | None = None,
) -> Iterator[Start]:
    """Start an emulated server in a world of its own."""
    scenario_path = folder / "world.toml"
    scenario_path.write_text(world)
    host = HostSpec(
        engine=EngineName.EMULATED, time_scale=scale, version=version, scenario=str(scenario_path)
    )
    tools = local_tools(host)
    asked = {"model_path": "some/model", "tp_size": 8, **(settings or {})}
    plan = tools.engine.plan(
        asked, host, port or free_port(), deadlines or Deadlines(start_s=20_000.0)
    )
    with _running(plan, folder, tools) as start:
        yield start


@contextmanager
def scripted(
    folder: Path, code: str, deadlines: Deadlines, *, scale: float = 40.0
) -> Iterator[Start]:
    """Start a few lines of Python that write what SGLang would."""
    tools = local_tools(HostSpec(engine=EngineName.EMULATED, time_scale=scale))
    port = free_port()
    plan = LaunchPlan(python(code), (), (), "127.0.0.1", port, deadlines)
    with _running(plan, folder, tools) as start:
        # Nothing is as slow to start here as an emulated server.
        start.patience = replace(
            start.patience, least_silence_wall_s=0.0, least_poll_wall_s=0.01, least_grace_wall_s=0.0
        )
        yield start


@contextmanager
def _running(plan: LaunchPlan, folder: Path, tools: Tools) -> Iterator[Start]:
    log_path = folder / "server.log"
    with fresh_sweep() as sweep:
        command = Command(
            plan.argv, dict(plan.env), log_path, sweep, "t1", plan.inherit, folder, grace_s=0.2
        )
        process = tools.host.start(command)
        try:
            yield Start(plan, process, log_path, tools)
        finally:
            process.stop()


@contextmanager
def simulated(folder: Path) -> Iterator[Start]:
    """Start a server of this process, on a simulated clock."""
    tools = simulated_tools()
    host = HostSpec(engine=EngineName.EMULATED)
    settings: dict[str, Value] = {"model_path": "some/model", "tp_size": 8}
    plan = tools.engine.plan(settings, host, tools.host.free_port(), Deadlines(phase_s=10.0))
    with _running(plan, folder, tools) as start:
        yield start
