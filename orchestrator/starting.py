"""Waits for a server that starts, and says why when it does not come up.

A server is ready when its process lives, its health is good, the port belongs to its own process
tree, and it has generated one token for us.
"""

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from infra.clock import Clock, host_s
from infra.host import Process
from infra.sglang.logs import explain_exit
from infra.sglang.quoting import last_lines, quoted, with_quotes
from infra.sglang.rank_progress import laggards
from infra.sglang.signature import Moment
from infra.sglang.start_log import StartLog, StartPhase
from infra.sglang.workers import Workers
from orchestrator.start_proof import StartProof
from orchestrator.trial_seam import Tools
from sweeps.launch import LaunchPlan
from sweeps.results import Outcome

PORT_IN_USE = "port_in_use"
WORKER_LOST = "worker_lost"
NO_TOKEN = "no_token"

_SIMULATED_POLL_S = 5.0
"""Waiting costs nothing there, but looking does."""
_CONNECT_WALL_S = 1.0
_TAIL_LINES = 1000
_LONGEST_QUOTE = 200


@dataclass(frozen=True, slots=True)
class Patience:
    """How a start is watched. Host seconds where the name does not say wall."""

    poll_s: float = 0.5
    least_poll_wall_s: float = 0.25
    least_silence_wall_s: float = 5.0
    """On a host that is emulated faster than life, a busy machine is not a silent server."""
    health_wall_s: float = 20.0
    """For one answer; SGLang itself gives a health request 20 s."""
    doom_s: float = 5.0
    """From the line that announces the end until it is taken for the end."""
    loss_s: float = 10.0
    """In which a root notices that a worker is gone; SGLang looks every 5 s."""
    least_grace_wall_s: float = 1.0
    refusal_s: float = 60.0
    """In which a healthy server may answer every request for a token with the same fault."""
    least_refusal_wall_s: float = 5.0


class Attendance(Protocol):
    """Who attends a start. Called from the waiting thread; returns at once."""

    def check(self) -> None:
        """Raise what ends the start by order; nothing else may be raised."""
        ...

    def beat(self, phase: StartPhase) -> None:
        """Take a sign of life, with the phase as the log tells it."""
        ...


class StartFailure(Exception):  # noqa: N818 - the end of a start, which may be nobody's error
    """The server did not come up."""

    def __init__(
        self,
        outcome: Outcome,
        reason: str,
        signature: str = "",
        *,
        retry: bool = False,
        phase: StartPhase = StartPhase.SPAWN,
    ) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason
        self.signature = signature
        """Name of the known fault; empty where none is known."""
        self.retry = retry
        """The configuration is not to blame: start once more, on other ports."""
        self.phase = phase


class WorkerWatch:
    """Tells of workers that are gone while their root lives on. One thread uses it."""

    def __init__(self, root_pid: int, clock: Clock, grace_s: float) -> None:
        self._workers = Workers(root_pid)
        self._clock = clock
        self._grace_s = grace_s
        self._since_s: float | None = None

    @property
    def ranks(self) -> tuple[str, ...]:
        """Return the schedulers that were ever seen, as their lines in the log name them."""
        titles = (worker.title for worker in self._workers.known if worker.is_scheduler)
        names = (title.partition("scheduler_")[2].replace("_", " ") for title in titles)
        return tuple(name for name in names if name)

    def discover(self) -> None:
        """Look for new workers. Simulated hosts have no processes, and their pids are others'."""
        if self._clock.real_s(1.0):
            self._workers.discover()

    def verdict(self) -> str:
        """Say which workers have been gone for longer than a root needs to notice; empty: none.

        Cheap: may be asked twice a second. Ask only while the root lives.
        """
        lost = self._workers.lost()
        if not lost:
            self._since_s = None
            return ""
        now_s = self._clock.now_s()
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s < self._grace_s:
            return ""
        named = ", ".join(f"{worker.title} (pid {worker.pid})" for worker in lost[:4])
        more = f" and {len(lost) - 4} more" if len(lost) > 4 else ""
        return f"gone while the server lives on: {named}{more}"


@dataclass(frozen=True, slots=True)
class StartReport:
    """What a start took, and who to watch from here on."""

    total_s: float
    """Host seconds from the call to the first token."""
    phase_s: Mapping[StartPhase, float]
    """Host seconds of each phase that was seen, as the log told them."""
    log_bytes: int
    workers: WorkerWatch
    dialect: str
    """The API in which it brought a token."""
    unspoken: Mapping[str, str]
    """APIs that were asked in before, each with why none came."""


def refuse_if_answering(plan: LaunchPlan, tools: Tools) -> None:
    """See before a launch that nobody else is on its ports. Raises StartFailure."""
    ports = [plan.port, *([] if plan.rendezvous_port is None else [plan.rendezvous_port])]
    for port in ports:
        if not tools.host.is_port_free(port):
            raise _port_taken(f"port {port} is taken before the launch")
    if tools.clock.real_s(1.0) and _answers(plan.host, plan.port):
        raise _port_taken(f"something answers on {plan.url} before the launch")


def wait_until_ready(
    plan: LaunchPlan,
    process: Process,
    log_path: Path,
    tools: Tools,
    attend: Attendance,
    dialect: str,
    patience: Patience | None = None,
) -> StartReport:
    """Block until the server is ready. Raises StartFailure, and what `attend.check` raises.

    Whoever calls stops the process in either case; nothing of this call outlives that.
    """
    watch = _StartWatch(plan, process, log_path, tools, attend, dialect, patience or Patience())
    return watch.run()


class _StartWatch:
    """The state of one wait."""

    def __init__(
        self,
        plan: LaunchPlan,
        process: Process,
        log_path: Path,
        tools: Tools,
        attend: Attendance,
        dialect: str,
        patience: Patience,
    ) -> None:
        self._plan, self._process, self._tools, self._attend = plan, process, tools, attend
        self._clock = tools.clock
        self._simulated = not tools.clock.real_s(1.0)
        self._patience = patience
        self._log = StartLog(log_path)
        self._workers = WorkerWatch(process.pid, self._clock, self._grace_s(patience.loss_s))
        self._spans = _Spans(self._clock.now_s())
        self._news_at_s = self._spans.began_s
        self._doomed_at_s: float | None = None
        self._proof = StartProof(plan, process, tools, dialect, patience.health_wall_s)

    def run(self) -> StartReport:
        """Look, sleep, look again."""
        with self._proof:
            while True:
                self._attend.check()
                self._look()
                if self._proof.advance(self._left_s):
                    return self._report()
                if self._proof.foreign:
                    self._check_alive()
                    raise _port_taken(f"another program answers on port {self._plan.port}")
                self._attend.beat(self._log.phase)
                self._proof.sleep(self._pause_s())

    def _look(self) -> None:
        """End the wait if the server is gone, doomed, maimed or silent."""
        self._check_alive()
        self._follow_log()
        self._check_doom()
        if lost := self._workers.verdict():
            self._fail(Outcome.FAILED, f"workers {lost}", WORKER_LOST, retry=True)
        self._check_refusal()
        self._check_deadlines()

    def _check_alive(self) -> None:
        code = self._process.poll()
        if code is not None:
            self._log.look()
            self._explain(code)

    def _follow_log(self) -> None:
        look, now_s = self._log.look(), self._clock.now_s()
        for phase in look.entered:
            self._spans.enter(phase, now_s)
        if look.entered or look.says_new:
            self._news_at_s = now_s
        if look.entered or self._spans.is_due(now_s, self._grace_s(self._patience.loss_s)):
            self._workers.discover()

    def _check_doom(self) -> None:
        if not self._log.doom:
            return
        now_s = self._clock.now_s()
        if self._doomed_at_s is None:
            self._doomed_at_s = now_s
        if now_s - self._doomed_at_s >= self._grace_s(self._patience.doom_s):
            self._explain(None)

    def _check_deadlines(self) -> None:
        start_s = self._plan.deadlines.start_s
        healthy_at_s = self._proof.healthy_at_s
        healthy = "" if healthy_at_s is None else f"it is healthy, but {self._no_token()}; "
        if self._left_s <= 0:
            self._hang(f"{healthy}not ready {start_s:g} s after its start")
        if self._silence_left_s <= 0:
            self._hang(f"{healthy}nothing new in its log for {self._silence_limit_s:g} s")

    def _check_refusal(self) -> None:
        """End the wait for a token that a healthy server keeps refusing in the same words."""
        since_s, patience = self._proof.refused_since_s, self._patience
        least_s = host_s(self._clock, patience.least_refusal_wall_s)
        if since_s is None or self._clock.now_s() - since_s < max(patience.refusal_s, least_s):
            return
        self._fail(Outcome.FAILED, f"the server is healthy, but {self._no_token()}", NO_TOKEN)

    def _no_token(self) -> str:
        said = {**self._proof.unspoken}
        if self._proof.refusal:
            said[self._proof.dialect] = self._proof.refusal
        why = "; ".join(f"{api}: {words[:_LONGEST_QUOTE]}" for api, words in said.items())
        return f"generated no token that counts ({why})" if why else "generated no token"

    @property
    def _left_s(self) -> float:
        return self._plan.deadlines.start_s - (self._clock.now_s() - self._spans.began_s)

    @property
    def _silence_limit_s(self) -> float:
        least_s = host_s(self._clock, self._patience.least_silence_wall_s)
        return max(self._plan.deadlines.phase_s, least_s)

    @property
    def _silence_left_s(self) -> float:
        if self._simulated:
            return float("inf")  # servers without a process write no log
        # A server that begins to be healthy gets on as well.
        since_s = max(self._news_at_s, self._proof.healthy_at_s or 0.0)
        return self._silence_limit_s - (self._clock.now_s() - since_s)

    def _pause_s(self) -> float:
        """Return how long to sleep: never past a deadline."""
        poll_s = max(self._patience.poll_s, host_s(self._clock, self._patience.least_poll_wall_s))
        if self._simulated:
            poll_s = _SIMULATED_POLL_S
        return max(0.0, min(poll_s, self._left_s, self._silence_left_s))

    def _grace_s(self, duration_s: float) -> float:
        return max(duration_s, host_s(self._clock, self._patience.least_grace_wall_s))

    def _hang(self, what: str) -> NoReturn:
        phase, tail = self._log.phase, self._process.log_tail(_TAIL_LINES)
        self._workers.discover()
        behind = laggards(tail, self._workers.ranks)
        last = quoted(last_lines(tail)) or "no output"
        reason = f"hung in {phase.value}: {what}{f'; {behind}' if behind else ''}; its log: {last}"
        self._fail(Outcome.HUNG, reason, f"hung_{phase.name.lower()}")

    def _explain(self, code: int | None) -> NoReturn:
        moment = Moment.CAPTURE if self._log.phase is StartPhase.GRAPHS else Moment.START
        tail = [*self._log.last_words, *self._process.log_tail(_TAIL_LINES)]
        why = explain_exit(code, tail, moment)
        reason = f"{with_quotes(why.reason, tail)} (in {self._log.phase.value})"
        self._fail(why.outcome, reason, why.signature, retry=why.retry)

    def _fail(
        self, outcome: Outcome, reason: str, signature: str, *, retry: bool = False
    ) -> NoReturn:
        raise StartFailure(outcome, reason, signature, retry=retry, phase=self._log.phase)

    def _report(self) -> StartReport:
        self._workers.discover()
        now_s = self._clock.now_s()
        self._spans.enter(StartPhase.FIRST_TOKEN, now_s)
        total_s = now_s - self._spans.began_s
        proof = self._proof
        return StartReport(
            total_s, self._spans.phase_s, self._log.read_bytes, self._workers, proof.dialect,
            proof.unspoken,
        )  # fmt: skip


class _Spans:
    """How long each phase took so far."""

    def __init__(self, now_s: float) -> None:
        self.began_s = now_s
        self.phase_s: dict[StartPhase, float] = {}
        self._phase = StartPhase.SPAWN
        self._entered_s = now_s
        self._last_due_s = now_s

    def enter(self, phase: StartPhase, now_s: float) -> None:
        """Begin a phase; one that comes again goes on where it was."""
        spent_s = self.phase_s.get(self._phase, 0.0) + now_s - self._entered_s
        self.phase_s[self._phase] = spent_s
        self._phase, self._entered_s = phase, now_s

    def is_due(self, now_s: float, every_s: float) -> bool:
        """Tell whether so much time has passed since this was last true."""
        due = now_s - self._last_due_s >= every_s
        if due:
            self._last_due_s = now_s
        return due


def _port_taken(reason: str) -> StartFailure:
    return StartFailure(Outcome.FAILED, reason, PORT_IN_USE, retry=True)


def _answers(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=_CONNECT_WALL_S):
        return True
    return False
