"""The time of a step as a sum of parts that cannot be negative, with all that the data leave open.

A step that verifies T tokens takes, in units of a plain step and under bold settings s,

    base_s + offset + host + slope_s (T - 1) + growth e(T) + jump_s [T > t_s]

`offset` is what any verify costs, `host` what a drafter does beside it, `slope` payload and compute
that grow evenly, `growth` weights of further experts, which saturates, and `jump` a protocol that
changes with the size of the message. No part is negative, so that a wider step is never faster.
Each draw refits data and expectations, both shaken by their own spread (randomise, then optimise),
for places of the jumps that are as likely as the data make them. What is not bold multiplies.

Where all-reduces were timed without a server, r_s(T) of them in those of one token at the default,
a step has `reduced r_s(T)` besides: one number for all settings, which leaves base, slope and jump
of a timed setting next to nothing to differ by.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sweeps.config import Config
from sweeps.intervals import Interval
from sweeps.prediction.all_reduces import NOT_TIMED, AllReduces, Changes, changes_of
from sweeps.prediction.observations import Observation, Work
from sweeps.prediction.small_effects import SmallEffects
from sweeps.search.gaussian import Floats
from sweeps.search.roles import CHAINS, cost_of, trait_of

DRAWS = 300
MOST_OBSERVED = 60
"""Kinds of step that are fitted: the latest, where there are more."""
JUMPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
"""Tokens above which a jump may begin."""
NO_JUMP_CHANCE = 0.5
EXPERT_SHARE, FULL_TOKENS = 8 / 384, 32
"""Of the experts of a layer that one token takes; `growth` is that of so many tokens."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is expected of a part before it is measured, in plain steps, give or take `spread`."""

    mean: float
    spread: float


BASE, SLOPE, JUMP = Part(1.0, 1.0), Part(0.03, 0.06), Part(0.0, 0.7)
OFFSET, HOST, CHAIN = Part(0.05, 0.3), Part(0.1, 0.06), Part(0.06, 0.05)
GROWTH, REQUEST = Part(0.6, 1.2), Part(0.02, 0.03)
SLOPE_SPREAD = 0.06
"""Of the difference that a bold setting makes to the slope."""
REDUCED = Part(0.4, 0.3)
"""What all-reduces are of a plain step."""
TIMED_BASE, TIMED_SLOPE, TIMED_JUMP = Part(0.0, 0.03), Part(0.0, 0.005), Part(0.0, 0.05)
"""By what a setting that was timed differs more than its all-reduces do."""
TOGETHER_SPREAD = 0.1
"""More of that, where settings were timed, but not with each other."""
OF_VERIFY, OF_TOKENS = "a cost of any verify", "a cost of each token, payload or compute"
OF_EXPERTS, OF_JUMP = "weights of further experts", "a protocol that changes with the size"
OF_REDUCED = "all-reduces, as they were timed"
_SHARED = (OFFSET, HOST, HOST, CHAIN, GROWTH, REQUEST)


def growth(tokens: float) -> float:
    """Return how many further experts so many tokens read, as a share of what FULL_TOKENS read."""
    alive = 1 - EXPERT_SHARE
    return float((1 - alive ** (tokens - 1)) / (1 - alive ** (FULL_TOKENS - 1)))


@dataclass(frozen=True)
class CostFit:
    """Draws of step times, given some observations."""

    observed: Sequence[Observation]
    default: Config
    """Settings of communication with nothing changed."""
    unit_ms: float
    """A plain step, measured or expected."""
    curves: Sequence[Config] = ()
    """Bold settings that may be asked for; those that were measured are known anyway."""
    inert: frozenset[str] = frozenset()
    """Axes that were seen to do nothing."""
    all_reduces: AllReduces = NOT_TIMED
    seed: int = 0

    def log_cycles(self, works: Sequence[Work]) -> Floats:
        """Return draws of the logarithms of step times in milliseconds: a row for each draw."""
        observed, (parts, jumps) = self._used, self._drawn
        residuals = self._logs - self._fitted([one.work for one in observed], parts, jumps)
        rng = np.random.default_rng([self.seed, 1])
        small = self._small.draws(works, observed, residuals, rng)
        return np.asarray(self._fitted(works, parts, jumps) + small)

    def cycle_ms(self, work: Work) -> Interval:
        """Return the time of a step with its 95 % interval."""
        return interval_of_draws(np.exp(self.log_cycles([work])[:, 0]))

    def shares(self, work: Work) -> Mapping[str, Floats]:
        """Return draws of what a step of drafts takes more than a plain one, by its parts, in plain
        steps."""
        parts, jumps = self._drawn
        row = np.array(self._row(work))
        place = self._places[self.bold(work.serving)]
        row[3 * place] = 0.0
        if self.all_reduces.were_timed:
            row[-1] -= self._units(work.serving, 1)
        taken = parts * row
        last = 3 * len(self._places)
        found = {
            OF_VERIFY: taken[:, last : last + 3].sum(axis=1),
            OF_TOKENS: taken[:, 3 * place + 1] + taken[:, last + 3],
            OF_EXPERTS: taken[:, last + 4],
            OF_JUMP: parts[:, 3 * place + 2] * (work.tokens > jumps[:, place]),
        }
        timed = {OF_REDUCED: taken[:, -1]} if self.all_reduces.were_timed else {}
        return {**found, **timed}

    def reduced_share(self, work: Work) -> Floats | None:
        """Return draws of how much of a step is all-reduces; None where none was timed."""
        if not self.all_reduces.were_timed:
            return None
        parts, _ = self._drawn
        cycles = np.exp(self.log_cycles([work])[:, 0]) / self.unit_ms
        return np.asarray(parts[:, -1] * self._units(work.serving, work.tokens) / cycles)

    def bold(self, serving: Config) -> Config:
        """Return settings with what is not bold, or does nothing, at its default."""
        found = self._bolds.get(serving)
        if found is None:
            kept = [n for n in serving if trait_of(n).bold and n not in self.inert]
            found = Config.of({**self.default, **{n: serving[n] for n in kept}})
            self._bolds[serving] = found
        return found

    @cached_property
    def _bolds(self) -> dict[Config, Config]:
        return {}

    @cached_property
    def _used(self) -> Sequence[Observation]:
        return self.observed[-MOST_OBSERVED:]

    @cached_property
    def _logs(self) -> Floats:
        return np.log([one.cycle_ms for one in self._used])

    @cached_property
    def _small(self) -> SmallEffects:
        return SmallEffects(self.default, self.bold, self.all_reduces)

    @cached_property
    def _places(self) -> Mapping[Config, int]:
        """The curves by their place; the default first."""
        asked = [self.default, *(one.work.serving for one in self._used), *self.curves]
        found = dict.fromkeys(self.bold(serving) for serving in asked)
        return {serving: place for place, serving in enumerate(found)}

    def _fitted(self, works: Sequence[Work], parts: Floats, jumps: Floats) -> Floats:
        """Return the logarithms of steps by draws of the parts and of the places of the jumps."""
        if not works:
            return np.zeros((len(parts), 0))
        rows = np.array([self._row(work) for work in works])
        curves = np.array([self._places[self.bold(work.serving)] for work in works])
        tokens = np.array([work.tokens for work in works])
        jumped = parts[:, 3 * curves + 2] * (tokens > jumps[:, curves])
        costs = np.array([self._small.cost(work) for work in works])
        units = np.maximum(parts @ rows.T + jumped, 1e-3)
        return np.asarray(np.log(units * self.unit_ms) + costs)

    def _row(self, work: Work) -> list[float]:
        """Return what multiplies each part: base, slope and jump of each curve, then the rest.

        The column of a jump is left at zero: its place is drawn.
        """
        row = [0.0] * (3 * len(self._places))
        at = 3 * self._places[self.bold(work.serving)]
        row[at], row[at + 1] = 1.0, work.tokens - 1.0
        drafts = float(work.algorithm is not None)
        chain = float(work.algorithm in CHAINS)
        return [
            *row, drafts, drafts * (1 - chain), drafts * chain, chain * (work.width - 1),
            growth(work.tokens), drafts * (work.batch - 1), *self._reduced(work),
        ]  # fmt: skip

    @property
    def _shared(self) -> tuple[Part, ...]:
        return (*_SHARED, REDUCED) if self.all_reduces.were_timed else _SHARED

    def _reduced(self, work: Work) -> list[float]:
        timed = self.all_reduces.were_timed
        return [self._units(work.serving, work.tokens)] if timed else []

    def _units(self, serving: Config, tokens: int) -> float:
        return self.all_reduces.units(self._changes(serving), tokens)

    def _changes(self, serving: Config) -> Changes:
        return changes_of(serving, self.default, self.inert)

    @cached_property
    def _expected(self) -> tuple[Floats, Floats]:
        """Rows that state what is expected, each divided by its spread, and what they come to."""
        count = 3 * len(self._places)
        rows: list[Floats] = []
        wanted: list[float] = []

        def expect(weights: Mapping[int, float], part: Part) -> None:
            row = np.zeros(count + len(self._shared))
            row[list(weights)] = list(weights.values())
            rows.append(row / part.spread)
            wanted.append(part.mean / part.spread)

        unit = self._units(self.default, 1)
        reduced = {count + len(_SHARED): unit} if unit else {}
        for serving, place in self._places.items():
            at = 3 * place
            timed = self.all_reduces.knows_each(self._changes(serving)) and unit > 0
            if place == 0:
                expect({0: 1.0, **reduced}, BASE)
                expect({1: 1.0}, SLOPE)
            elif timed:
                expect({at: 1.0, 0: -1.0}, self._timed_base(serving))
                expect({at + 1: 1.0, 1: -1.0}, TIMED_SLOPE)
            else:
                cost, spread = self._change(serving)
                factor = math.exp(cost)
                rest = {column: share * (1 - factor) for column, share in reduced.items()}
                expect({at: 1.0, 0: -factor, **rest}, Part(0.0, spread))
                expect({at + 1: 1.0, 1: -1.0}, Part(0.0, SLOPE_SPREAD))
            expect({at + 2: 1.0}, TIMED_JUMP if timed else JUMP)
        for place, shared in enumerate(self._shared):
            expect({count + place: 1.0}, shared)
        return np.array(rows), np.array(wanted)

    def _timed_base(self, serving: Config) -> Part:
        together = self.all_reduces.knows(self._changes(serving))
        return TIMED_BASE if together else Part(0.0, TIMED_BASE.spread + TOGETHER_SPREAD)

    def _change(self, serving: Config) -> tuple[float, float]:
        """Return what bold settings are expected to cost, and the spread of that."""
        changed = [(n, v) for n, v in serving.items() if self.default.get(n) != v]
        cost = sum(cost_of(name, value) for name, value in changed)
        return cost, math.hypot(*(trait_of(name).spread for name, _ in changed))

    def _system(self, jumps: Sequence[float]) -> tuple[Floats, Floats]:
        """Return the rows of data and expectations, for a place of each curve's jump."""
        data, units, scales, places, tokens = self._data
        rows = data.copy()
        jumped = tokens > np.array(jumps)[places]
        rows[np.arange(len(places)), 3 * places + 2] = jumped / scales
        expected, values = self._expected
        return np.vstack([rows, expected]), np.concatenate([units / scales, values])

    @cached_property
    def _data(self) -> tuple[Floats, Floats, Floats, NDArray[np.intp], Floats]:
        """Rows of the data but for their jumps, each divided by its spread; what was measured, in
        plain steps; the spreads; and the curve and the tokens of each."""
        works = [one.work for one in self._used]
        costs = np.array([self._small.cost(work) for work in works])
        units = np.exp(self._logs - costs) / self.unit_ms
        own = np.array([self._small.spread(work) for work in works])
        scales = np.hypot([one.spread_fraction for one in self._used], own) * units
        columns = 3 * len(self._places) + len(self._shared)
        rows = np.array([self._row(work) for work in works]).reshape(len(works), columns)
        places = np.array([self._places[self.bold(work.serving)] for work in works], dtype=np.intp)
        tokens = np.array([float(work.tokens) for work in works])
        return rows / scales[:, None], units, scales, places, tokens

    @cached_property
    def _chances(self) -> Floats:
        """How likely each place of a jump is, by curve; the last place: no jump."""
        usual = np.array([(1 - NO_JUMP_CHANCE) / len(JUMPS)] * len(JUMPS) + [NO_JUMP_CHANCE])
        found = np.tile(usual, (len(self._places), 1))
        measured = {self._places[self.bold(one.work.serving)] for one in self._used}
        best = [math.inf] * len(self._places)
        for _ in range(2):  # curves share parts, so that each is looked at twice
            for place in sorted(measured):
                tried = [[*best[:place], jump, *best[place + 1 :]] for jump in _jump_places()]
                scores = np.array([self._evidence(jumps) for jumps in tried])
                odds = usual * np.exp(scores - scores.max())
                found[place] = odds / odds.sum()
                best[place] = float(_jump_places()[int(np.argmax(odds))])
        return found

    def _evidence(self, jumps: Sequence[float]) -> float:
        """Return the log probability of the data for places of the jumps, but for a constant."""
        from scipy.optimize import nnls  # slow to import, and `check` needs none of it

        rows, wanted = self._system(jumps)
        _, norm = nnls(rows, wanted)
        _, size = np.linalg.slogdet(rows.T @ rows)
        return -0.5 * float(norm) ** 2 - 0.5 * float(size)

    @cached_property
    def _drawn(self) -> tuple[Floats, Floats]:
        """Draws of the parts, and of the places of the jumps: a row for each draw."""
        from scipy.optimize import nnls  # as above

        rng = np.random.default_rng(self.seed)
        places = _jump_places()
        picked = np.array([rng.choice(places, DRAWS, p=chances) for chances in self._chances]).T
        systems: dict[tuple[float, ...], tuple[Floats, Floats]] = {}
        parts = []
        for row in picked:
            jumps = tuple(row.tolist())
            if jumps not in systems:
                systems[jumps] = self._system(jumps)
            rows, wanted = systems[jumps]
            parts.append(nnls(rows, wanted + rng.standard_normal(len(wanted)))[0])
        return np.array(parts), picked


def interval_of_draws(draws: Floats) -> Interval:
    """Return the median of draws, with what holds 95 % of them."""
    low, middle, high = np.quantile(draws, (0.025, 0.5, 0.975)).tolist()
    return Interval(middle, low, high)


def _jump_places() -> Floats:
    return np.array([*map(float, JUMPS), math.inf])
