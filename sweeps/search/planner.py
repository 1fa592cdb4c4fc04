"""The planner: from what was measured to the next trial, and in the end to a claim.

It keeps nothing between calls that the history does not say: a resumed sweep goes on as if it had
never stopped. Stages: plain decode, contrasts and seeds, the model's choice, the leader's
neighbours and ablations, fresh starts of the few best.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sweeps.config import Config
from sweeps.prediction.source import NOTHING_KNOWN, AcceptSource
from sweeps.results import TrialResult
from sweeps.search.beliefs import Models, Outlook, expected_gain, inert_axes
from sweeps.search.claims import Claim, Proof, claim_of
from sweeps.search.confirming import Field, chosen_of, field_of, proving, settling
from sweeps.search.designs import Designs, Idea
from sweeps.search.encoding import Encoder
from sweeps.search.evidence import CUT, Evidence, gather, purposes
from sweeps.search.feasibility import Feasibility
from sweeps.search.pool import PoolMaker
from sweeps.search.roles import drafting_of, serving_of
from sweeps.search.standings import Standings, stand
from sweeps.search.steps import Purpose, Step, Taste
from sweeps.space import Space

HOPELESS_DEVIATIONS = 3.0
"""A neighbour that is surely behind by so many standard deviations is not checked."""
LOOKED_AT = 200
"""Candidates of the pool that are checked for rules and repeats, best first."""
MOST_TRIED = 40
"""Measured configurations whose drafts and servings are looked at in other company."""
Canonical = Callable[[Config], Config]
Refusal = Callable[[Config], str]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sweep may cost. None: no limit of that kind."""

    trials: int | None = None
    gpu_hours: float | None = None


@dataclass(frozen=True, slots=True)
class Objective:
    """What is made as good as can be; decode tok/s is taken apart, other metrics are not."""

    name: str = "decode_tok_s"
    higher_is_better: bool = True


DECODE = Objective()
NO_LIMITS, USUAL = Limits(), Taste()


def same(config: Config) -> Config:
    """Return a configuration as it is: nothing is known to be inert."""
    return config


def never(config: Config) -> str:
    """Refuse nothing."""
    return ""


class Planner:
    """Plans the sweep of one space. `canonical` maps what acts alike to one configuration;
    `refusal` says why one must not be started, and may say so of more as the sweep goes on."""

    def __init__(
        self, space: Space, *, canonical: Canonical = same, refusal: Refusal = never, seed: int = 0,
        limits: Limits = NO_LIMITS, objective: Objective = DECODE,
        taste: Taste = USUAL, source: AcceptSource = NOTHING_KNOWN,
    ) -> None:  # fmt: skip
        self._canonical, self._limits, self.taste = canonical, limits, taste
        self._metric = objective
        self._pool = PoolMaker(space, canonical, refusal, seed)
        self._designs = Designs(space, self._pool)
        self._encoder = Encoder(space, source)
        self._plain = canonical(space.plain())
        self._kept: _View | None = None  # the last look, for callers that ask several things
        self._earlier: dict[int, _View] = {}

    def next(self, history: Sequence[TrialResult], open_steps: Sequence[Step] = ()) -> Step | None:
        """Return the next trial; None where the sweep is done, or must wait for what is open."""
        view = self._view(history, open_steps)
        if self._left(view) <= 0:
            return None
        if not view.purposes(Purpose.BASELINE):
            return Step(self._plain, Purpose.BASELINE, "plain decode comes first")
        if view.confirming or self._must_confirm(view):
            return self._confirm(view)
        stages = (self._opening, self._drift, self._search, self._contrasts, self._checks)
        for stage in stages:
            if step := stage(view):
                return step
        return None if view.open_steps else self._confirm(view)

    def claim(self, history: Sequence[TrialResult]) -> Claim | None:
        """Return what may be said now; None before anything was measured."""
        view = self._view(history, ())
        if view.standings is None:
            return None
        proof = self._proof(view) if view.confirming else None
        return claim_of(view.evidence, view.standings, proof, self._plain, self.taste)

    def bar(self, history: Sequence[TrialResult]) -> float | None:
        """Return the rate, in units of the objective, that the leader is likely to reach by all
        that is known: what a trial must be able to beat."""
        standings = self._view(history, ()).standings
        if standings is None:
            return None
        reached = standings.low(standings.leader)
        return reached if self._metric.higher_is_better else 1 / reached

    def accept_bound(self, history: Sequence[TrialResult], config: Config) -> float:
        """Return an accept length that a configuration hardly exceeds (97.5 %)."""
        belief = self._view(history, ()).models.accept.at(self._encoder.accepts([config]))
        return float(np.exp(belief.mean[0] + 1.96 * np.sqrt(belief.variance[0])))

    def _view(self, history: Sequence[TrialResult], open_steps: Sequence[Step]) -> "_View":
        kept, asked = self._kept, (tuple(history), tuple(open_steps))
        if kept is None or (kept.history, kept.open_steps) != asked:
            kept = _View(*asked, self._canonical, self._metric, self._encoder, self._pool)
            self._kept = kept
        return kept

    def _left(self, view: "_View") -> float:
        """Return how many trials the limits still allow."""
        counted = len(view.counted) + len(view.open_steps)
        by_trials = np.inf if self._limits.trials is None else self._limits.trials - counted
        if self._limits.gpu_hours is None:
            return float(by_trials)
        spent = sum(result.gpu_hours for result in view.history)
        hours = self._limits.gpu_hours - spent - len(view.open_steps) * view.evidence.gpu_hours
        return float(min(by_trials, hours / view.evidence.gpu_hours))

    def _must_confirm(self, view: "_View") -> bool:
        """Tell whether the rest of the budget is just what confirming takes."""
        return self._left(view) <= self._reserve + 2 and len(view.counted) > 2

    @property
    def _reserve(self) -> int:
        """Return the starts that prove a gain: they are kept back from all else."""
        return 2 * self.taste.confirm_rounds

    def _opening(self, view: "_View") -> Step | None:
        return self._first_new(view, self._designs.opening(view.inert))

    def _contrasts(self, view: "_View") -> Step | None:
        return self._first_new(view, self._designs.contrasts(view.inert))

    def _first_new(self, view: "_View", ideas: Iterable[Idea]) -> Step | None:
        for idea in ideas:
            if view.is_new(idea.config) and view.feasibility.odds(idea.config) > 0:
                return self._step(idea)
        return None

    def _drift(self, view: "_View") -> Step | None:
        """Return plain decode where it has not been measured for long."""
        every = self.taste.drift_every_trials
        last = max((s.place for s in view.evidence.starts if s.config == self._plain), default=0)
        due = every and len(view.history) - last >= every
        if not due or view.is_open(self._plain):
            return None
        return Step(self._plain, Purpose.BASELINE, "plain decode again: has the host drifted?")

    def _search(self, view: "_View") -> Step | None:
        """Return the start that can teach most about what is best, if that pays."""
        outlook, at = view.outlook
        if outlook is None:
            return None
        ahead = outlook.mean - outlook.mean[at] - self.taste.indifference_fraction / 2
        spread = outlook.lessons(at, view.evidence.launch_variance)
        gains = expected_gain(ahead, spread)
        order = np.argsort(gains, axis=None)[::-1][:LOOKED_AT]
        best: tuple[float, Config] | None = None
        for flat in order:
            row, column = divmod(int(flat), gains.shape[1])
            gain = float(gains[row, column])
            if best is not None and gain <= best[0]:
                break
            config = self._pool.join(outlook.drafts[row], outlook.servings[column])
            if config is None or not view.is_new(config):
                continue
            worth = gain * view.feasibility.odds(config)
            if worth > 0 and (best is None or worth > best[0]):
                best = worth, self._canonical(config)
        if best is None or best[0] / view.evidence.gpu_hours < self.taste.least_gain_per_gpu_hour:
            return None
        per_hour = best[0] / view.evidence.gpu_hours
        why = f"one start of it may lift the best rate by {best[0]:.2%} in the mean"
        return Step(best[1], Purpose.SEARCH, why, best[0], per_hour)

    def _checks(self, view: "_View") -> Step | None:
        """Return a neighbour of the leader that is still unknown, or the leader less a change."""
        outlook, at = view.outlook
        if outlook is None:
            return None
        leader = view.leader
        drafts = self._liked_drafts(view, outlook, at[1])
        ideas = [*self._designs.neighbours(leader, drafts), *self._designs.ablations(leader)]
        for idea in ideas:
            closed = view.feasibility.odds(idea.config) == 0
            hopeless = closed or (not idea.forced and self._is_hopeless(view, idea))
            if view.is_new(idea.config) and not hopeless:
                return self._step(idea)
        return None

    def _liked_drafts(self, view: "_View", outlook: Outlook, column: int) -> dict[str, Config]:
        """Return the draft of each algorithm that the model likes best at a serving."""
        found = {}
        for algorithm in self._designs.algorithms:
            rows = [i for i, d in enumerate(outlook.drafts) if d.algorithm == algorithm]
            rows = [i for i in rows if view.feasibility.odds(outlook.drafts[i]) > 0]
            if rows:
                row = max(rows, key=lambda i: outlook.mean[i, column])
                found[algorithm] = outlook.drafts[row]
        return found

    def _is_hopeless(self, view: "_View", idea: Idea) -> bool:
        canonical = self._canonical(idea.config)
        mean, covariance = view.models.joint([canonical, view.leader])
        variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
        ahead = mean[0] - mean[1] + HOPELESS_DEVIATIONS * np.sqrt(max(variance, 0.0))
        undone = idea.purpose is Purpose.ABLATION
        return bool(ahead < (-self.taste.indifference_fraction if undone else 0.0))

    def _step(self, idea: Idea) -> Step:
        return Step(self._canonical(idea.config), idea.purpose, idea.why)

    def _confirm(self, view: "_View") -> Step | None:
        if view.standings is None:
            return None
        field = self._field(view)
        since = view.proof_place(field.beside)
        if since is None and self._left(view) > self._reserve:
            config = settling(field, view.confirms(0), view.standings, self.taste)
            if config is not None:
                why = "fresh starts of what may be best, forth and back"
                return Step(config, Purpose.CONFIRM, why)
        if field.beside is None:
            return None
        choice, counts = self._choice(view, field), view.confirms(since or len(view.history))
        config = proving(choice, field.beside, counts, view.standings, self.taste)
        why = "fresh starts of the choice and of plain decode, to state the gain"
        return None if config is None else Step(config, Purpose.CONFIRM, why)

    def _proof(self, view: "_View") -> Proof:
        """Return how far the confirm stage is, for the claim."""
        field = self._field(view)
        since = view.proof_place(field.beside)
        choice = self._choice(view, field)
        left = self._confirm(view)
        open_ = "" if left is None else f"still to come: {left.why}"
        return Proof(choice, field.beside, since or 0, open_)

    def _choice(self, view: "_View", field: Field) -> Config:
        """Return what is recommended by all that came before its proof began."""
        since = view.proof_place(field.beside)
        before = view if since is None else self._before(view, since)
        assert before.standings is not None, "confirming follows a leader"
        return chosen_of(field, before.standings, self._plain, self.taste)

    def _field(self, view: "_View") -> Field:
        """Return who is confirmed, by what came before the first confirming start."""
        before = self._before(view, view.first_confirm) if view.confirming else view
        assert before.standings is not None, "confirming follows a leader"
        return field_of(before.standings, self._plain, self.taste)

    def _before(self, view: "_View", place: int) -> "_View":
        """Return the look at the history as it was; kept, as the confirm stage asks again."""
        history = view.history[:place]
        kept = self._earlier.get(place)
        if kept is None or kept.history != history:
            kept = _View(history, (), self._canonical, self._metric, self._encoder, self._pool)
            self._earlier[place] = kept
        return kept


@dataclass(frozen=True)
class _View:
    """One look at a history; everything is computed when it is asked for, and once."""

    history: tuple[TrialResult, ...]
    open_steps: tuple[Step, ...]
    canonical: Canonical
    metric: "Objective"
    encoder: Encoder
    maker: PoolMaker

    @cached_property
    def evidence(self) -> Evidence:
        return gather(
            self.history, self.canonical, self.metric.name,
            higher_is_better=self.metric.higher_is_better,
        )  # fmt: skip

    @cached_property
    def counted(self) -> list[TrialResult]:
        return [r for r in self.history if r.outcome not in CUT]

    @cached_property
    def by_parts(self) -> bool:
        """Tell whether step times are taken apart: of decoding, where predictions are asked for."""
        predicts = self.encoder.source is not NOTHING_KNOWN
        return predicts and self.metric.name == "decode_tok_s"

    @cached_property
    def models(self) -> Models:
        return Models.fit(self.encoder, self.evidence, by_parts=self.by_parts)

    @cached_property
    def standings(self) -> Standings | None:
        return stand(self.models, self.evidence)

    @property
    def leader(self) -> Config:
        assert self.standings is not None, "something was measured"
        return self.standings.configs[self.standings.leader]

    @cached_property
    def feasibility(self) -> Feasibility:
        return Feasibility.learn(self.evidence)

    @cached_property
    def inert(self) -> frozenset[str]:
        return inert_axes(self.encoder, self.evidence)

    @cached_property
    def outlook(self) -> tuple[Outlook | None, tuple[int, int]]:
        """The pool with its beliefs, and where the leader is in it."""
        if self.standings is None:
            return None, (0, 0)
        pool = self.maker.pool(self.standings.configs[:MOST_TRIED], self.leader)
        outlook = self.models.over(pool)
        draft, serving = drafting_of(self.leader), serving_of(self.leader)
        if draft not in pool.drafts or serving not in pool.servings:
            draft, serving = self.maker.draft(self.leader), self.maker.serving(self.leader)
        return outlook, (pool.drafts.index(draft), pool.servings.index(serving))

    @cached_property
    def first_confirm(self) -> int:
        places = [p for p, r in enumerate(self.history) if r.purpose == Purpose.CONFIRM]
        return min(places, default=len(self.history))

    @property
    def confirming(self) -> bool:
        return self.purposes(Purpose.CONFIRM) > 0

    def purposes(self, purpose: Purpose) -> int:
        running = sum(1 for step in self.open_steps if step.purpose is purpose)
        return purposes(self.history, purpose) + running

    def confirms(self, since: int) -> dict[Config, int]:
        """Count the confirming starts from a place on, by configuration; those that run too."""
        ended = [r.config for r in self.history[since:] if r.purpose == Purpose.CONFIRM
                 and r.outcome not in CUT]  # fmt: skip
        counts: dict[Config, int] = {}
        for config in map(self.canonical, [*ended, *self._running_confirms]):
            counts[config] = counts.get(config, 0) + 1
        return counts

    def proof_place(self, beside: Config | None) -> int | None:
        """Return where in the history the proof of the choice began; None before it did."""
        for place, result in enumerate(self.history):
            if result.purpose == Purpose.CONFIRM and self.canonical(result.config) == beside:
                return place
        running = [self.canonical(config) for config in self._running_confirms]
        return len(self.history) if beside in running else None

    @property
    def _running_confirms(self) -> list[Config]:
        return [step.config for step in self.open_steps if step.purpose is Purpose.CONFIRM]

    def is_open(self, config: Config) -> bool:
        return any(self.canonical(s.config) == self.canonical(config) for s in self.open_steps)

    def is_new(self, config: Config) -> bool:
        return self.canonical(config) not in self.evidence.spent and not self.is_open(config)
