"""The search on Optuna's ask and tell: an Optuna study in SQLite is what stays of it.

The sampler reads a study in memory, and the file is written behind it by a thread of its own: a
transaction of SQLite waits for the disk, and a sampler that reads its trials from there takes a
quarter of a second before each start of a server. Only the driver writes.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial

from orchestrator.job import Purpose
from orchestrator.search.samplers import PlayedSampler, make_sampler
from orchestrator.search.seam import Guide, NoGuide, Proposal
from orchestrator.search.study_file import StudyFile, summary_of
from orchestrator.search.verdicts import NOTHING_LEARNT, REFUSED, Verdict
from sweeps.axes import Axis, Choice, IntRange
from sweeps.config import Config
from sweeps.results import Outcome, TrialResult
from sweeps.sampling import valid_samples
from sweeps.search.planner import Limits, Planner
from sweeps.search.steps import Step
from sweeps.sweep import FACTORISED, Sweep
from sweeps.values import Value

logger = logging.getLogger(__name__)

ASKS_PER_PROPOSAL = 10
"""Draws from the sampler before one at random is taken: samplers like to ask again for the best."""


class StudySearch:
    """Asks and tells; a new one over the same file continues where the last one ended.

    `results` are the ends of trials that are known from elsewhere: where the file lags behind them,
    because the driver was killed, they count and are not measured again. `guide` knows what need
    not, and must not, be started.
    """

    def __init__(
        self, sweep: Sweep, path: Path, name: str, results: Sequence[TrialResult] = (),
        guide: Guide | None = None,
    ) -> None:  # fmt: skip
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._sweep = sweep
        self._space = sweep.space
        self._guide = guide or NoGuide()
        directions = [
            StudyDirection.MAXIMIZE if upwards else StudyDirection.MINIMIZE
            for upwards in sweep.objective.directions.values()
        ]
        self._file = StudyFile(path, name, directions)
        kept = self._file.trials()
        # A sampler made anew with the same seed would repeat its first draws after a resume.
        seed = sweep.seed * 100_003 + len(kept)
        self._planner = self._make_planner() if sweep.sampler == FACTORISED else None
        sampler = (
            PlayedSampler() if self._planner else make_sampler(sweep.sampler, self._space, seed)
        )
        self._study = optuna.create_study(directions=directions, sampler=sampler)
        self._open: dict[int, Trial] = {}
        self._steps: dict[int, Step] = {}
        self._history = list(results)
        self._retries: list[tuple[Config, Purpose, int]] = []
        self._retry_of: dict[int, int] = {}
        self._next_number = 0
        self._seen: set[str] = set()
        self.collapsed = 0
        """How often a draw acted alike with one that was known."""
        self._take_up(kept, {result.number: result for result in results})

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
            config, purpose, retry = self._retries.pop(0)
            return self._propose(config, purpose, retry, "once more, after a fault")
        if self._planner is not None:
            return self._planned(self._planner)
        if self._next_number == 0:
            return self.repeat(self._space.plain(), Purpose.BASELINE)
        return self._sampled() or self._random_proposal()

    def repeat(self, config: Config, purpose: Purpose) -> Proposal:
        """Propose a configuration of the caller's choice."""
        return self._propose(config, purpose, 0)

    def tell(self, proposal: Proposal, result: TrialResult, *, retry: bool) -> None:
        """Take the outcome in, and have it written. `retry`: a fault is tried again."""
        verdict = Verdict.on(result, self._sweep.objective)
        verdict.tell(self._study, self._open.pop(proposal.number))
        self._steps.pop(proposal.number, None)
        self._history.append(result)
        self._file.ended(proposal.number, verdict, summary_of(result))
        if result.outcome is Outcome.FAILED and retry:
            self._retry(proposal)
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
            metric=sweep.objective.metric,
            higher_is_better=sweep.objective.higher_is_better,
            taste=sweep.taste,
        )

    def _planned(self, planner: Planner) -> Proposal | None:
        step = planner.next(self._history, tuple(self._steps.values()))
        if step is None:
            return None
        proposal = self._propose(step.config, step.purpose, 0, step.why)
        self._steps[proposal.number] = step
        return proposal

    def _sampled(self) -> Proposal | None:
        """Return a draw of the sampler; None where it has no news."""
        for _ in range(ASKS_PER_PROPOSAL):
            trial = self._study.ask()
            drawn = self._space.walk(lambda axis, trial=trial: _suggest(trial, axis))  # type: ignore[misc] # bound per draw
            if self._space.broken_rules(drawn) or self._guide.refusal(drawn):
                REFUSED.tell(self._study, trial)
                continue
            config = self._guide.canonical(drawn)
            if config.variant in self._seen:
                self.collapsed += config != drawn
                NOTHING_LEARNT.tell(self._study, trial)
            elif config != drawn:
                NOTHING_LEARNT.tell(self._study, trial)
                return self._propose(config, Purpose.SEARCH, 0)
            else:
                return self._hand_out(trial, Proposal(self._next_number, config, Purpose.SEARCH), 0)
        return None

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
                verdict = Verdict.on(results[number], self._sweep.objective)
                self._file.ended(number, verdict, summary_of(results[number]))
                verdict.tell(self._study, self._enqueued(config))
                outcome = results[number].outcome.value
            elif frozen.state.is_finished():
                self._study.add_trial(frozen)
            else:
                self._file.ended(number, NOTHING_LEARNT, {"outcome": "interrupted"})
                outcome = Outcome.CANCELLED.value
            if outcome == Outcome.CANCELLED.value:
                purpose = Purpose(frozen.user_attrs["purpose"])
                self._retries.append((config, purpose, frozen.user_attrs.get("retry", 0)))

    def _random_proposal(self) -> Proposal | None:
        seed = self._sweep.seed * 100_003 + self._next_number
        for drawn in valid_samples(self._space, seed):
            config = self._guide.canonical(drawn)
            if config.variant not in self._seen and not self._guide.refusal(config):
                return self._propose(config, Purpose.SEARCH, 0)
        return None

    def _propose(self, config: Config, purpose: Purpose, retry: int, why: str = "") -> Proposal:
        proposal = Proposal(self._next_number, config, purpose, why)
        return self._hand_out(self._enqueued(config), proposal, retry)

    def _enqueued(self, config: Config) -> Trial:
        """Return a trial of the study in memory that has this configuration."""
        self._study.enqueue_trial(dict(config))  # a played sampler is not even asked
        trial = self._study.ask()
        self._space.walk(lambda axis: _suggest(trial, axis))
        return trial

    def _hand_out(self, trial: Trial, proposal: Proposal, retry: int) -> Proposal:
        self._next_number += 1
        self._seen.add(proposal.config.variant)
        self._open[proposal.number] = trial
        self._retry_of[proposal.number] = retry
        self._file.started(proposal, retry, trial)
        return proposal

    def _retry(self, proposal: Proposal) -> None:
        retry = self._retry_of[proposal.number] + 1
        self._retries.append((proposal.config, proposal.purpose, retry))


def _suggest(trial: Trial, axis: Axis) -> Value:
    if isinstance(axis, Choice):
        return trial.suggest_categorical(axis.name, list(axis.values))
    if isinstance(axis, IntRange):
        return trial.suggest_int(axis.name, axis.low, axis.high, step=axis.step, log=axis.log)
    return trial.suggest_float(axis.name, axis.low, axis.high, log=axis.log)
