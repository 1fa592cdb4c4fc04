"""The life of one trial: plan, start, ready, measure, stop, result. No Ray in it."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from statistics import fmean
from typing import NoReturn

from infra.engines import effective_names
from infra.host import Command, HostError, Process
from infra.sglang.control import ControlError, effective_settings
from infra.sglang.flags import NEWEST
from infra.sglang.logs import accept_lengths, explain_exit
from orchestrator.course import Course
from orchestrator.files import Spool, write_json
from orchestrator.job import StopKind, TrialJob, TrialProgress
from orchestrator.load.seam import PassProgress
from orchestrator.trial_seam import Tools, Watch
from sweeps.intervals import mean_half_width
from sweeps.launch import LaunchPlan
from sweeps.problems import BadInputError
from sweeps.quality import Outputs
from sweeps.records import EndReason, PassRecord, RequestRecord
from sweeps.results import Estimate, Outcome, Phase, TrialResult
from sweeps.values import Value

logger = logging.getLogger(__name__)

POLL_S = 0.5
"""Host seconds between two looks at a starting server."""

SIMULATED_POLL_S = 5.0
"""The same where waiting costs nothing but the looks do."""

LEAST_POLL_WALL_S = 0.05
LEAST_SILENCE_WALL_S = 5.0
"""Where a host is emulated faster than life, a busy machine must not look like a silent server."""

CONTROL_S = 30.0
"""Wall seconds for an answer of a server that is up."""


class TrialEndError(Exception):
    """The trial ends here, for a reason that becomes its outcome."""

    def __init__(self, outcome: Outcome, reason: str, bound: float | None = None) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason
        self.bound = bound


def run_trial(job: TrialJob, tools: Tools, watch: Watch) -> TrialResult:
    """Run one trial to its end, whatever that is, and leave its result in its folder.

    Blocks; gives way within a second to an order to stop. When it returns, the server is gone.
    """
    spool = Spool(job.spool_path)
    try:
        run = _TrialRun(job, tools, watch, spool)
        result = run.result()
        write_json(job.result_path, result.as_data())
    finally:
        spool.close()
    return result


class _TrialRun:
    """The state of one trial while it runs."""

    def __init__(self, job: TrialJob, tools: Tools, watch: Watch, spool: Spool) -> None:
        self._job, self._tools, self._watch, self._spool = job, tools, watch, spool
        self._clock = tools.clock
        self._started_s = self._clock.now_s()
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._phase = self._reached = Phase.ADMITTED
        self._phase_began_s = self._started_s
        self._phase_s: dict[str, float] = {}
        self._course: Course | None = None
        self._process: Process | None = None
        self._log_from_bytes = 0
        self._effective: dict[str, Value] = {}
        self._version = job.host.version or NEWEST
        self._plan: LaunchPlan | None = None
        self._log_lengths: list[float] = []
        self._survivors = 0

    def result(self) -> TrialResult:
        """Run the phases and build the result."""
        bound = None
        try:
            outcome, reason = self._run_phases()
        except TrialEndError as end:
            outcome, reason, bound = end.outcome, end.reason, end.bound
        except BadInputError as error:
            outcome, reason = Outcome.FAILED, f"the workload changed: {error}"
        except (HostError, OSError) as error:
            outcome, reason = Outcome.FAILED, f"the host failed: {error}"
        self.enter(Phase.CLEAN)
        if self._survivors:
            reason += f"; {self._survivors} processes outlived the stop"
        return self._build(outcome, reason, bound)

    def _run_phases(self) -> tuple[Outcome, str]:
        plan = self._make_plan()
        with self._server(plan) as process:
            self._process = process
            self._wait_until_ready(plan, process)
            self._read_back(plan)
            self._course = course = Course(
                self._job.sweep.workload,
                self._tools.client,
                plan.url,
                max(self._job.sweep.budget.silence_s, self._host_s(LEAST_SILENCE_WALL_S)),
                self._job.config.is_plain,
                self,
            )
            course.run()
            return self._judge(course)

    def _make_plan(self) -> LaunchPlan:
        job = self._job
        plan = self._tools.engine.plan(
            job.sweep.settings(job.config),
            job.host,
            self._tools.host.free_port(),
            job.sweep.budget.deadlines,
            start=job.number,
        )
        self._plan = plan
        write_json(job.plan_path, plan.as_data())
        return plan

    @contextmanager
    def _server(self, plan: LaunchPlan) -> Iterator[Process]:
        job = self._job
        command = Command(
            argv=plan.argv,
            env=dict(plan.env),
            inherit=plan.inherit,
            log_path=job.log_path,
            cwd=job.folder,
            sweep=job.sweep_id,
            trial=job.trial,
            grace_s=max(2.0, self._clock.real_s(plan.deadlines.stop_grace_s)),
        )
        process = self._tools.host.start(command)
        try:
            self.enter(Phase.STARTING)
            yield process
        finally:
            self.enter(Phase.STOPPING)
            if process.poll() is None:
                self._tools.control(plan.url, 2.0).abort_all()
            report = process.stop()
            self._spool.append("stop", asdict(report))
            if not report.clean:
                self._survivors = report.survivors
                self._tools.host.reap(job.sweep_id, job.trial)

    def _wait_until_ready(self, plan: LaunchPlan, process: Process) -> None:
        """Ready is: alive, healthy, and one token generated for us."""
        control = self._tools.control(plan.url, 5.0)
        deadline_s = self._clock.now_s() + plan.deadlines.start_s
        while not control.is_healthy():
            self._check(process)
            if self._clock.now_s() > deadline_s:
                self._hang(f"not healthy {plan.deadlines.start_s:g} s after its start", process)
            self._beat()
            self._clock.sleep_s(self._poll_s())
        if not process.listens_on(plan.port):
            self._check(process)
            raise TrialEndError(Outcome.FAILED, f"another program answers on port {plan.port}")
        left_s = max(1.0, deadline_s - self._clock.now_s())
        if not self._tools.client.probe(plan.url, self._job.sweep.workload.dialect, left_s):
            self._check(process)
            self._hang("healthy, but it generated no token", process)

    def _read_back(self, plan: LaunchPlan) -> None:
        """Note what the server made of the settings, by its own account."""
        try:
            info = self._tools.control(plan.url, CONTROL_S).info()
        except ControlError as error:
            raise TrialEndError(Outcome.FAILED, f"no account of its settings: {error}") from error
        self._version = str(info.get("version") or self._version)
        settings = self._job.sweep.settings(self._job.config)
        self._effective = effective_settings(info, effective_names(settings, self._version))
        self._spool.append("effective", {"settings": self._effective, "version": self._version})

    def should_stop(self) -> bool:
        """Tell whether somebody wants the trial to end, or the server is gone."""
        return self._watch.order() is not None or self._running.poll() is not None

    def progress(self, seen: PassProgress) -> None:
        """Report the measured pass by its rate, the probe by its steps, others as signs of life."""
        if self._phase is Phase.PROBING and self._course and self._course.probes_the_load:
            self._watch.report(replace(self._sign(), step_blocks=seen.chunk_blocks_per_s))
            return
        if self._phase is not Phase.MEASURING:
            self._beat()
            return
        rate, low, high = _around(seen.decode_blocks_per_s)
        self._watch.report(
            replace(
                self._sign(),
                tok_s=rate,
                low=low,
                high=high,
                accept_length=seen.accept_length,
                blocks=seen.decode_blocks_per_s,
            )
        )

    def keep(self, record: PassRecord) -> None:
        """Write a pass down; the trial ends here if the server is gone or has fallen silent."""
        for request in record.requests:
            self._spool.append("request", {"phase": self._phase.value, **_request_data(request)})
        self._spool.sync()
        if self._phase is Phase.COLD:
            outputs = Outputs.of(record, self._job.sweep.workload.temperature)
            write_json(self._job.outputs_path, outputs.as_data())
        if self._phase is Phase.MEASURING:
            self._read_log()
        self._check(self._running)
        self._check_requests(record)

    def flush(self) -> None:
        """Empty the n-gram trie and the prefix cache, so that the cold pass is cold."""
        assert self._plan is not None, "planned before it was started"
        try:
            control = self._tools.control(self._plan.url, CONTROL_S)
            control.abort_all()  # a probe that met its deadline may still run
            control.flush()
        except ControlError as error:
            raise TrialEndError(Outcome.FAILED, f"the caches were not emptied: {error}") from error

    @property
    def _running(self) -> Process:
        assert self._process is not None, "started before it is measured"
        return self._process

    def _judge(self, course: Course) -> tuple[Outcome, str]:
        measured = course.measured
        if measured is None or not any(r.decode_tokens for r in measured.requests):
            return Outcome.FAILED, "no token was measured"
        limit = f"the {self._job.sweep.budget.trial_s:g} s of the trial ended"
        if measured.cut_short and self.left_s() <= 0:
            return Outcome.PARTIAL, f"{limit} before its prompts"
        if course.unmade:
            return Outcome.MEASURED, f"{limit} before the passes with {', '.join(course.unmade)}"
        return Outcome.MEASURED, ""

    def _read_log(self) -> None:
        with self._job.log_path.open(errors="replace") as log:
            log.seek(self._log_from_bytes)
            self._log_lengths = accept_lengths(log)

    def _check(self, process: Process) -> None:
        """End the trial if somebody wants that, or if the server is gone."""
        order = self._watch.order()
        if order is not None:
            stopped = order.kind is StopKind.BOUND
            outcome = Outcome.STOPPED if stopped else Outcome.CANCELLED
            raise TrialEndError(outcome, order.reason, order.bound)
        code = process.poll()
        if code is not None:
            why = explain_exit(code, process.log_tail(400))
            raise TrialEndError(why.outcome, f"{why.reason} (while {self._phase.value})")
        if self._phase is Phase.STARTING and self.left_s() <= 0:
            raise TrialEndError(Outcome.HUNG, "the trial's time ended during its start")

    def _check_requests(self, record: PassRecord) -> None:
        """A stream that fell silent is a hang; one that broke is a fault of the server."""
        for request in record.broken:
            if request.end is EndReason.SILENT:
                raise TrialEndError(Outcome.HUNG, f"silent while {self._phase.value}")
        if record.broken and len(record.broken) == len(record.requests):
            raise TrialEndError(Outcome.FAILED, f"every request broke: {record.broken[0].detail}")

    def _hang(self, what: str, process: Process) -> NoReturn:
        tail = next((line for line in reversed(process.log_tail(20)) if line.strip()), "no output")
        raise TrialEndError(Outcome.HUNG, f"{what}; last line: {tail.strip()[:200]}")

    def _poll_s(self) -> float:
        if not self._clock.real_s(1.0):
            return SIMULATED_POLL_S
        return max(POLL_S, self._host_s(LEAST_POLL_WALL_S))

    def _host_s(self, wall_s: float) -> float:
        """Return how much of the host's time passes in a span on the wall."""
        wall_per_host_s = self._clock.real_s(1.0)
        return wall_s / wall_per_host_s if wall_per_host_s else 0.0

    def left_s(self) -> float:
        """Return how much of the trial's time is left."""
        return self._job.sweep.budget.trial_s - (self._clock.now_s() - self._started_s)

    def enter(self, phase: Phase) -> None:
        """Begin a phase. What the server logs from here on belongs to it."""
        if phase is Phase.MEASURING:
            self._log_from_bytes = self._job.log_path.stat().st_size
        now_s = self._clock.now_s()
        spent_s = now_s - self._phase_began_s
        self._phase_s[self._phase.value] = self._phase_s.get(self._phase.value, 0.0) + spent_s
        self._phase, self._phase_began_s = phase, now_s
        if phase not in (Phase.STOPPING, Phase.CLEAN):
            self._reached = phase
        self._spool.append("phase", {"phase": phase.value, "at_s": now_s - self._started_s})
        self._beat()

    def _beat(self) -> None:
        self._watch.report(self._sign())

    def _sign(self) -> TrialProgress:
        elapsed_s = self._clock.now_s() - self._started_s
        return TrialProgress(self._job.trial, self._phase, elapsed_s)

    def _build(self, outcome: Outcome, reason: str, bound: float | None) -> TrialResult:
        plan, lengths, estimates = self._plan, self._log_lengths, self._estimates()
        elapsed_s = self._clock.now_s() - self._started_s
        return replace(
            lost_result(self._job, reason, outcome),
            phase=self._reached,
            engine_version=self._version,
            gpu_hours=self._job.host.gpus * elapsed_s / 3600,
            started_at=self._started_at,
            phase_s={name: round(spent_s, 3) for name, spent_s in self._phase_s.items()},
            estimates=estimates,
            notes=self._course.notes(estimates) if self._course else (),
            bound=bound,
            effective=self._effective,
            argv=plan.argv if plan else (),
            env=dict(plan.env) if plan else {},
            log_accept_length=fmean(lengths) if lengths else None,
        )

    def _estimates(self) -> dict[str, Estimate]:
        return self._course.estimates(self._job.baseline) if self._course else {}


def _around(blocks: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Return the mean of the blocks so far with its interval, as far as they allow."""
    if not blocks:
        return None, None, None
    rate = fmean(blocks)
    if len(blocks) < 2:
        return rate, None, None
    half = mean_half_width(blocks)
    return rate, rate - half, rate + half


def lost_result(job: TrialJob, reason: str, outcome: Outcome = Outcome.FAILED) -> TrialResult:
    """Stand in for the result of a trial that could not write its own."""
    return TrialResult(
        trial=job.trial,
        sweep=job.sweep_id,
        number=job.number,
        config=job.config,
        outcome=outcome,
        reason=reason,
        phase=Phase.ADMITTED,
        emulated=job.host.emulated,
        host=job.host.name,
        engine_version=job.host.version or NEWEST,
        gpu_hours=0.0,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        purpose=job.purpose.value,
    )


def _request_data(request: RequestRecord) -> dict[str, object]:
    return {
        "sent_s": request.sent_s, "ended_s": request.ended_s, "end": request.end.value,
        "detail": request.detail, "finish_reason": request.finish_reason,
        "prompt_tokens": request.prompt_tokens, "cached_tokens": request.cached_tokens,
        "verify_steps": request.verify_steps, "output_tokens": request.output_tokens,
        "times_s": [round(t, 5) for t in request.times_s], "tokens": list(request.tokens),
        "prompt_key": request.prompt_key, "scheduled_s": request.scheduled_s,
        "queue_s": request.queue_s, "chunks": list(request.chunks),
    }  # fmt: skip
