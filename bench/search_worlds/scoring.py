"""One sweep driven to its end, and what it was worth by the truth."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from search_worlds.strategies import Strategy
from search_worlds.trials import draw
from search_worlds.world import World
from sweeps.config import Config

NEAR = math.log(1.02)
CAP_STARTS = 120
NEVER_GPU_HOURS = 104.0


@dataclass(frozen=True, slots=True)
class Score:
    """What a sweep was worth."""

    world: str
    strategy: str
    seed: int
    margin: float
    """Log of the best speculation over the best plain decode."""
    hold_gpu_hours: float
    """Until what was held is within 2 % of the best for good; infinite: never."""
    first_gpu_hours: float
    gpu_hours: float
    starts: int
    regret: float
    """Log of the best rate over that of the recommendation."""
    plain_named: bool
    gain_error: float | None
    """Reported gain over the true one, less 1."""
    gain_covered: bool | None = None
    """Whether the stated interval of the gain holds the true one."""
    good_trials: int = 0
    """Early stopping may end them: trials of configurations within 2 % of the best."""
    good_stopped: int = 0
    suggest_s: float = 0.0
    """The slowest suggestion."""
    purposes: dict[str, int] = field(default_factory=dict)

    @property
    def near(self) -> bool:
        """Tell whether the recommendation is within 2 % of the best."""
        return self.regret <= NEAR


def sweep(
    world: World, strategy: Strategy, name: str, seed: int, starts: int, before_gpu_hours: float
) -> Score:
    """Drive a sweep to its end, or to so many starts, after what was spent before it."""
    rng = np.random.default_rng([seed, 77])
    best = world.best[0]
    hours, slowest, good, stopped = before_gpu_hours, 0.0, 0, 0
    path: list[tuple[float, Config]] = []
    purposes: dict[str, int] = {}
    for number in range(starts):
        began = time.perf_counter()
        asked = strategy.ask()
        slowest = max(slowest, time.perf_counter() - began)
        if asked is None:
            break
        config, purpose = asked
        rule = strategy.stop(config, purpose)
        drawn = draw(world, config, number, rng, purpose=purpose, stop=rule)
        strategy.tell(drawn.result)
        hours += drawn.result.gpu_hours
        purposes[purpose] = purposes.get(purpose, 0) + 1
        if rule is not None and math.log(best / world.tok_s(config)) <= NEAR:
            good += 1
            stopped += drawn.result.outcome.value == "stopped"
        path.append((hours, strategy.held))
    regrets = [math.log(best / world.tok_s(config)) for _, config in path]
    return Score(
        world.setting.name, name, seed,
        math.log(world.best_speculation[0] / world.best_plain[0]),
        _hold(path, regrets),
        next((h for (h, _), r in zip(path, regrets, strict=True) if r <= NEAR), math.inf),
        hours, len(path), regrets[-1], path[-1][1].is_plain, _gain_error(world, strategy),
        _gain_covered(world, strategy),
        good, stopped, slowest, purposes,
    )  # fmt: skip


def _hold(path: Sequence[tuple[float, Config]], regrets: Sequence[float]) -> float:
    far = [place for place, regret in enumerate(regrets) if regret > NEAR]
    if not far:
        return path[0][0]
    return path[far[-1] + 1][0] if far[-1] + 1 < len(path) else math.inf


def _gain_covered(world: World, strategy: Strategy) -> bool | None:
    stated = strategy.stated
    if stated is None:
        return None
    over, low, high = stated
    return low <= world.tok_s(strategy.held) / world.tok_s(over) <= high


def _gain_error(world: World, strategy: Strategy) -> float | None:
    gain = strategy.gain
    if gain is None:
        return None
    over, ratio = gain
    return ratio / (world.tok_s(strategy.held) / world.tok_s(over)) - 1
