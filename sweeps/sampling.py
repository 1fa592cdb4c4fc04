"""Valid configurations drawn at random, to look at a space without a search."""

import random
from collections.abc import Iterator

from sweeps.axes import Axis, FloatRange
from sweeps.config import Config
from sweeps.space import Space
from sweeps.values import Value

DRAWS_WITHOUT_NEWS = 300
"""Draws in a row that bring nothing new before the space counts as used up."""


def valid_samples(space: Space, seed: int) -> Iterator[Config]:
    """Draw different configurations that obey the rules, until nothing new comes."""
    rng = random.Random(seed)
    seen: set[str] = set()
    idle = 0
    while idle < DRAWS_WITHOUT_NEWS:
        idle += 1
        config = space.walk(lambda axis: _draw(axis, rng))
        if not space.broken_rules(config) and config.variant not in seen:
            seen.add(config.variant)
            idle = 0
            yield config


def _draw(axis: Axis, rng: random.Random) -> Value:
    if isinstance(axis, FloatRange):
        return rng.uniform(axis.low, axis.high)
    return rng.choice(axis.grid)
