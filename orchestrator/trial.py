"""The life of one trial: plan, start, ready, measure, stop, result. No Ray in it."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from statistics import fmean

from infra.engines import complete, place_variables
from infra.evidence import LIMIT_S, Subject, keep_evidence
from infra.host import Command, HostError, Process, Reservation
from infra.reaper import find_tagged, tags
from infra.secret_refs import SecretError, learn
from infra.sglang.control import ControlError
from infra.sglang.effective import account, read_environments
from infra.sglang.flags import NEWEST
from infra.sglang.logs import accept_lengths, decode_rates, explain_exit
from infra.sglang.quoting import with_quotes
from infra.sglang.server_keys import GivenSecrets, given_secrets
from infra.sglang.signature import Moment
from infra.sglang.start_log import StartPhase
from orchestrator.course import Course, why_unmeasured
from orchestrator.files import write_json
from orchestrator.job import StopKind, TrialJob, TrialProgress
from orchestrator.load_client.seam import PassProgress
from orchestrator.recorder import Recorder
from orchestrator.server_watch import ServerWatch
from orchestrator.spool import PHASE, START_PHASE
from orchestrator.starting import (
    WORKER_LOST,
    StartFailure,
    WorkerWatch,
    refuse_if_answering,
    wait_until_ready,
)
from orchestrator.trial_notes import TrialNotes, notes_of_trial
from orchestrator.trial_records import lost_result, rate_around
from orchestrator.trial_seam import Tools, Watch
from sweeps.breakage import Breakage, breakage_of
from sweeps.hosts import billed_hours
from sweeps.launch import LaunchPlan
from sweeps.learning import LEARNING
from sweeps.phrases import counted
from sweeps.pins import with_pins
from sweeps.problems import BadInputError
from sweeps.quality import Outputs
from sweeps.records import EndReason, PassRecord
from sweeps.results import Estimate, Outcome, Phase, TrialResult
from sweeps.token_accounts import NO_COUNTS, ServerCounts, account_of
from sweeps.values import Value

logger = logging.getLogger(__name__)

EVIDENCE_LINES = 400
"""Last lines of a log that are searched, and kept."""

LEAST_EVIDENCE_WALL_S = 3.0

CONTROL_S = 30.0
"""Wall seconds for an answer of a server that is up."""

COUNTERS_S = 5.0
"""Wall seconds for its counters, without which a trial can be measured."""


MISCOUNTED = "token_counts"
"""Signature of a server whose token counts contradict each other."""

TOLD_BY_REMAINS = (Outcome.HUNG, Outcome.FAILED, Outcome.INFEASIBLE)
"""Ends after which one wants to see what the server left."""


class TrialEndError(Exception):
    """The trial ends here, for a reason that becomes its outcome."""

    def __init__(
        self, outcome: Outcome, reason: str, bound: float | None = None, signature: str = ""
    ) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason
        self.bound = bound
        self.signature = signature


def run_trial(job: TrialJob, tools: Tools, watch: Watch) -> TrialResult:
    """Run one trial to its end, whatever that is, and leave its result in its folder.

    Blocks; gives way within a second to an order to stop. When it returns, the server is gone.
    """
    learn([*job.sweep.fixed.values(), *job.host.env.values()])
    with notes_of_trial(job) as notes:
        result = _TrialRun(job, tools, watch, notes).result()
        notes.end(result)
    write_json(job.result_path, result.as_data())
    return result


class _TrialRun:
    """The state of one trial while it runs."""

    def __init__(self, job: TrialJob, tools: Tools, watch: Watch, notes: TrialNotes) -> None:
        self._job, self._tools, self._watch, self._notes = job, tools, watch, notes
        self._clock = tools.clock
        self._started_s = self._clock.now_s()
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._phase = self._reached = Phase.ADMITTED
        self._phase_began_s = self._started_s
        self._phase_s: dict[str, float] = {}
        self._course: Course | None = None
        self._process: Process | None = None
        self._log_from_bytes = 0
        self._requested = with_pins(job.sweep.settings(job.config), job.pins)
        self._effective: dict[str, Value] = {}
        self._version = job.host.version or NEWEST
        self._plan: LaunchPlan | None = None
        self._workers: WorkerWatch | None = None
        self._start_phase_s: dict[str, float] = {}
        self._start_phase = ""
        self._signature = ""
        self._dirty = ""
        self._tokens_before = 0
        self._sampled_s = -1
        self._log_lengths: list[float] = []
        self._log_rates: list[float] = []
        self._recorder = Recorder()
        self._server_watch: ServerWatch | None = None
        self._remarks: list[str] = []
        self._counters: Mapping[str, float] = {}
        self._workload = job.sweep.workload
        self._unproved_flush = ""

    def result(self) -> TrialResult:
        """Run the phases and build the result."""
        bound = None
        try:
            outcome, reason = self._run_phases()
        except TrialEndError as end:
            outcome, reason, bound = end.outcome, end.reason, end.bound
            self._signature = end.signature
        except BadInputError as error:
            outcome, reason = Outcome.FAILED, f"the workload changed: {error}"
        except (HostError, OSError) as error:
            outcome, reason = Outcome.FAILED, f"the host failed: {error}"
        self.enter(Phase.CLEAN)
        return self._build(outcome, reason, bound)

    def _run_phases(self) -> tuple[Outcome, str]:
        job = self._job
        with self._tools.premises.reserve(job.sweep_id, job.trial, job.folder.parent) as reserved:
            return self._run_on(reserved)

    def _run_on(self, reserved: Reservation) -> tuple[Outcome, str]:
        plan = self._make_plan(reserved)
        with self._ended_by_start():
            refuse_if_answering(plan, self._tools)
        with self._server(plan, reserved) as process:
            self._process = process
            silence_s = self._job.sweep.budget.silence_s
            self._server_watch = watch = ServerWatch(plan.url, self._tools, silence_s)
            self._wait_until_ready(plan, process)
            self._read_back(plan)
            self._course = course = Course(
                self._workload,
                self._tools.client,
                plan.url,
                watch.silence_s,
                self._job.config.is_plain,
                self,
                learns=self._requested.get("speculative_algorithm") in LEARNING,
            )
            course.run()
            self._recorder.write(self._job, self._version)
            return self._judge(course)

    def _make_plan(self, reserved: Reservation) -> LaunchPlan:
        job = self._job
        plan = self._tools.engine.plan(
            self._requested,
            job.host,
            reserved.port,
            job.sweep.budget.deadlines,
            start=job.number,
            rendezvous_port=reserved.rendezvous_port,
        )
        self._plan = plan
        write_json(job.plan_path, plan.as_data())
        return plan

    def _give_secrets(self, plan: LaunchPlan, reserved: Reservation) -> GivenSecrets:
        """Resolve what the plan refers to; from here on the server is asked with its keys."""
        if not self._clock.real_s(1.0):
            return GivenSecrets()  # a simulated server has no gate
        try:
            given = given_secrets(dict(plan.secrets), reserved.temp_folder)
        except SecretError as error:
            raise TrialEndError(Outcome.FAILED, f"a secret of it: {error}") from error
        if plan.secrets:
            self._tools = self._tools.bearing(given.keys)
        return given

    @contextmanager
    def _server(self, plan: LaunchPlan, reserved: Reservation) -> Iterator[Process]:
        job = self._job
        given = self._give_secrets(plan, reserved)
        command = Command(
            argv=(*plan.argv, *given.words),
            hidden=given.variables,
            env={**place_variables(reserved.temp_folder), **dict(plan.env)},
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
        except TrialEndError as end:
            if end.outcome in TOLD_BY_REMAINS:
                self._keep_evidence(process)
            raise
        finally:
            self.enter(Phase.STOPPING)
            if process.poll() is None:
                self._tools.control(plan.url, 2.0).abort_all()
            report = process.stop()
            self._mask_log(given)
            clean = self._tools.premises.prove_clean(reserved, plan.deadlines.clean_s)
            self._dirty = "" if clean.clean else str(clean)
            self._notes.note("stop", {**asdict(report), "clean": asdict(clean)})

    def _mask_log(self, given: GivenSecrets) -> None:
        try:
            given.mask(self._job.log_path)
        except OSError as error:
            self._remarks.append(f"its keys may stand in server.log: {error}")

    def _keep_evidence(self, process: Process) -> None:
        """Keep what is to be seen of a server that hung or died, before it is ended."""
        if self._clock.real_s(1.0):  # a simulated one has no processes
            job, limit_s = self._job, max(LEAST_EVIDENCE_WALL_S, self._clock.real_s(LIMIT_S))
            astray = tuple(found.pid for found in find_tagged(job.sweep_id, job.trial))
            subject = Subject(process.pid, process.log_tail(EVIDENCE_LINES), astray)
            keep_evidence(job.folder / "evidence", subject, self._tools.gpus, limit_s=limit_s)

    def _wait_until_ready(self, plan: LaunchPlan, process: Process) -> None:
        """Wait for proof that it serves: alive, healthy, and one token generated for us."""
        dialect = self._workload.dialect
        with self._ended_by_start():
            report = wait_until_ready(plan, process, self._job.log_path, self._tools, self, dialect)
        if report.dialect != dialect:
            self._workload = replace(self._workload, dialect=report.dialect)
            why = report.unspoken.get(dialect, "")
            self._remarks.append(f"measured through {report.dialect}, since {dialect} says: {why}")
        self._workers, self._start_phase = report.workers, ""
        self._start_phase_s = {p.value: round(t, 3) for p, t in report.phase_s.items()}
        self._notes.note("start", {"total_s": report.total_s, "phase_s": self._start_phase_s})

    @contextmanager
    def _ended_by_start(self) -> Iterator[None]:
        try:
            yield
        except StartFailure as end:
            self._start_phase = end.phase.value
            raise TrialEndError(end.outcome, end.reason, signature=end.signature) from end

    def check(self) -> None:
        """End the start if somebody wants that, or if no time is left for it."""
        self._check_orders()
        if self.left_s() <= 0:
            raise TrialEndError(Outcome.HUNG, "the trial's time ended during its start")

    def beat(self, phase: StartPhase) -> None:
        """Take a sign of life of a start."""
        sign = replace(self._sign(), detail=phase.value)
        if phase.value != self._start_phase:
            self._start_phase = phase.value
            self._notes.note(START_PHASE, {"phase": phase.value, "at_s": sign.elapsed_s})
        self._watch.report(sign)

    def _read_back(self, plan: LaunchPlan) -> None:
        """Note what the server made of the settings, by its own account."""
        info: Mapping[str, object] = {}
        try:
            info = self._tools.control(plan.url, CONTROL_S).info()
        except ControlError as error:
            why = f"no account of its settings: {error}"
            if not self._blame_the_server():
                raise TrialEndError(Outcome.FAILED, why) from error
            self._remarks.append(f"{why}; what its log and its processes tell stands for it")
        self._version = str(info.get("version") or self._version)
        marks = tags(self._job.sweep_id, self._job.trial)
        environments = read_environments(self._running.pid, marks, self._requested)
        with self._job.log_path.open(errors="replace") as log:
            told = account(info, self._requested, self._version, log=log, environments=environments)
        self._effective = told.settings
        data = {"settings": told.settings, "sources": told.sources, "version": self._version}
        self._notes.note("effective", data)

    def should_stop(self) -> bool:
        """Tell whether somebody wants the trial to end, or the server is gone."""
        return self._is_over() or self._going_on.ends_pass

    def _is_over(self) -> bool:
        """Tell whether somebody wants the trial to end, or the server is gone or maimed."""
        gone = self._running.poll() is not None
        return self._watch.order() is not None or gone or bool(self._lost_workers())

    def progress(self, seen: PassProgress) -> None:
        """Report the measured pass by its rate, the probe by its steps, others by their tokens."""
        self._going_on.take(seen, warming=self._phase is Phase.WARMING)
        sign = self._sign()
        if self._phase is not Phase.MEASURING and int(sign.elapsed_s) == self._sampled_s:
            self._watch.report(sign)
            return
        self._sampled_s = int(sign.elapsed_s)
        tokens = self._tokens_before + seen.output_tokens
        sign = replace(sign, tokens=tokens, accept_length=seen.accept_length)
        sign = self._with_rates(sign, seen)
        self._notes.sample(sign)
        self._watch.report(sign)

    def _with_rates(self, sign: TrialProgress, seen: PassProgress) -> TrialProgress:
        if self._phase is Phase.PROBING and self._course and self._course.probes_the_load:
            blocks = seen.chunk_blocks_per_s
            return replace(sign, step_blocks=blocks, steps_per_s=fmean(blocks) if blocks else None)
        if self._phase is not Phase.MEASURING:
            return sign
        rate, low, high = rate_around(seen.decode_blocks_per_s)
        told = replace(sign, tok_s=rate, low=low, high=high, blocks=seen.decode_blocks_per_s)
        length = 1.0 if self._job.config.is_plain else seen.accept_length
        if not rate or not length:
            return told
        streams = self._job.sweep.workload.concurrency
        return replace(told, steps_per_s=rate / length / streams)

    def keep(self, record: PassRecord) -> None:
        """Write a pass down; the trial ends here if the server is gone or has fallen silent."""
        self._notes.requests(self._phase, record)
        self._tokens_before += sum(request.output_tokens for request in record.requests)
        if self._job.config.is_plain:
            self._recorder.take(self._phase, record)
        if self._phase is Phase.COLD:
            outputs = Outputs.of(record, self._job.sweep.workload.temperature)
            write_json(self._job.outputs_path, outputs.as_data())
        if self._phase is Phase.MEASURING:
            self._read_log()
        self._check(self._running)
        self._check_requests(record)
        self._check_counts(record)
        self._prove_flush(record)

    def flush(self) -> None:
        """Empty the n-gram trie and the prefix cache, so that the cold pass is cold."""
        assert self._plan is not None, "planned before it was started"
        try:
            control = self._tools.control(self._plan.url, CONTROL_S)
            control.abort_all()  # a probe that met its deadline may still run
            self._unproved_flush = control.flush()
        except ControlError as error:
            self._blame_the_server()
            raise TrialEndError(Outcome.FAILED, f"the caches were not emptied: {error}") from error

    def _prove_flush(self, record: PassRecord) -> None:
        """Look for what the last flush left undone in the first request after it, if not known."""
        why, self._unproved_flush = self._unproved_flush, ""
        if not why:
            return
        first = min(record.requests, key=lambda request: request.sent_s, default=None)
        cached_tokens = first.cached_tokens if first else None
        proof = {
            None: "so that nothing proves that the caches were empty",
            0: "but the first prompt after it found none of its tokens in the prefix cache",
        }.get(cached_tokens, f"and the first prompt after it found {cached_tokens} tokens cached")
        self._remarks.append(f"after a flush {why}, {proof}")

    def _blame_the_server(self) -> bool:
        """Give a server that broke off the time to end, and end the trial if it has.

        Returns whether it serves on.
        """
        serves = self._going_on.serves(self._is_over)
        self._check(self._running)
        return serves

    @property
    def _running(self) -> Process:
        assert self._process is not None, "started before it is measured"
        return self._process

    @property
    def _going_on(self) -> ServerWatch:
        assert self._server_watch is not None, "started before it is measured"
        return self._server_watch

    def _judge(self, course: Course) -> tuple[Outcome, str]:
        measured = course.measured
        if measured is None or not any(r.decode_tokens for r in measured.requests):
            return Outcome.FAILED, why_unmeasured(measured)
        limit = f"the {self._job.sweep.budget.trial_s:g} s of the trial ended"
        if measured.cut_short and self.left_s() <= 0:
            return Outcome.PARTIAL, f"{limit} before its prompts"
        if course.unmade:
            return Outcome.MEASURED, f"{limit} before the passes with {', '.join(course.unmade)}"
        return Outcome.MEASURED, ""

    def _read_log(self) -> None:
        with self._job.log_path.open(errors="replace") as log:
            log.seek(self._log_from_bytes)
            lines = [line for line in log if "Decode batch" in line]
        self._log_lengths, self._log_rates = accept_lengths(lines), decode_rates(lines)

    def _check_orders(self) -> None:
        order = self._watch.order()
        if order is not None:
            stopped = order.kind is StopKind.BOUND
            outcome = Outcome.STOPPED if stopped else Outcome.CANCELLED
            raise TrialEndError(outcome, order.reason, order.bound)

    def _check(self, process: Process) -> None:
        """End the trial if somebody wants that, or if the server is gone or maimed."""
        self._check_orders()
        if self._notes.fault:
            raise TrialEndError(Outcome.FAILED, self._notes.fault)
        code = process.poll()
        if code is not None:
            tail = process.log_tail(EVIDENCE_LINES)
            why = explain_exit(code, tail, Moment.LOAD)
            reason = f"{with_quotes(why.reason, tail)} (while {self._phase.value})"
            raise TrialEndError(why.outcome, reason, signature=why.signature)
        if lost := self._lost_workers():
            raise TrialEndError(Outcome.FAILED, f"workers {lost}", signature=WORKER_LOST)

    def _lost_workers(self) -> str:
        return self._workers.verdict() if self._workers else ""

    def _check_requests(self, record: PassRecord) -> None:
        """End the trial if a stream fell silent, or more broke than a sound server breaks."""
        found, place = breakage_of(record), f"while {self._phase.value}"
        if self._going_on.verdict:
            finished = sum(r.end is EndReason.FINISHED for r in record.requests)
            counts = found or f"{finished} of {counted(len(record.requests), 'request')} finished"
            raise TrialEndError(Outcome.HUNG, f"{self._going_on.verdict} {place}: {counts}")
        if found is None:
            return
        if found.silent:
            raise TrialEndError(Outcome.HUNG, f"silent {place}: {found}")
        if found.broken or found.is_telling:
            self._check_broken(found)
        self._remarks.append(f"{place}, {found}")

    def _check_broken(self, found: Breakage) -> None:
        """Take a server that broke requests for what its end, its health or its log says it is."""
        serves = self._blame_the_server()
        if serves and not found.is_telling:
            return
        lives = "" if serves else "the server answers no more; "
        tail = self._running.log_tail(EVIDENCE_LINES)
        why = explain_exit(None, tail, Moment.LOAD)
        if why.signature:
            lives = f"{with_quotes(why.reason, tail)}; {lives}"
        outcome = why.outcome if why.signature else Outcome.FAILED
        reason = f"{lives}{found} (while {self._phase.value})"
        signature = why.signature or (MISCOUNTED if found.is_miscounted else "")
        raise TrialEndError(outcome, reason, signature=signature)

    def _check_counts(self, record: PassRecord) -> None:
        """End the trial if the token counts of a pass contradict each other."""
        measuring = self._phase is Phase.MEASURING
        drafts = self._effective.get("speculative_num_draft_tokens")
        varies = bool(self._effective.get("speculative_adaptive"))
        most = drafts if isinstance(drafts, int) and not varies else None
        theirs = ServerCounts(self._counted(), self._log_rates) if measuring else NO_COUNTS
        account = account_of(record, most, theirs)
        if account.contradiction:
            reason = f"no rate can be had while {self._phase.value}: {account.contradiction}"
            raise TrialEndError(Outcome.FAILED, reason, signature=MISCOUNTED)
        if measuring:
            self._remarks += account.told

    def _counted(self) -> Mapping[str, float]:
        """Return by how much the server's counters rose since the measured pass began."""
        assert self._plan is not None, "planned before it was started"
        now = self._tools.control(self._plan.url, COUNTERS_S).counters()
        before, self._counters = self._counters, now
        return {name: count - before.get(name, 0.0) for name, count in now.items()}

    def left_s(self) -> float:
        """Return how much of the trial's time is left."""
        return self._job.sweep.budget.trial_s - self.spent_s()

    def spent_s(self) -> float:
        """Return how much of it is over."""
        return self._clock.now_s() - self._started_s

    def enter(self, phase: Phase) -> None:
        """Begin a phase. What the server logs from here on belongs to it."""
        if phase is Phase.MEASURING:
            self._log_from_bytes = self._job.log_path.stat().st_size
            self._counted()
        now_s = self._clock.now_s()
        spent_s = now_s - self._phase_began_s
        self._phase_s[self._phase.value] = self._phase_s.get(self._phase.value, 0.0) + spent_s
        self._phase, self._phase_began_s = phase, now_s
        if phase not in (Phase.STOPPING, Phase.CLEAN):
            self._reached = phase
        self._notes.note(PHASE, {"phase": phase.value, "at_s": now_s - self._started_s})
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
            gpu_hours=billed_hours(self._job.host.gpus, elapsed_s),
            started_at=self._started_at,
            phase_s={name: round(spent_s, 3) for name, spent_s in self._phase_s.items()},
            estimates=estimates,
            notes=(*(self._course.notes(estimates) if self._course else ()), *self._remarks),
            bound=bound,
            effective=self._effective,
            requested=complete(self._requested),
            fingerprint=self._job.fingerprint,
            signature=self._signature,
            dirty=self._dirty,
            start_phase_s=self._start_phase_s,
            start_phase=self._start_phase,
            argv=plan.argv if plan else (),
            env=dict(plan.env) if plan else {},
            log_accept_length=fmean(lengths) if lengths else None,
        )

    def _estimates(self) -> dict[str, Estimate]:
        return self._course.estimates(self._job.baseline) if self._course else {}
