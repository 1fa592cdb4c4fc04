"""One sweep while it runs: what is tried next, what came out, when it is over.

Drivers decide where and how many trials run; everything else is decided here, once for all drivers.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from infra import reaper
from infra.sglang.effective import parser_accepts
from infra.sglang.flags import NEWEST
from orchestrator.clocks import clock_scales
from orchestrator.early_stop import EarlyStop
from orchestrator.events import Follower, SweepStart, Tally
from orchestrator.files import read_json, write_json
from orchestrator.foretelling import PREDICTIONS_FILE, Foretelling
from orchestrator.goals import ranking_of
from orchestrator.health import SweepHealth
from orchestrator.hooks import Hooks
from orchestrator.job import (
    OUTPUTS_FILE,
    Purpose,
    StopOrder,
    TrialJob,
    TrialProgress,
)
from orchestrator.recorder import keep as keep_recording
from orchestrator.search.seam import Proposal, Search
from orchestrator.standing import Standing
from orchestrator.state import State
from orchestrator.tracking.review import SweepReview
from orchestrator.tracking.run_content import trial_card
from orchestrator.tracking.seam import Sample, SweepCard, Tracker
from sweeps.axes import holds_numbers
from sweeps.config import Config
from sweeps.effects import notes_of
from sweeps.factors import best_plain_step
from sweeps.hosts import HostSpec, hours_unit
from sweeps.ledger import Ledger, ledger
from sweeps.pins import first_plain, pins
from sweeps.quality import Outputs, judge
from sweeps.records import Baseline
from sweeps.results import Outcome, TrialResult
from sweeps.search.claims import Claim
from sweeps.search.planner import Planner
from sweeps.sweep import Sweep
from sweeps.values import Value, show

logger = logging.getLogger(__name__)

CLOSING_TRIALS = 2
"""The leader and plain decode once more, on fresh starts, at the end of a sweep."""

SMALLEST_WITH_CLOSING = 6
"""Sweeps of fewer trials spend all on the search."""


TRACKER_OPEN_S = 60.0
"""Wall seconds that a sweep waits for its tracker before the first trial."""


class RepeatingSearch(Search, Protocol):
    """A search that also takes configurations of its caller's choice."""

    def repeat(self, config: Config, purpose: Purpose) -> Proposal:
        """Propose a given configuration."""
        ...

    @property
    def proposed(self) -> int:
        """Return how many proposals were made."""
        ...

    @property
    def planner(self) -> Planner | None:
        """Return who plans the whole sweep, its end included; None where nobody does."""
        ...

    @property
    def ends_itself(self) -> bool:
        """Tell whether it also proposes what closes a sweep."""
        ...

    @property
    def collapsed(self) -> int:
        """Return how many draws acted alike with a configuration that was known."""
        ...


@dataclass(frozen=True, slots=True)
class Attendants:
    """Who is told what happens."""

    tracker: Tracker
    followers: Sequence[Follower]
    store: str = ""
    """Where the tracker keeps its runs, in words."""


@dataclass(frozen=True, slots=True)
class Past:
    """What earlier runs of a sweep brought."""

    results: Sequence[TrialResult]
    aside_gpu_hours: float = 0.0
    """Spent on trials that an edit of the space left outside; the budget paid for them too."""


class SweepRun:
    """The one place that hands out trials and takes results. Used by one thread at a time."""

    def __init__(
        self, sweep_id: str, sweep: Sweep, state: State, search: RepeatingSearch,
        attendants: Attendants, health: SweepHealth | None = None,
        fingerprints: Mapping[str, str] | None = None,
        past: Past | None = None,
    ) -> None:  # fmt: skip
        """`fingerprints` are those of the hosts as they were probed, by name.

        A `past` that is not given is read from the state folder.
        """
        self.sweep_id, self.sweep = sweep_id, sweep
        self._state, self._search = state, search
        self._tracker, self._followers = attendants.tracker, attendants.followers
        self._store = attendants.store
        self._open: dict[str, tuple[TrialJob, Proposal]] = {}
        self._past = past or Past(state.results(sweep_id))
        self._results = list(self._past.results)
        self._hours_unit = hours_unit(host.gpus for host in sweep.hosts)
        self._standing = Standing(sweep.objective, self._results, self._hours_unit)
        self._references = self._known_references()
        self._resumed = self._standing.counted
        self._began_s = time.monotonic()
        self._exhausted = False
        self._early_stop = EarlyStop(sweep, search.planner)
        self._foretelling = Foretelling(
            state.sweep_folder(sweep_id) / PREDICTIONS_FILE, search.planner,
            emulated=any(host.emulated for host in sweep.hosts),
        )  # fmt: skip
        self.health = health or SweepHealth(sweep, len(self._results))
        self.health.look(self._results)
        self._fingerprints = fingerprints or {}
        self.hooks = Hooks()
        self.turns = 0
        """How often the control loop came by, for whoever watches it."""

    @property
    def results(self) -> list[TrialResult]:
        """Return all results so far."""
        return list(self._results)

    @property
    def drafts_path(self) -> Path:
        """Return where a simulated driver keeps drafts that other sweeps make too."""
        return self._state.drafts_path

    @property
    def open_jobs(self) -> list[TrialJob]:
        """Return what runs now."""
        return [job for job, _ in self._open.values()]

    def start(self) -> None:
        """Tell everybody that the sweep begins."""
        emulated = any(host.emulated for host in self.sweep.hosts)
        self.hooks.call(self._tracker.sweep_started, self._card)
        start = SweepStart(self.sweep_id, self.sweep, emulated, self._resumed, self._store)
        for follower in self._followers:
            self.hooks.call(follower.sweep_started, start)

    def settle(self) -> None:
        """Let the tracker's start-up pass, so that the first trial has the machine to itself."""
        opened = self._tracker.wait_open(TRACKER_OPEN_S)
        logger.info("sweep=%s tracker open: %s", self.sweep_id, opened)
        if not opened:
            logger.warning("the tracker did not open in %g s; the sweep begins", TRACKER_OPEN_S)

    def next_job(self, host: HostSpec) -> TrialJob | None:
        """Hand out the next trial for a host; None when there is none now."""
        self.turns += 1
        proposal = None if host.name in self.health.quarantined else self._next_proposal()
        if proposal is None:
            return None
        job = TrialJob(
            trial=f"{self.sweep_id}-{proposal.number:04d}",
            sweep_id=self.sweep_id,
            number=proposal.number,
            sweep=self.sweep,
            config=proposal.config,
            host=host,
            folder=self._state.trial_folder(self.sweep_id, proposal.number),
            purpose=proposal.purpose,
            baseline=self._baseline(host.name),
            why=proposal.why,
            pins=self._pins(host),
            fingerprint=self._fingerprints.get(host.name, ""),
            retry_of=proposal.retry_of,
            state=reaper.works_for(),
        )
        job.folder.mkdir(parents=True, exist_ok=True)
        logger.info(
            "sweep=%s trial=%s starts on %s: %s", self.sweep_id, job.trial, host.name, job.config
        )
        self._open[job.trial] = (job, proposal)
        self._early_stop.begin(job, self._results)
        self._foretelling.begin(job.number, job.config, self._results, proposal.promised_gain)
        card = trial_card(
            self._card, job.trial, job.number, job.config, job.purpose.value,
            emulated=host.emulated,
        )  # fmt: skip
        self.hooks.call(self._tracker.trial_started, card)
        for follower in self._followers:
            self.hooks.call(follower.trial_started, job)
        return job

    @property
    def is_over(self) -> bool:
        """Tell whether nothing runs and nothing will be handed out."""
        self.turns += 1
        return not self._open and self._nothing_left()

    def on_progress(self, progress: TrialProgress) -> StopOrder | None:
        """Take a sign of life; return the order to stop where that is justified."""
        self.turns += 1
        if progress.trial not in self._open:
            return None
        if progress.tells_numbers:
            sample = Sample(
                progress.elapsed_s, progress.tok_s, progress.low, progress.high,
                progress.accept_length, progress.steps_per_s, progress.tokens,
            )  # fmt: skip
            self.hooks.call(self._tracker.progress, progress.trial, sample)
        tally = self.tally()
        for follower in self._followers:
            self.hooks.call(follower.progress, progress, tally)
        return self._early_stop.look(self._open[progress.trial][0], progress)

    def on_result(self, result: TrialResult) -> None:
        """Take the end of a trial."""
        opened = self._open.pop(result.trial, None)
        if opened is None:
            return
        job, proposal = opened
        logger.info(
            "sweep=%s trial=%s %s %s", self.sweep_id, result.trial, result.outcome, result.reason
        )
        self._early_stop.learn(result)
        result = self._judged(job, result)
        self._results.append(result)
        self._standing.add(result)
        self.health.look(self._results)
        attempts = self._standing.faults_of(result.config)
        self._search.tell(proposal, result, retry=self.health.may_retry(result, attempts))
        if result.outcome is Outcome.FAILED:
            self._exhausted = False  # it may be tried again
        self.hooks.call(self._tracker.trial_ended, result, job.folder)
        tally = self.tally()
        for follower in self._followers:
            self.hooks.call(follower.trial_ended, result, tally)

    def end(self, status: str, review: SweepReview | None = None) -> None:
        """Tell everybody that the sweep is over, and the tracker what it came to."""
        logger.info("sweep=%s %s", self.sweep_id, status)
        self._search.close()
        self.hooks.call(self._tracker.sweep_ended, status, review)
        for follower in self._followers:
            self.hooks.call(follower.sweep_ended, status)

    def claim(self) -> Claim | None:
        """Return what the search claims; None where nobody plans, or nothing was measured."""
        planner = self._search.planner
        return None if planner is None else planner.claim(self._results)

    @property
    def collapsed(self) -> int:
        """Return how many configurations were asked for that act alike with a known one."""
        return self._search.collapsed

    def ledger(self) -> Ledger:
        """Return where the GPU-hours went."""
        scales = clock_scales(self._state.card(self.sweep_id))
        return ledger(self._results, scales, collapsed=self.collapsed, unit=self._hours_unit)

    def tally(self) -> Tally:
        """Sum up where the sweep stands."""
        elapsed_s = time.monotonic() - self._began_s
        return self._standing.tally(
            self.sweep.budget.trials, self._resumed, elapsed_s, self._past.aside_gpu_hours
        )  # fmt: skip

    def _baseline(self, host: str) -> Baseline | None:
        """Return the step of the best plain decode on a host, once there is one."""
        step = best_plain_step(self._standing.plain_on(host), host)
        return Baseline(step.value, step.low, step.high) if step else None

    def _judged(self, job: TrialJob, result: TrialResult) -> TrialResult:
        """Compare a trial with plain decode on its host: what it wrote, and how it ran."""
        keep_recording(self._state, job.recording_path)
        plain = first_plain(self._standing.plain_on(result.host), result.host)
        notes = notes_of(result, plain, self.sweep.workload)
        wrong = self._foretelling.disagreement(result)
        judged = replace(result, notes=(*result.notes, *notes, *filter(None, [wrong])))
        outputs = _outputs(job.outputs_path)
        if outputs and result.config.is_plain and result.host not in self._references:
            self._references[result.host] = outputs
        reference = self._references.get(result.host)
        if outputs and reference:
            report = judge(outputs, reference)
            judged = replace(judged, quality=report.verdict, quality_note=report.reason)
        if judged != result:
            write_json(job.result_path, judged.as_data())
        return judged

    def _pins(self, host: HostSpec) -> dict[str, Value]:
        """Return the capacity settings that all arms on a host have in common."""
        version = host.version or NEWEST
        plain = self._standing.plain_on(host.name)
        return pins(plain, host.name, self.sweep, lambda n, v: parser_accepts(n, v, version))

    def _known_references(self) -> dict[str, Outputs]:
        """Find the texts of the first plain decode of each host among the results so far."""
        found: dict[str, Outputs] = {}
        for result in self._results:
            if result.config.is_plain and result.host not in found:
                folder = self._state.trial_folder(self.sweep_id, result.number)
                if outputs := _outputs(folder / OUTPUTS_FILE):
                    found[result.host] = outputs
        return found

    def _gpu_hours(self) -> float:
        return self._past.aside_gpu_hours + self._standing.gpu_hours

    def _left(self) -> int:
        """Return how many trials may still be handed out."""
        limit = self.sweep.budget.gpu_hours
        if limit is not None and self._gpu_hours() >= limit:
            return 0
        return max(0, self.sweep.budget.trials - self._standing.counted - len(self._open))

    def _nothing_left(self) -> bool:
        return self._left() == 0 or self._exhausted or self.health.trouble is not None

    def _next_proposal(self) -> Proposal | None:
        if self._nothing_left():
            return None
        if not self._search.ends_itself and self._is_closing():
            return self._closing_proposal() or self._ask()
        return self._ask()

    def _ask(self) -> Proposal | None:
        proposal = self._search.ask()
        # What runs may give a plan more to do.
        self._exhausted = proposal is None and not self._open
        return proposal

    def _is_closing(self) -> bool:
        large = self.sweep.budget.trials >= SMALLEST_WITH_CLOSING
        return large and self._search.proposed > 0 and self._left() <= CLOSING_TRIALS

    def _closing_proposal(self) -> Proposal | None:
        """Measure the leader again, on a fresh start, and plain decode beside it.

        That is the best plain decode; where it leads itself, the baseline of all defaults.
        """
        asked = [job.purpose for job in self.open_jobs] + [r.purpose for r in self._results]
        ranking = ranking_of(self.sweep.objective, self._results)
        if ranking.best is None:
            return None
        best_plain = ranking.plain.config if ranking.plain else self.sweep.space.plain()
        beside = self.sweep.space.plain() if ranking.best.config.is_plain else best_plain
        if Purpose.CONFIRM not in asked:
            return self._search.repeat(ranking.best.config, Purpose.CONFIRM)
        if asked.count(Purpose.BASELINE) < 2:
            return self._search.repeat(beside, Purpose.BASELINE)
        return None

    @cached_property
    def _card(self) -> SweepCard:
        sweep = self.sweep
        emulated = any(host.emulated for host in sweep.hosts)
        params = {
            "model": sweep.model.path,
            "space": sweep.key,
            "objective": sweep.objective.metric,
            "trials": str(sweep.budget.trials),
            "seed": str(sweep.seed),
            "sampler": sweep.sampler,
            "hosts": ", ".join(host.name for host in sweep.hosts),
            **{f"fixed.{name}": show(value) for name, value in sweep.fixed.items()},
            **{f"workload.{n}": str(v) for n, v in sweep.workload.as_data().items()},
        }
        return SweepCard(
            self.sweep_id, sweep.name, emulated, params, {"space": sweep.key},
            sweep.objective.metric, higher_is_better=sweep.objective.higher_is_better,
            axes={axis.name: holds_numbers(axis) for axis in sweep.axes},
            plain=dict(sweep.space.plain()),
        )  # fmt: skip


def _outputs(path: Path) -> Outputs | None:
    data = read_json(path)
    return Outputs.from_data(data) if data else None
