"""The search on Optuna: a study in memory that samples, a study in SQLite that keeps.

The only importer of Optuna. SQLAlchemy takes 50 to 100 ms for the dozen transactions of one trial,
so they are written behind the sweep, in order, by one thread; sampling in memory takes a few ms.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from orchestrator.job import Purpose
from orchestrator.search.seam import Proposal
from sweeps.axes import Axis, Choice, IntRange
from sweeps.config import Config
from sweeps.results import Outcome, TrialResult
from sweeps.sampling import valid_samples
from sweeps.sweep import Sweep
from sweeps.values import Value

logger = logging.getLogger(__name__)

ASKS_PER_PROPOSAL = 10
"""Draws from the sampler before one at random is taken: samplers like to ask again for the best."""

RETRY_CAP = 2

CONSTRAINT = "feasible"
"""Optuna's constraint: at most 0 where the configuration can run."""

STARTUP_TRIALS = 8

WRITE_BEHIND_S = 0.1
"""Wall seconds that a record waits, so as not to share the core with the start of a server."""

SAMPLER_MAKERS: dict[str, Callable[[int], BaseSampler]] = {
    "tpe": lambda seed: TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS),
    "random": lambda seed: RandomSampler(seed=seed),
}
"""Sampler name, as a space file gives it, to what makes it from a seed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an outcome means to Optuna.

    Measured and partial trials count with their value. Stopped ones are pruned, with the rate so
    far as a step value. Infeasible and hung ones are pruned under a violated constraint: a sampler
    learns nothing from failures and would ask for the same again. Faults are failures.
    """

    state: TrialState
    value: float | None = None
    step: tuple[int, float] | None = None
    constraint: float | None = None

    @classmethod
    def on(cls, result: TrialResult, metric: str) -> "Verdict":
        """Judge a result by the value of the objective."""
        value = result.value(metric)
        match result.outcome:
            case Outcome.MEASURED | Outcome.PARTIAL if value is not None:
                return cls(TrialState.COMPLETE, value, constraint=-1.0)
            case Outcome.STOPPED:
                tokens = int(result.value("output_tokens") or 0)
                step = None if value is None else (tokens, value)
                return cls(TrialState.PRUNED, step=step, constraint=-1.0)
            case Outcome.INFEASIBLE | Outcome.HUNG:
                return cls(TrialState.PRUNED, constraint=1.0)
            case _:
                return cls(TrialState.FAIL)

    def tell(self, study: optuna.Study, trial: Trial) -> None:
        """Write it into a study."""
        if self.constraint is not None:
            trial.set_constraint(CONSTRAINT, self.constraint)
        if self.step is not None:
            trial.report(self.step[1], step=self.step[0])
        study.tell(trial, self.value, state=self.state)


class StudySearch:
    """Asks and tells; a new one over the same file continues where the last one ended.

    `results` are the ends of trials that are known from elsewhere: where the file lags behind them,
    because the driver was killed, they count and are not measured again.
    """

    def __init__(
        self, sweep: Sweep, path: Path, name: str, results: Sequence[TrialResult] = ()
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._sweep = sweep
        self._space = sweep.space
        upwards = sweep.objective.higher_is_better
        direction = StudyDirection.MAXIMIZE if upwards else StudyDirection.MINIMIZE
        self._file = StudyFile(path, name, direction)
        kept = self._file.trials()
        # A sampler made anew with the same seed would repeat its first draws after a resume.
        seed = sweep.seed * 100_003 + len(kept)
        sampler = SAMPLER_MAKERS[sweep.sampler](seed)
        self._study = optuna.create_study(direction=direction, sampler=sampler)
        self._open: dict[int, Trial] = {}
        self._retries: list[tuple[Config, Purpose, int]] = []
        self._retry_of: dict[int, int] = {}
        self._next_number = 0
        self._seen: set[str] = set()
        self._take_up(kept, {result.number: result for result in results})

    @property
    def proposed(self) -> int:
        """Return how many proposals were made, those of an earlier run of the sweep included."""
        return self._next_number

    def ask(self) -> Proposal | None:
        """Return a retry, or a new configuration that obeys the rules and was not yet tried."""
        if self._retries:
            return self._propose(*self._retries.pop(0))
        if self._next_number == 0:
            return self.repeat(self._space.plain(), Purpose.BASELINE)
        for _ in range(ASKS_PER_PROPOSAL):
            trial = self._study.ask()
            config = self._space.walk(lambda axis, trial=trial: _suggest(trial, axis))  # type: ignore[misc] # bound per draw
            if self._space.broken_rules(config):
                Verdict(TrialState.PRUNED, constraint=1.0).tell(self._study, trial)
            elif config.variant in self._seen:
                self._study.tell(trial, state=TrialState.FAIL)
            else:
                return self._hand_out(trial, config, Purpose.SEARCH, 0)
        return self._random_proposal()

    def repeat(self, config: Config, purpose: Purpose) -> Proposal:
        """Propose a configuration of the caller's choice."""
        return self._propose(config, purpose, 0)

    def tell(self, proposal: Proposal, result: TrialResult) -> None:
        """Take the outcome in, and have it written."""
        verdict = Verdict.on(result, self._sweep.objective.metric)
        verdict.tell(self._study, self._open.pop(proposal.number))
        self._file.ended(proposal.number, verdict, _summary(result))
        if result.outcome is Outcome.FAILED:
            self._retry(proposal)

    def close(self) -> None:
        """Wait until everything is in the file. Safe to call twice."""
        self._file.close()

    def _take_up(self, kept: Sequence[FrozenTrial], results: Mapping[int, TrialResult]) -> None:
        """Learn from an earlier run, and try again what it left unfinished."""
        # Also those whose record was lost with a killed driver: their folders are taken.
        self._next_number = max((number + 1 for number in results), default=0)
        self._seen |= {result.config.variant for result in results.values()}
        for frozen in kept:
            number = int(frozen.user_attrs["number"])
            config = Config.of(frozen.user_attrs["config"])
            self._next_number = max(self._next_number, number + 1)
            self._seen.add(config.variant)
            outcome = frozen.user_attrs.get("result", {}).get("outcome")
            if not frozen.state.is_finished() and number in results:
                verdict = Verdict.on(results[number], self._sweep.objective.metric)
                self._file.ended(number, verdict, _summary(results[number]))
                verdict.tell(self._study, self._enqueued(config))
                outcome = results[number].outcome.value
            elif frozen.state.is_finished():
                self._study.add_trial(frozen)
            else:
                self._file.ended(number, Verdict(TrialState.FAIL), {"outcome": "interrupted"})
                outcome = Outcome.CANCELLED.value
            if outcome == Outcome.CANCELLED.value:
                purpose = Purpose(frozen.user_attrs["purpose"])
                self._retries.append((config, purpose, frozen.user_attrs.get("retry", 0)))

    def _random_proposal(self) -> Proposal | None:
        seed = self._sweep.seed * 100_003 + self._next_number
        for config in valid_samples(self._space, seed):
            if config.variant not in self._seen:
                return self._propose(config, Purpose.SEARCH, 0)
        return None

    def _propose(self, config: Config, purpose: Purpose, retry: int) -> Proposal:
        return self._hand_out(self._enqueued(config), config, purpose, retry)

    def _enqueued(self, config: Config) -> Trial:
        """Return a trial of the study in memory that has this configuration."""
        self._study.enqueue_trial(dict(config))
        trial = self._study.ask()
        self._space.walk(lambda axis: _suggest(trial, axis))
        return trial

    def _hand_out(self, trial: Trial, config: Config, purpose: Purpose, retry: int) -> Proposal:
        proposal = Proposal(self._next_number, config, purpose)
        self._next_number += 1
        self._seen.add(config.variant)
        self._open[proposal.number] = trial
        self._retry_of[proposal.number] = retry
        self._file.started(proposal, retry, trial)
        return proposal

    def _retry(self, proposal: Proposal) -> None:
        retry = self._retry_of[proposal.number] + 1
        if retry <= RETRY_CAP:
            self._retries.append((proposal.config, proposal.purpose, retry))
        else:
            logger.warning("%s failed %d times and is given up", proposal.config, retry)


class StudyFile:
    """The study that stays: every proposal and its end, written in order by one thread."""

    def __init__(self, path: Path, name: str, direction: StudyDirection) -> None:
        self._study = optuna.create_study(
            storage=f"sqlite:///{path.absolute()}",
            study_name=name,
            direction=direction,
            load_if_exists=True,
        )
        self._closing = threading.Event()
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="study-writer")
        self._ids = {int(t.user_attrs["number"]): t._trial_id for t in self.trials()}

    def trials(self) -> list[FrozenTrial]:
        """Read the trials of earlier runs."""
        return self._study.get_trials(deepcopy=False)

    def started(self, proposal: Proposal, retry: int, drawn: Trial) -> None:
        """Have a proposal written as a running trial."""
        attributes = {
            "number": proposal.number, "config": dict(proposal.config),
            "purpose": proposal.purpose.value, "retry": retry,
        }  # fmt: skip
        running = create_trial(
            state=TrialState.RUNNING,
            params=drawn.params,
            distributions=drawn.distributions,
            user_attrs=attributes,
        )
        self._do(lambda: self._add(proposal.number, running))

    def ended(self, number: int, verdict: Verdict, summary: Mapping[str, object]) -> None:
        """Have the end of a proposal written."""
        self._do(lambda: self._finish(number, verdict, summary))

    def close(self) -> None:
        """Wait for all that is still to be written."""
        self._closing.set()
        self._writer.shutdown(wait=True)

    def _do(self, write: Callable[[], None]) -> None:
        self._writer.submit(self._write_later, write).add_done_callback(_complain)

    def _write_later(self, write: Callable[[], None]) -> None:
        self._closing.wait(WRITE_BEHIND_S)
        write()

    def _add(self, number: int, running: FrozenTrial) -> None:
        self._ids[number] = self._study._storage.create_new_trial(
            self._study._study_id, template_trial=running
        )

    def _finish(self, number: int, verdict: Verdict, summary: Mapping[str, object]) -> None:
        trial = Trial(self._study, self._ids[number])
        trial.set_user_attr("result", dict(summary))  # one transaction, not one for each field
        verdict.tell(self._study, trial)


def _complain(done: "Future[None]") -> None:
    error = done.exception()
    if error is not None:
        logger.error("the study file lacks a record; the trial's folder has it", exc_info=error)


def _suggest(trial: Trial, axis: Axis) -> Value:
    if isinstance(axis, Choice):
        return trial.suggest_categorical(axis.name, list(axis.values))
    if isinstance(axis, IntRange):
        return trial.suggest_int(axis.name, axis.low, axis.high, step=axis.step, log=axis.log)
    return trial.suggest_float(axis.name, axis.low, axis.high, log=axis.log)


def _summary(result: TrialResult) -> dict[str, object]:
    return {
        "outcome": result.outcome.value,
        "reason": result.reason,
        "trial": result.trial,
        "gpu_hours": result.gpu_hours,
        "bound": result.bound,
        "emulated": result.emulated,
        "metrics": {name: estimate.value for name, estimate in result.estimates.items()},
    }
