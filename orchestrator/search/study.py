"""The search on an Optuna study; the only importer of Optuna."""

import logging
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import optuna
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import Trial, TrialState

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

SAMPLER_MAKERS: dict[str, Callable[[int], BaseSampler]] = {
    "tpe": lambda seed: TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS),
    "random": lambda seed: RandomSampler(seed=seed),
}
"""Sampler name, as a space file gives it, to what makes it from a seed."""


class StudySearch:
    """Asks and tells an Optuna study in a file; a new one over the same file continues it.

    Measured and partial trials are told with their value, stopped ones as pruned with their bound,
    infeasible and hung ones as pruned with a violated constraint (a sampler learns nothing from
    failures and would ask for the same again), faults of the host as failed and tried again.
    """

    def __init__(self, sweep: Sweep, path: Path, name: str) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._sweep = sweep
        self._space = sweep.space
        self._study = optuna.create_study(
            storage=f"sqlite:///{path.absolute()}",
            study_name=name,
            direction="maximize" if sweep.objective.higher_is_better else "minimize",
            load_if_exists=True,
        )
        self._open: dict[int, Trial] = {}
        self._retries: list[tuple[Config, Purpose, int]] = []
        self._next_number = 0
        self._seen: set[str] = set()
        self._take_up()
        self._study.sampler = self._make_sampler()

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
            if broken := self._space.broken_rules(config):
                self._refuse(trial, broken[0].message)
            elif config.variant in self._seen:
                self._study.tell(trial, state=TrialState.FAIL)
            else:
                return self._hand_out(trial, config, Purpose.SEARCH, 0)
        return self._random_proposal()

    def repeat(self, config: Config, purpose: Purpose) -> Proposal:
        """Propose a configuration of the caller's choice."""
        return self._propose(config, purpose, 0)

    def tell(self, proposal: Proposal, result: TrialResult) -> None:
        """Write the outcome into the study."""
        trial = self._open.pop(proposal.number)
        for name, value in _attributes(result).items():
            trial.set_user_attr(name, value)
        value = result.value(self._sweep.objective.metric)
        match result.outcome:
            case Outcome.MEASURED | Outcome.PARTIAL if value is not None:
                trial.set_constraint(CONSTRAINT, -1.0)
                self._study.tell(trial, value)
            case Outcome.STOPPED:
                trial.set_constraint(CONSTRAINT, -1.0)
                self._prune(trial, result)
            case Outcome.INFEASIBLE | Outcome.HUNG:
                self._refuse(trial, result.reason)
            case _:
                self._study.tell(trial, state=TrialState.FAIL)
                if result.outcome is not Outcome.CANCELLED:
                    self._retry(proposal, trial)

    def _prune(self, trial: Trial, result: TrialResult) -> None:
        """Tell a stopped trial with its rate so far as a step value, which is not its result."""
        value, tokens = result.value(self._sweep.objective.metric), result.value("output_tokens")
        if value is not None:
            trial.report(value, step=int(tokens or 0))
        self._study.tell(trial, state=TrialState.PRUNED)

    def _random_proposal(self) -> Proposal | None:
        seed = self._sweep.seed * 100_003 + self._next_number
        for config in valid_samples(self._space, seed):
            if config.variant not in self._seen:
                return self._propose(config, Purpose.SEARCH, 0)
        return None

    def _take_up(self) -> None:
        """Continue an earlier run: close what ran when it ended, and try that again."""
        for frozen in self._study.get_trials(deepcopy=False):
            if "number" not in frozen.user_attrs:
                continue
            self._next_number = max(self._next_number, frozen.user_attrs["number"] + 1)
            config = Config.of(frozen.user_attrs["config"])
            self._seen.add(config.variant)
            cancelled = frozen.user_attrs.get("outcome") == Outcome.CANCELLED.value
            if frozen.state is TrialState.RUNNING:
                self._study.tell(frozen.number, state=TrialState.FAIL)
            if frozen.state is TrialState.RUNNING or cancelled:
                purpose = Purpose(frozen.user_attrs["purpose"])
                self._retries.append((config, purpose, frozen.user_attrs.get("retry", 0)))

    def _make_sampler(self) -> BaseSampler:
        # A sampler made anew with the same seed would repeat its first draws after a resume.
        seed = self._sweep.seed * 100_003 + len(self._study.get_trials(deepcopy=False))
        return SAMPLER_MAKERS[self._sweep.sampler](seed)

    def _propose(self, config: Config, purpose: Purpose, retry: int) -> Proposal:
        with warnings.catch_warnings():
            # Axes that do not exist under this configuration are no parameters of the trial.
            warnings.simplefilter("ignore", UserWarning)
            self._study.enqueue_trial(dict(config))
        trial = self._study.ask()
        self._space.walk(lambda axis: _suggest(trial, axis))
        return self._hand_out(trial, config, purpose, retry)

    def _hand_out(self, trial: Trial, config: Config, purpose: Purpose, retry: int) -> Proposal:
        proposal = Proposal(self._next_number, config, purpose)
        self._next_number += 1
        self._seen.add(config.variant)
        self._open[proposal.number] = trial
        trial.set_user_attr("number", proposal.number)
        trial.set_user_attr("config", dict(config))
        trial.set_user_attr("purpose", purpose.value)
        trial.set_user_attr("retry", retry)
        return proposal

    def _refuse(self, trial: Trial, why: str) -> None:
        trial.set_constraint(CONSTRAINT, 1.0)
        trial.set_user_attr("refused", why)
        self._study.tell(trial, state=TrialState.PRUNED)

    def _retry(self, proposal: Proposal, trial: Trial) -> None:
        retry = int(trial.user_attrs.get("retry", 0)) + 1
        if retry <= RETRY_CAP:
            self._retries.append((proposal.config, proposal.purpose, retry))
        else:
            logger.warning("%s failed %d times and is given up", proposal.config, retry)


def _suggest(trial: Trial, axis: Axis) -> Value:
    if isinstance(axis, Choice):
        return trial.suggest_categorical(axis.name, list(axis.values))
    if isinstance(axis, IntRange):
        return trial.suggest_int(axis.name, axis.low, axis.high, step=axis.step, log=axis.log)
    return trial.suggest_float(axis.name, axis.low, axis.high, log=axis.log)


def _attributes(result: TrialResult) -> Mapping[str, object]:
    return {
        "outcome": result.outcome.value,
        "reason": result.reason,
        "trial": result.trial,
        "gpu_hours": result.gpu_hours,
        "bound": result.bound,
        "emulated": result.emulated,
        **{name: estimate.value for name, estimate in result.estimates.items()},
    }
