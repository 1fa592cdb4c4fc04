"""Decides whether a running trial is surely worse than the leader.

Steps come first: their rate is known within a few percent after three blocks of the step probe,
and no verify step can bring more tokens than its draft allows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from infra.engines import complete
from orchestrator.job import Purpose, StopKind, StopOrder, TrialJob, TrialProgress
from sweeps.config import Config
from sweeps.factors import Ceiling, ceiling_of
from sweeps.limits import Limit
from sweeps.peer_rules import PEER_RULES
from sweeps.ranking import incumbent_bar
from sweeps.results import Outcome, Phase, TrialResult
from sweeps.search.planner import Planner
from sweeps.search.roles import drafting_of
from sweeps.stopping import StopDecision, decide
from sweeps.sweep import Sweep

OBJECTIVE = "decode_tok_s"
"""The only objective whose bound blocks of tokens or steps can give."""

SPARED = (Purpose.BASELINE, Purpose.CONFIRM)
"""What others are compared with is measured to its end."""

ALPHA = 0.005
"""Chance that one of the two bounds is wrong: of a trial as good as the leader, 1 in 100 stops."""

STEP_MARGIN_FRACTION = 0.02
"""Of the bar; chunks may differ from verify steps by as much."""

ASSUMED_TOKEN_CV, ASSUMED_STEP_CV = 0.22, 0.045
"""Spread of 5-s blocks of tok/s and of steps/s before the sweep has seen its own (assumptions)."""

_LEAST_CV = {ASSUMED_TOKEN_CV: 0.03, ASSUMED_STEP_CV: 0.01}
_TRIALS_FOR_CV = 3
_LEAST_TOKEN_BLOCKS, _LEAST_STEP_BLOCKS = 5, 3


@dataclass(slots=True)
class _Spread:
    """The coefficient of variation of blocks within a trial, pooled over trials."""

    assumed: float
    least_blocks: int
    running: dict[str, tuple[float, ...]] = field(default_factory=dict)
    count: int = 0
    """Of trials that taught it."""
    squares: float = 0.0
    """Of their coefficients, summed up: a look costs the same however many there were."""

    def see(self, trial: str, blocks: tuple[float, ...]) -> None:
        if blocks:
            self.running[trial] = blocks

    def keep(self, trial: str, *, whole: bool) -> None:
        """Learn from a trial that has ended; one that was cut off would teach a selection."""
        blocks = self.running.pop(trial, ())
        if whole and len(blocks) >= self.least_blocks and fmean(blocks) > 0:
            self.count += 1
            self.squares += (stdev(blocks) / fmean(blocks)) ** 2

    @property
    def cv(self) -> float:
        if self.count < _TRIALS_FOR_CV:
            return self.assumed
        pooled = math.sqrt(self.squares / self.count)
        return max(_LEAST_CV[self.assumed], pooled)


@dataclass(slots=True)
class _Past:
    """The results so far by what they share, so that a start need not look at all of them again."""

    limits: Sequence[Limit]
    bars: dict[Config, float] = field(default_factory=dict)
    """What each configuration surely reaches, where that is known."""
    _count: int = 0
    _starts: dict[Config, list[TrialResult]] = field(default_factory=dict)
    _drafting: dict[Config, list[TrialResult]] = field(default_factory=dict)

    def read(self, results: Sequence[TrialResult]) -> None:
        """Take what is new in the results of a sweep, which only grow."""
        for result in results[self._count :]:
            starts = self._starts.setdefault(result.config, [])
            starts.append(result)
            bar = incumbent_bar(starts, OBJECTIVE, self.limits)
            self.bars.pop(result.config, None)
            if bar is not None:
                self.bars[result.config] = bar
            self._drafting.setdefault(drafting_of(result.config), []).append(result)
        self._count = len(results)

    def alike(self, config: Config) -> Sequence[TrialResult]:
        """Return the results of configurations that draft in the same way."""
        return self._drafting.get(drafting_of(config), ())


class EarlyStop:
    """Watches the trials of one sweep. It is told of every start, sign of life and end.

    Where a planner knows the sweep, its pooled beliefs are the bar and the ceilings.
    """

    def __init__(self, sweep: Sweep, planner: Planner | None = None) -> None:
        self._sweep, self._planner = sweep, planner
        single = sweep.objective.metric == OBJECTIVE and not sweep.objective.also
        self._on = sweep.early_stopping and single
        self._tokens = _Spread(ASSUMED_TOKEN_CV, _LEAST_TOKEN_BLOCKS)
        self._steps = _Spread(ASSUMED_STEP_CV, _LEAST_STEP_BLOCKS)
        self._rule = PEER_RULES.get(sweep.stop_rule)
        self._ages: dict[str, tuple[float, ...]] = {}
        self._bar: float | None = None
        self._past = _Past(sweep.objective.limits)
        self._ceilings: dict[str, Ceiling] = {}

    def begin(self, job: TrialJob, results: Sequence[TrialResult]) -> None:
        """Take a start: what it must reach, and what its steps can bring at the most."""
        if not self._on or job.purpose in SPARED:
            return
        self._past.read(results)
        self._bar = self._bar_of(results)
        ceiling = self._ceiling_of(job, results)
        if ceiling is not None:
            self._ceilings[job.trial] = ceiling

    def look(self, job: TrialJob, progress: TrialProgress) -> StopOrder | None:
        """Return the order to stop a trial that cannot reach what the leader surely does."""
        self._tokens.see(job.trial, progress.blocks)
        self._steps.see(job.trial, progress.step_blocks)
        if progress.blocks and self._rule is not None:
            self._ages[job.trial] = progress.blocks
        if not self._on or job.purpose in SPARED:
            return None
        if self._rule is not None:
            return self._by_peers(job, progress.blocks)
        if self._bar is None:
            return None
        if progress.phase is Phase.PROBING:
            return self._by_steps(job, progress.step_blocks, self._bar)
        if progress.phase is Phase.MEASURING:
            return self._by_tokens(progress.blocks, self._bar)
        return None

    def learn(self, result: TrialResult) -> None:
        """Take the end of a trial."""
        whole = result.outcome is Outcome.MEASURED
        self._tokens.keep(result.trial, whole=whole)
        self._steps.keep(result.trial, whole=whole)
        self._ceilings.pop(result.trial, None)

    def _bar_of(self, results: Sequence[TrialResult]) -> float | None:
        limits = self._sweep.objective.limits
        surely = max(self._past.bars.values(), default=None)
        if self._planner is None or limits or surely is None:
            return surely
        return self._planner.bar(results) or surely

    def _ceiling_of(self, job: TrialJob, results: Sequence[TrialResult]) -> Ceiling | None:
        settings = complete(self._sweep.settings(job.config))
        ceiling = ceiling_of(job.config, settings, self._past.alike(job.config))
        if self._planner is None or ceiling is None or job.config.is_plain:
            return ceiling
        likely = self._planner.accept_bound(results, job.config)
        if likely >= ceiling.tokens_per_step:
            return ceiling
        return Ceiling(likely, "tokens each, at most, by all trials so far")

    def _by_peers(self, job: TrialJob, blocks: tuple[float, ...]) -> StopOrder | None:
        """Follow a rule that compares with the others at the same age, and gives no bound."""
        others = [ages for trial, ages in self._ages.items() if trial != job.trial]
        bar = self._rule(blocks, others) if self._rule else None
        if bar is None:
            return None
        reason = f"{self._sweep.stop_rule}: behind the {bar:.1f} tok/s of others at its age"
        return StopOrder(StopKind.BOUND, reason)

    def _by_tokens(self, blocks: tuple[float, ...], bar: float) -> StopOrder | None:
        decision = decide(blocks, bar, prior_cv=self._tokens.cv, alpha=ALPHA)
        return None if decision is None else _order(decision, "")

    def _by_steps(self, job: TrialJob, blocks: tuple[float, ...], bar: float) -> StopOrder | None:
        ceiling = self._ceilings.get(job.trial)
        if ceiling is None:
            return None
        most = ceiling.tokens_per_step * self._sweep.workload.concurrency
        rates = [most * block for block in blocks]
        decision = decide(
            rates, bar, prior_cv=self._steps.cv, alpha=ALPHA, margin=STEP_MARGIN_FRACTION
        )
        return None if decision is None else _order(decision, _why(decision, most, ceiling))


def _why(decision: StopDecision, most: float, ceiling: Ceiling) -> str:
    steps_per_s = decision.upper_bound / most
    return f" of steps, {steps_per_s:.1f}/s with {ceiling.tokens_per_step:.2f} {ceiling.reason}"


def _order(decision: StopDecision, what: str) -> StopOrder:
    reason = (
        f"at most {decision.upper_bound:.1f} tok/s after {decision.blocks} blocks of 5 s{what},"
        f" below the {decision.bar:.1f} tok/s that the leader surely reaches"
    )
    return StopOrder(StopKind.BOUND, reason, decision.upper_bound)
