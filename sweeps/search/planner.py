"""The planner: from what was measured to the next trial, and in the end to a claim.

It keeps nothing between calls that the history does not say: a resumed sweep goes on as if it had
never stopped. Stages: plain decode, contrasts and seeds, the model's choice, the leader's
neighbours and ablations, fresh starts of the few best.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.search.beliefs import Outlook
from sweeps.search.brief import (
    DECODE,
    NO_FORESIGHT,
    NO_LIMITS,
    USUAL,
    Canonical,
    Foresight,
    Limits,
    Objective,
    Refusal,
    never,
    same,
)
from sweeps.search.claims import Claim, Proof, Verdict, claim_of, planned_half_width
from sweeps.search.confirming import Field, chosen_of, field_of, next_of, settling
from sweeps.search.designs import Designs, Idea
from sweeps.search.encoding import Encoder
from sweeps.search.gaussian import Floats
from sweeps.search.looks import Foretold, Look
from sweeps.search.names import Names
from sweeps.search.pool import PoolMaker
from sweeps.search.roles import serving_of
from sweeps.search.step_times import PartedTimes
from sweeps.search.steps import Purpose, Step, Taste
from sweeps.search.view import View
from sweeps.space import Space

HOPELESS_DEVIATIONS, PARTED_DEVIATIONS = 3.0, 2.0
"""A neighbour that is surely behind by so many standard deviations is not checked; the second where
step times are taken apart, which leaves less open."""
BAR_DEVIATIONS = 1.64
"""That are taken off the leader for the bar of early stopping, see `Planner.bar`."""
STOP_MARGIN = 0.06
"""By how much the best that a step rate allows may fall short before a probe of few blocks shows
it: the spread of blocks and the margin of early stopping, as a logarithm."""
LOOKED_AT = 200
"""Candidates of the pool that are checked for rules and repeats, best first."""


class Planner:
    """Plans the sweep of one space. `canonical` maps what acts alike to one configuration;
    `by_accounts` does so too for what servers told to run alike. `refusal` says why one must not be
    started, and may say so of more as the sweep goes on."""

    def __init__(  # noqa: PLR0913 - each is a premise of the plan
        self, space: Space, *, canonical: Canonical = same, refusal: Refusal = never, seed: int = 0,
        limits: Limits = NO_LIMITS, objective: Objective = DECODE,
        taste: Taste = USUAL, foresight: Foresight = NO_FORESIGHT, by_accounts: bool = False,
    ) -> None:  # fmt: skip
        self._foresight, self._by_accounts = foresight, by_accounts
        self._space, self._rules, self._limits, self.taste = space, canonical, limits, taste
        self._metric = objective
        self._pool = PoolMaker(space, canonical, refusal, seed)
        self._designs = Designs(space, self._pool, foresight.all_reduces)
        self._encoder = Encoder(space, foresight.source)
        self.plain = canonical(space.plain())
        """Plain decode with nothing changed."""
        self._kept: View | None = None  # the last look, for callers that ask several things
        self._earlier: dict[int, View] = {}

    def next(self, history: Sequence[TrialResult], open_steps: Sequence[Step] = ()) -> Step | None:
        """Return the next trial; None where the sweep is done, or must wait for what is open."""
        view = self._view(history, open_steps)
        if self._left(view) <= 0:
            return None
        if not view.purposes(Purpose.BASELINE):
            return Step(self.plain, Purpose.BASELINE, "plain decode comes first")
        if view.confirming or self._must_confirm(view):
            return self._confirm(view)
        stages = (
            self._fitting,
            self._opening,
            self._drift,
            self._search,
            self._contrasts,
            self._checks,
        )
        for stage in stages:
            if step := stage(view):
                return step
        return None if view.open_steps else self._confirm(view)

    def claim(self, history: Sequence[TrialResult]) -> Claim | None:
        """Return what may be said now; None before anything was measured."""
        view = self._view(history, ())
        if view.standings is None:
            return None
        return self._claimed(view, self._proof(view) if view.confirming else None)

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
        belief = self._view(history, ()).models.accepts([config])
        return float(np.exp(belief.mean[0] + 1.96 * np.sqrt(belief.variance[0])))

    def _view(self, history: Sequence[TrialResult], open_steps: Sequence[Step]) -> View:
        kept, asked = self._kept, (tuple(history), tuple(open_steps))
        if kept is None or (kept.history, kept.open_steps) != asked:
            kept = self._look(*asked)
            self._kept = kept
        return kept

    def _look(self, history: tuple[TrialResult, ...], open_steps: tuple[Step, ...]) -> View:
        told = history if self._by_accounts else ()
        return View(
            history, open_steps, Names(self._space, told, self._rules), self._metric,
            self._encoder, self._pool, self._foresight,
        )  # fmt: skip

    def _left(self, view: View) -> float:
        """Return how many trials the limits still allow."""
        counted = len(view.counted) + len(view.open_steps)
        by_trials = np.inf if self._limits.trials is None else self._limits.trials - counted
        if self._limits.gpu_hours is None:
            return float(by_trials)
        spent = sum(result.gpu_hours for result in view.history)
        hours = self._limits.gpu_hours - spent - len(view.open_steps) * view.evidence.gpu_hours
        return float(min(by_trials, hours / view.evidence.gpu_hours))

    def _must_confirm(self, view: View) -> bool:
        """Tell whether the rest of the budget is just what confirming takes."""
        return self._left(view) <= self._reserve + 2 and len(view.counted) > 2

    @property
    def _reserve(self) -> int:
        """Return the starts that prove a gain: they are kept back from all else."""
        return 2 * self.taste.confirm_rounds

    def _opening(self, view: View) -> Step | None:
        ideas = self._designs.opening(view.inert, view.first_drafts, view.favourites)
        return self._first_new(view, ideas)

    def _fitting(self, view: View) -> Step | None:
        """Return a draft of an algorithm that only ever found no memory, where it asks for less."""
        return self._first_new(
            view,
            (
                idea
                for r in view.without_room
                for idea in self._designs.fitting(r.config, r.signature)
            ),
        )

    def _contrasts(self, view: View) -> Step | None:
        ideas = self._designs.contrasts(view.inert, view.first_drafts)
        if view.by_parts and view.standings is not None:
            ideas = (idea for idea in ideas if not self._is_hopeless(view, idea))
        return self._first_new(view, ideas)

    def _first_new(self, view: View, ideas: Iterable[Idea]) -> Step | None:
        for idea in ideas:
            runs = view.is_new(idea.config) and view.feasibility.odds(idea.config) > 0
            if runs and not view.is_dominated(idea.config):
                return self._step(view, idea)
        return None

    def _drift(self, view: View) -> Step | None:
        """Return plain decode where it has not been measured for long."""
        every = self.taste.drift_every_trials
        last = max((s.place for s in view.evidence.starts if s.config == self.plain), default=0)
        due = every and len(view.history) - last >= every
        if not due or view.is_open(self.plain):
            return None
        return Step(self.plain, Purpose.BASELINE, "plain decode again: has the host drifted?")

    def _search(self, view: View) -> Step | None:
        """Return the start that can teach most about what is best, if that pays."""
        found = self._most_telling(view)
        if found is None or found.gain / found.gpu_hours < self.taste.least_gain_per_gpu_hour:
            return None
        return found.step()

    def most_telling(self, history: Sequence[TrialResult]) -> Step | None:
        """Return the start that can teach most about what is best, whether it pays or not."""
        view = self._view(history, ())
        found = self._most_telling(view)
        return None if found is None else found.step()

    def expected(
        self, history: Sequence[TrialResult], configs: Sequence[Config]
    ) -> tuple[Floats, Floats]:
        """Return expected logarithms of rates, and their covariance."""
        view = self._view(history, ())
        return view.models.joint([view.canonical(c) for c in configs])

    def foretell(self, history: Sequence[TrialResult], config: Config) -> Foretold | None:
        """Return what a start of a configuration is expected to measure; None where nothing was
        measured yet, and where step times are not taken apart."""
        view = self._view(history, ())
        if not view.by_parts or view.standings is None:
            return None
        return Foretold.by(view.models, view.canonical(config), view.evidence.launch_variance)

    def look(self, history: Sequence[TrialResult]) -> Look | None:
        """Return what is believed of the whole space; None before anything is known."""
        view = self._view(history, ())
        outlook, at = view.outlook
        if outlook is None:
            return None
        gains, hours = self._worth(view, outlook, at)
        default = serving_of(self.plain)
        times = view.models.cycle
        fit = times.fit if isinstance(times, PartedTimes) else None
        return Look(
            outlook,
            default,
            gains / hours,
            view.dominated_pairs,
            view.evidence,
            fit,
            self._pool.join,
        )

    def _worth(self, view: View, outlook: Outlook, at: tuple[int, int]) -> tuple[Floats, Floats]:
        """Return what one start of each pair is expected to lift the best rate by, and to cost in
        GPU-hours, with the early stop that may end it."""
        evidence = view.evidence
        behind = outlook.mean - outlook.mean[at]
        lessons = outlook.lessons(at, evidence.launch_variance)
        may_stop = -STOP_MARGIN - BAR_DEVIATIONS * float(np.sqrt(outlook.variance[at]))
        zone = self.taste.indifference_fraction / 2
        gain, stopped = lessons.worth(behind - zone, np.full(behind.shape, may_stop - zone))
        hours = evidence.gpu_hours - stopped * (evidence.gpu_hours - evidence.stopped_gpu_hours)
        return np.where(view.dominated_pairs, 0.0, gain), hours

    def _most_telling(self, view: View) -> "_Worth | None":
        outlook, at = view.outlook
        if outlook is None:
            return None
        gains, hours = self._worth(view, outlook, at)
        order = np.argsort(gains / hours, axis=None)[::-1][:LOOKED_AT]
        best: _Worth | None = None
        for flat in order:
            row, column = divmod(int(flat), gains.shape[1])
            gain, cost = float(gains[row, column]), float(hours[row, column])
            if best is not None and gain / cost <= best.gain / best.gpu_hours:
                break
            config = self._pool.join(outlook.drafts[row], outlook.servings[column])
            if config is None or not view.is_new(config):
                continue
            worth = gain * view.feasibility.odds(config)
            if worth > 0 and (best is None or worth / cost > best.gain / best.gpu_hours):
                best = _Worth(view.canonical(config), worth, cost)
        return best

    def _checks(self, view: View) -> Step | None:
        """Return a neighbour of the leader that is still unknown, or the leader less a change."""
        if view.standings is None:
            return None
        leader = view.leader
        drafts = view.favourites.drafts(self._pool.serving(leader))
        ideas = [*self._designs.neighbours(leader, drafts), *self._designs.ablations(leader)]
        for idea in ideas:
            closed = view.feasibility.odds(idea.config) == 0
            hopeless = closed or (not idea.forced and self._is_hopeless(view, idea))
            if view.is_new(idea.config) and not hopeless:
                return self._step(view, idea)
        return None

    def _is_hopeless(self, view: View, idea: Idea) -> bool:
        canonical = view.canonical(idea.config)
        mean, covariance = view.models.joint([canonical, view.leader])
        variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
        deviations = PARTED_DEVIATIONS if view.by_parts else HOPELESS_DEVIATIONS
        ahead = mean[0] - mean[1] + deviations * np.sqrt(max(variance, 0.0))
        undone = idea.purpose is Purpose.ABLATION
        return bool(ahead < (-self.taste.indifference_fraction if undone else 0.0))

    def _step(self, view: View, idea: Idea) -> Step:
        return Step(view.canonical(idea.config), idea.purpose, idea.why)

    def _confirm(self, view: View) -> Step | None:
        if view.standings is None:
            return None
        field = self._field(view)
        if self._since(view, field) is None and self._left(view) > self._reserve:
            config = settling(field, view.confirms(0), view.standings, self.taste)
            if config is not None:
                why = "fresh starts of what may be best, forth and back"
                return Step(config, Purpose.CONFIRM, why)
        return self._prove(view, field)

    def _prove(self, view: View, field: Field) -> Step | None:
        """Return the next fresh start of the choice or of what it is compared with, round by round
        until the answer is decided."""
        proof = self._begun_proof(view, field)
        counts = view.confirms(proof.since)
        pair: tuple[Config, ...] = (proof.choice,)
        if proof.beside is not None:
            pair = (proof.beside, proof.choice)
        for number in range(self.taste.most_confirm_rounds):
            if number >= (self.taste.confirm_rounds if proof.beside else 1):
                claim = self._claimed(view, proof)
                if claim.verdict is not Verdict.UNDECIDED:
                    return None
                pair = self._compared(view, pair, proof.alike)
            if config := next_of(pair, counts, number):
                why = "fresh starts of the choice and of plain decode, to state the gain"
                return Step(config, Purpose.CONFIRM, why)
        return None

    def _compared(
        self, view: View, pair: tuple[Config, ...], alike: frozenset[Config]
    ) -> tuple[Config, ...]:
        """Return a pair as it is; beside plain decode alone, what comes nearest to it or passes."""
        standings = view.standings
        assert standings is not None, "confirming follows a leader"
        others = [
            place
            for place, config in enumerate(standings.configs)
            if config not in pair and config not in alike
        ]
        if len(pair) == 2 or not others:
            return pair
        (plain,) = pair
        nearest = max(others, key=lambda p: standings.low(p, -1.96))
        return (standings.configs[nearest], plain)

    def _proof(self, view: View) -> Proof:
        """Return how far the confirm stage is, for the claim."""
        left = self._confirm(view)
        proof = self._begun_proof(view, self._field(view))
        return replace(proof, open_="" if left is None else f"still to come: {left.why}")

    def _begun_proof(self, view: View, field: Field) -> Proof:
        since = self._since(view, field)
        before = view if since is None else self._before(view, since)
        place = len(view.history) if since is None else since
        return Proof(
            self._choice(view, field), field.beside, place, "",
            planned_half_width(before.evidence, self.taste), view.evidence.gpu_hours,
            frozenset(c for c in view.evidence.variants if self._is_alike(view, c)),
        )  # fmt: skip

    def _is_alike(self, view: View, config: Config) -> bool:
        """Tell whether a plain decode differs from the default in what does nothing alone."""
        changed = {name for name, value in config.items() if self.plain.get(name) != value}
        return config.is_plain and bool(changed) and changed <= view.inert

    def _since(self, view: View, field: Field) -> int | None:
        """Return where in the history the proof began; None before it did."""
        if field.beside is None:
            return view.first_confirm if view.confirming else None
        return view.proof_place(field.beside)

    def _claimed(self, view: View, proof: Proof | None) -> Claim:
        assert view.standings is not None, "confirming follows a leader"
        return claim_of(view.evidence, view.standings, proof, self.plain, self.taste)

    def _choice(self, view: View, field: Field) -> Config:
        """Return what is recommended by all that came before its proof began."""
        since = self._since(view, field)
        before = view if since is None else self._before(view, since)
        assert before.standings is not None, "confirming follows a leader"
        then = field.named(before.canonical, self.plain)
        return view.canonical(chosen_of(then, before.standings, self.plain, self.taste))

    def _field(self, view: View) -> Field:
        """Return who is confirmed, by what came before the first confirming start."""
        before = self._before(view, view.first_confirm) if view.confirming else view
        assert before.standings is not None, "confirming follows a leader"
        field = field_of(before.standings, self.plain, self.taste)
        return field.named(view.canonical, self.plain)

    def _before(self, view: View, place: int) -> View:
        """Return the look at the history as it was; kept, as the confirm stage asks again."""
        history = view.history[:place]
        kept = self._earlier.get(place)
        if kept is None or kept.history != history:
            kept = self._look(history, ())
            self._earlier[place] = kept
        return kept


@dataclass(frozen=True, slots=True)
class _Worth:
    """What one start of a configuration may gain, and is expected to cost."""

    config: Config
    gain: float
    gpu_hours: float

    def step(self) -> Step:
        why = f"one start of it may lift the best rate by {self.gain:.2%} in the mean"
        return Step(self.config, Purpose.SEARCH, why, self.gain, self.gain / self.gpu_hours)
