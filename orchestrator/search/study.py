"""The search on Optuna's ask and tell: an Optuna study in SQLite is what stays of it.

The sampler reads a study in memory, and the file is written behind it by a thread of its own: a
transaction of SQLite waits for the disk, and a sampler that reads its trials from there takes a
quarter of a second before each start of a server. Only the driver writes.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, create_trial

from orchestrator.job import Purpose
from orchestrator.search.samplers import PlayedSampler, make_sampler
from orchestrator.search.seam import Guide, NoGuide, Proposal
from orchestrator.search.study_file import StudyFile, attributes_of, drop_study, summary_of
from orchestrator.search.verdicts import NOTHING_LEARNT, REFUSED, Verdict
from sweeps.axes import Axis, Choice, IntRange
from sweeps.config import Config
from sweeps.definition import definition, study_key
from sweeps.results import Outcome, TrialResult
from sweeps.sampling import valid_samples
from sweeps.search.brief import NO_FORESIGHT, Limits, Objective
from sweeps.search.names import Names
from sweeps.search.planner import Planner
from sweeps.search.steps import Step
from sweeps.sweep import FACTORISED, Sweep
from sweeps.values import Value

logger = logging.getLogger(__name__)

FORGETFUL = ("random",)
"""Samplers that draw without a look at earlier trials."""
ASKS_PER_PROPOSAL = 10
"""Draws from the sampler before one at random is taken: samplers like to ask again for the best."""


class StudySearch:
    """Asks and tells; a new one over the same file continues where the last one ended.

    `results` are the ends of trials that are known from elsewhere: where the file lags behind them,
    because the driver was killed or the file was lost, they count and are not measured again.
    `guide` knows what need not, and must not, be started. `again` are those of the results that
    are to be tried again; `key` is that of the study, where the sweep cannot tell it.
    """

    def __init__(
        self, sweep: Sweep, path: Path, name: str, results: Sequence[TrialResult] = (),
        guide: Guide | None = None, *, again: Sequence[TrialResult] = (), first_number: int = 0,
        key: str = "",
    ) -> None:  # fmt: skip
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._sweep = sweep
        self._space = sweep.space
        self._guide = guide or NoGuide()
        directions = [
            StudyDirection.MAXIMIZE if upwards else StudyDirection.MINIMIZE
            for upwards in sweep.objective.directions.values()
        ]
        self._file = StudyFile(path, name, directions, key or study_key(definition(sweep)))
        known = {result.number: result for result in results}
        # Also those whose record was lost with a killed driver: their folders are taken.
        self._next_number = max([first_number, *(n + 1 for n in self._file.numbers | known.keys())])
        # A sampler made anew with the same seed would repeat its first draws after a resume.
        seed = sweep.seed * 100_003 + self._next_number
        self._planner = self._make_planner() if sweep.sampler == FACTORISED else None
        sampler = (
            PlayedSampler() if self._planner else make_sampler(sweep.sampler, self._space, seed)
        )
        self._study = optuna.create_study(directions=directions, sampler=sampler)
        self._open: dict[int, Trial] = {}
        self._steps: dict[int, Step] = {}
        self._history = list(results)
        self._names = self._names_now()
        self._retries = [_once_more(result) for result in again]
        self._seen: set[str] = set()
        self.collapsed = 0
        """How often a draw acted alike with one that was known."""
        self._take_all_up(known)

    @property
    def ends_itself(self) -> bool:
        """Tell whether a plan leads to the confirmed end."""
        return self._planner is not None

    @property
    def proposed(self) -> int:
        """Return how many proposals were made, those of an earlier run of the sweep included."""
        return self._next_number

    @property
    def planner(self) -> Planner | None:
        """Return who plans the whole sweep; None where a sampler only proposes."""
        return self._planner

    def ask(self) -> Proposal | None:
        """Return a retry, or a new configuration that obeys the rules and was not yet tried."""
        if self._retries:
            return self._propose(self._retries.pop(0))
        if self._planner is not None:
            return self._planned(self._planner)
        if self._next_number == 0:
            return self.repeat(self._space.plain(), Purpose.BASELINE)
        return self._sampled() or self._random_proposal()

    def repeat(self, config: Config, purpose: Purpose) -> Proposal:
        """Propose a configuration of the caller's choice."""
        return self._propose(_Wanted(config, purpose))

    def tell(self, proposal: Proposal, result: TrialResult, *, retry: bool) -> None:
        """Take the outcome in, and have it written. `retry`: a fault is tried again."""
        verdict = Verdict.on(result, self._sweep.objective)
        verdict.tell(self._study, self._open.pop(proposal.number))
        self._steps.pop(proposal.number, None)
        self._history.append(result)
        self._names = self._names_now()
        self._file.ended(proposal.number, self._told(result))
        if result.outcome is Outcome.FAILED and retry:
            self._retries.append(_once_more(result))
        elif result.outcome is Outcome.FAILED:
            logger.warning("%s failed and is given up: %s", proposal.config, result.reason)

    def close(self) -> None:
        """Wait until everything is in the file. Safe to call twice."""
        self._file.close()

    def _make_planner(self) -> Planner:
        sweep = self._sweep
        return Planner(
            self._space,
            canonical=self._guide.canonical,
            refusal=self._guide.refusal,
            seed=sweep.seed,
            limits=Limits(sweep.budget.trials, sweep.budget.gpu_hours),
            objective=Objective(sweep.objective.metric, sweep.objective.higher_is_better),
            taste=sweep.taste,
            foresight=self._guide.foresight if sweep.prediction else NO_FORESIGHT,
            by_accounts=not sweep.keep_inert,
        )

    def _names_now(self) -> Names:
        """Return what is known of names, for samplers that propose one by one."""
        told = () if self._sweep.keep_inert else tuple(self._history)
        return Names(self._space, told, self._guide.canonical)

    def _planned(self, planner: Planner) -> Proposal | None:
        step = planner.next(self._history, tuple(self._steps.values()))
        if step is None:
            return None
        wanted = _Wanted(step.config, step.purpose, step.why, promised_gain=step.gain_fraction)
        proposal = self._propose(wanted)
        self._steps[proposal.number] = step
        return proposal

    def _sampled(self) -> Proposal | None:
        """Return a draw of the sampler; None where it has no news."""
        for _ in range(ASKS_PER_PROPOSAL):
            trial = self._study.ask()
            drawn = self._space.walk(lambda axis, trial=trial: _suggest(trial, axis))  # type: ignore[misc] # bound per draw
            config = self._names.canonical(drawn)
            if self._space.broken_rules(drawn) or any(map(self._guide.refusal, (drawn, config))):
                REFUSED.tell(self._study, trial)
                continue
            if config.variant in self._seen:
                self.collapsed += config != drawn
                NOTHING_LEARNT.tell(self._study, trial)
            elif config != drawn:
                NOTHING_LEARNT.tell(self._study, trial)
                return self._propose(_Wanted(config))
            else:
                return self._hand_out(trial, Proposal(self._next_number, config, Purpose.SEARCH))
        return None

    def _take_all_up(self, known: Mapping[int, TrialResult]) -> None:
        """Learn from the trials of earlier runs, and bring the file up to date."""
        forgets = self._planner is not None or self._sweep.sampler in FORGETFUL
        whole = {} if forgets else self._file.trials()
        for number in sorted(self._file.numbers | known.keys()):
            result = known.get(number)
            if number in self._file.ended_before:
                if not forgets:
                    self._study.add_trial(_lean(whole[number]))
                config = result.config if result else _config_of(self._file.trial(number))
                self._seen.add(config.variant)
            elif result is not None:
                self._seen.add(result.config.variant)
                told = self._told(result)
                if not forgets:
                    self._study.add_trial(_lean(told))
                self._file.ended(number, told)
            else:
                self._close_cut_off(number, self._file.trial(number))

    def _close_cut_off(self, number: int, frozen: FrozenTrial) -> None:
        """Close a trial that was handed out and never began; it is tried again."""
        config = _config_of(frozen)
        self._seen.add(config.variant)
        attributes = {**frozen.user_attrs, "result": {"outcome": "interrupted"}}
        told = NOTHING_LEARNT.told(frozen.params, frozen.distributions, attributes)
        self._file.ended(number, told)
        if any(wanted.config == config for wanted in self._retries):
            return  # it was to try again what still waits for that
        purpose = Purpose(frozen.user_attrs["purpose"])
        why = f"trial {number} once more: it was cut off before it began"
        self._retries.append(_Wanted(config, purpose, why, number))

    def _told(self, result: TrialResult) -> FrozenTrial:
        """Return a trial as its end would have left it in the file."""
        distributions: dict[str, BaseDistribution] = {}

        def pick(axis: Axis) -> Value:
            distributions[axis.name] = _distribution(axis)
            return result.config[axis.name]

        config = self._space.walk(pick)
        purpose = Purpose(result.purpose)
        proposal = Proposal(result.number, config, purpose, result.why, result.retry_of)
        attributes = {**attributes_of(proposal), "result": summary_of(result)}
        return Verdict.on(result, self._sweep.objective).told(config, distributions, attributes)

    def _random_proposal(self) -> Proposal | None:
        seed = self._sweep.seed * 100_003 + self._next_number
        for drawn in valid_samples(self._space, seed):
            config = self._names.canonical(drawn)
            if config.variant not in self._seen and not self._guide.refusal(config):
                return self._propose(_Wanted(config))
        return None

    def _propose(self, wanted: "_Wanted") -> Proposal:
        number = self._next_number
        proposal = Proposal(
            number, wanted.config, wanted.purpose, wanted.why, wanted.retry_of,
            wanted.promised_gain,
        )  # fmt: skip
        return self._hand_out(self._enqueued(wanted.config), proposal)

    def _enqueued(self, config: Config) -> Trial:
        """Return a trial of the study in memory that has this configuration."""
        self._study.enqueue_trial(dict(config))  # a played sampler is not even asked
        trial = self._study.ask()
        self._space.walk(lambda axis: _suggest(trial, axis))
        return trial

    def _hand_out(self, trial: Trial, proposal: Proposal) -> Proposal:
        self._next_number += 1
        self._seen.add(proposal.config.variant)
        self._open[proposal.number] = trial
        self._file.started(proposal, trial)
        return proposal


def write_study(
    sweep: Sweep, path: Path, name: str, results: Sequence[TrialResult], key: str
) -> None:
    """Make a study again from the results of its trials, whatever the file holds of it."""
    drop_study(path, name)
    StudySearch(sweep, path, name, results, key=key).close()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be proposed."""

    config: Config
    purpose: Purpose = Purpose.SEARCH
    why: str = ""
    retry_of: int | None = None
    promised_gain: float | None = None


def _config_of(frozen: FrozenTrial) -> Config:
    return Config.of(frozen.user_attrs["config"])


def _lean(told: FrozenTrial) -> FrozenTrial:
    """Return a trial without our notes on it: a study in memory copies all of it."""
    return create_trial(
        state=told.state, values=told.values, params=told.params,
        distributions=told.distributions, system_attrs=told.system_attrs,
        intermediate_values=told.intermediate_values,
    )  # fmt: skip


def _once_more(result: TrialResult) -> _Wanted:
    why = f"trial {result.number} once more: {result.reason}"
    return _Wanted(result.config, Purpose(result.purpose), why, result.number)


def _suggest(trial: Trial, axis: Axis) -> Value:
    if isinstance(axis, Choice):
        return trial.suggest_categorical(axis.name, list(axis.values))
    if isinstance(axis, IntRange):
        return trial.suggest_int(axis.name, axis.low, axis.high, step=axis.step, log=axis.log)
    return trial.suggest_float(axis.name, axis.low, axis.high, log=axis.log)


def _distribution(axis: Axis) -> BaseDistribution:
    """Return what `_suggest` makes a trial draw from."""
    if isinstance(axis, Choice):
        return CategoricalDistribution(list(axis.values))
    if isinstance(axis, IntRange):
        return IntDistribution(axis.low, axis.high, step=axis.step, log=axis.log)
    return FloatDistribution(axis.low, axis.high, log=axis.log)
