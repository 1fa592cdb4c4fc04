"""Ways to search that the planner is held against, and the planner itself, behind one face."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from search_worlds.trials import Stop
from search_worlds.world import World, drafts_of, servings_of
from sweeps.axes import Axis
from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.sampling import valid_samples
from sweeps.search.brief import Foresight, Limits
from sweeps.search.encoding import values_of
from sweeps.search.planner import Planner
from sweeps.search.roles import WANTED, width_of
from sweeps.search.steps import Step
from sweeps.stopping import decide
from sweeps.values import Value

METRIC = "decode_tok_s"
STOP_ALPHA, STOP_MARGIN = 0.005, 0.01
RATE_CV, STEPS_CV = 0.085, 0.045


class Strategy(Protocol):
    """Proposes, learns, and says what it holds for the best."""

    def ask(self) -> tuple[Config, str] | None:
        """Return what to measure and why; None at the end."""
        ...

    def stop(self, config: Config, purpose: str) -> Stop | None:
        """Return when a trial of it ends early."""
        ...

    def tell(self, result: TrialResult) -> None:
        """Learn a result."""
        ...

    @property
    def held(self) -> Config:
        """What it would recommend now."""
        ...

    @property
    def gain(self) -> tuple[Config, float] | None:
        """The gain that it would report: over what, and how much; None: none."""
        ...

    @property
    def stated(self) -> tuple[Config, float, float] | None:
        """The interval of that gain, and over what; None where none is stated."""
        ...


class Ours:
    """The planner of the project, by what it knows before it measures."""

    def __init__(self, world: World, seed: int, trials: int, foresight: Foresight) -> None:
        self.planner = Planner(
            world.space, canonical=world.canonical, seed=seed, limits=Limits(trials),
            foresight=foresight,
        )  # fmt: skip
        self.history: list[TrialResult] = []
        self.steps: list[Step] = []

    def ask(self) -> tuple[Config, str] | None:
        """Return the planner's next step."""
        step = self.planner.next(self.history)
        if step is None:
            return None
        self.steps.append(step)
        return step.config, step.purpose.value

    def stop(self, config: Config, purpose: str) -> Stop | None:
        """Stop below the pooled bar, on steps/s with an accept length that is hardly exceeded
        first, then on tok/s."""
        bar = self.planner.bar(self.history) if self.history else None
        if bar is None or purpose in ("baseline", "confirm"):
            return None
        return below(bar, self.planner.accept_bound(self.history, config))

    def tell(self, result: TrialResult) -> None:
        """Add to the history."""
        self.history.append(result)

    @property
    def held(self) -> Config:
        """The recommendation of the claim."""
        claim = self.planner.claim(self.history)
        assert claim is not None, "the baseline was measured"
        return claim.recommendation

    @property
    def gain(self) -> tuple[Config, float] | None:
        """The gain of the claim."""
        claim = self.planner.claim(self.history)
        return (claim.gain.over, claim.gain.ratio) if claim and claim.gain else None

    @property
    def stated(self) -> tuple[Config, float, float] | None:
        """The interval of the claim."""
        claim = self.planner.claim(self.history)
        gain = claim.gain if claim else None
        return None if gain is None else (gain.over, gain.low, gain.high)


class Listed:
    """Measures a list, plain decode first, and holds the highest value."""

    def __init__(self, world: World, configs: Iterator[Config]) -> None:
        self.plain = world.space.plain()
        self._configs = configs
        self.values: list[tuple[float, Config]] = []

    @classmethod
    def at_random(cls, world: World, seed: int) -> "Listed":
        """Draw from the conditional space."""
        return cls(world, valid_samples(world.space, seed))

    def ask(self) -> tuple[Config, str] | None:
        """Return the next of the list."""
        if not self.values:
            return self.plain, "baseline"
        config = next(self._configs, None)
        return None if config is None else (config, "search")

    def stop(self, config: Config, purpose: str) -> Stop | None:
        """Never stop."""
        return None

    def tell(self, result: TrialResult) -> None:
        """Keep the value; a stopped trial leads nowhere."""
        value = result.estimates[METRIC].value if result.outcome.has_rate else 0.0
        self.values.append((value, result.config))

    @property
    def held(self) -> Config:
        """The configuration of the highest single value."""
        return max(self.values, key=lambda v: v[0])[1]

    @property
    def gain(self) -> tuple[Config, float] | None:
        """The highest single value over the first of plain decode."""
        if self.held == self.plain:
            return None
        return self.plain, max(value for value, _ in self.values) / self.values[0][0]

    @property
    def stated(self) -> tuple[Config, float, float] | None:
        """None: a highest single value has no interval."""
        return None


class Staged(Listed):
    """One axis after the other, each at the best of those before: what most people do."""

    def __init__(self, world: World) -> None:
        super().__init__(world, self._stages(world))

    def _stages(self, world: World) -> Iterator[Config]:
        space = world.space
        for axis in space.ordered():
            for value in coarse(axis):
                config = space.walk(self._setter(axis, value))
                if not space.broken_rules(config) and config not in [c for _, c in self.values]:
                    yield config

    def _setter(self, changed: Axis, value: Value) -> Callable[[Axis], Value]:
        best = self.held

        def pick(axis: Axis) -> Value:
            if axis.name == changed.name:
                return value
            wanted = [v for v in WANTED.get(axis.name, ()) if v in values_of(axis)]
            first = wanted[0] if wanted and axis.when else axis.default
            return best.get(axis.name, first)

        return pick


class Asha(Listed):
    """Random draws with the stopping form of successive halving: rungs at 15, 50 and 150 s."""

    RUNGS, KEPT = (3, 10), 3

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, valid_samples(world.space, seed))
        self._rungs: dict[int, list[float]] = {blocks: [] for blocks in self.RUNGS}

    def stop(self, config: Config, purpose: str) -> Stop | None:
        """Stop at a rung whose best third a trial is not in."""

        def at(rates: Sequence[float], steps: Sequence[float]) -> bool:
            rung = self._rungs.get(len(rates))
            if rung is None:
                return False
            value = float(np.mean(rates))
            rung.append(value)
            return value < sorted(rung, reverse=True)[max(0, math.ceil(len(rung) / self.KEPT) - 1)]

        return at


def grid(world: World, seed: int) -> Listed:
    """Return the cells of the flat product in a random order."""
    rng = random.Random(seed)
    drafts = [d for group in drafts_of(world.setting.space).values() for d in group]
    servings = servings_of(world.setting.space)

    def cells() -> Iterator[Config]:
        while True:
            yield Config.of({**rng.choice(drafts), **rng.choice(servings)})

    return Listed(world, cells())


def floor(world: World) -> Listed:
    """Return plain decode and the best, once each: nothing can be faster."""
    return Listed(world, iter([world.best[1]]))


def below(bar: float, most_accept: float) -> Stop:
    """Return a rule that stops what is confidently below a bar."""

    def at(rates: Sequence[float], steps: Sequence[float]) -> bool:
        slow = decide(steps, bar / most_accept, prior_cv=STEPS_CV, alpha=STOP_ALPHA,
                      margin=STOP_MARGIN)  # fmt: skip
        return slow is not None or decide(
            rates, bar, prior_cv=RATE_CV, alpha=STOP_ALPHA, margin=STOP_MARGIN
        ) is not None  # fmt: skip

    return at


def best_possible_accept(config: Config) -> float:
    """Return the accept length if every draft were right."""
    return float(width_of(config))


def coarse(axis: Axis) -> tuple[Value, ...]:
    """Return the values that a person would write for an axis."""
    values = values_of(axis)
    if len(values) <= 4:
        return values
    places = sorted({round((len(values) - 1) * (k / 5) ** 2) for k in range(6)})
    return tuple(values[place] for place in places)
