"""How far each axis moves the objective, others held, with an interval and what chance alone shows.

An axis exists only under some values of others, so a model is fitted for each algorithm apart: sums
of effects of levels on the logarithm, slightly shrunk. Where an axis does not exist is a level of
its own, which is not compared with the others. Variants
are drawn again with replacement for the interval; levels are shuffled for chance. An effect that
needs two axes at once is not in it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sweeps.config import Config
from sweeps.ranking import rank
from sweeps.results import Outcome, TrialResult
from sweeps.values import show

DRAWS = 120
LEAST_VARIANTS = 8
LEVELS = 6
"""Numbers of more levels than this are put into so many classes."""
_SHRINK = 0.5
"""Trials of prior evidence that a level does nothing."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Importance:
    """One axis under one algorithm."""

    algorithm: str | None
    axis: str
    spread: float
    """The best level over the worst, less 1."""
    low: float
    high: float
    chance: float
    """What shuffled levels reach in 95 of 100 cases."""
    best: str
    variants: int
    along_with: tuple[str, ...] = ()
    """Axes that always changed together with it: their effects cannot be told apart."""

    @property
    def is_shown(self) -> bool:
        """Tell whether the axis moves more than chance does."""
        return self.spread > self.chance


def importances(
    results: Sequence[TrialResult], metric: str, *, higher_is_better: bool, seed: int = 0
) -> tuple[Importance, ...]:
    """Return all axes of all algorithms with enough variants, the strongest first."""
    values = _values(results, metric)
    found: list[Importance] = []
    for algorithm in dict.fromkeys(r.config.algorithm for r in results):
        ours = {r.config.variant: r.config for r in results if r.config.algorithm == algorithm}
        configs = [c for v, c in ours.items() if v in values]
        axes = [
            axis for axis in dict.fromkeys(name for c in configs for name in c)
            if len({c[axis] for c in configs if axis in c}) > 1
        ]  # fmt: skip
        if len(configs) < LEAST_VARIANTS or not axes:
            continue
        logs = np.log([values[c.variant] for c in configs]) * (1 if higher_is_better else -1)
        columns = [_column(configs, axis) for axis in axes]
        found += _fitted(algorithm, axes, columns, logs, np.random.default_rng(seed))
    return tuple(sorted(found, key=lambda one: -one.spread))


def _values(results: Sequence[TrialResult], metric: str) -> dict[str, float]:
    """Return each variant's value: ranked, or its bound where it was stopped by one."""
    stopped = {
        r.config.variant: r.bound
        for r in results
        if r.outcome is Outcome.STOPPED and r.bound is not None
    }
    ranked = rank(results, metric, higher_is_better=True).standings
    both = {**stopped, **{s.variant: s.value for s in ranked}}
    return {variant: value for variant, value in both.items() if value > 0}


@dataclass(frozen=True, slots=True)
class _Column:
    """The level of an axis in each variant; where it does not exist it has a level of its own."""

    names: tuple[str, ...]
    """Of the levels that are compared: all but the one of not existing, which comes last."""
    places: NDArray[np.int_]

    @property
    def size(self) -> int:
        return len(self.names) + 1


def _column(configs: Sequence[Config], axis: str) -> _Column:
    """Tell the levels of an axis apart; many numbers are put into classes."""
    present = [c[axis] for c in configs if axis in c]
    kept = list(dict.fromkeys(present))
    numbers = [float(v) for v in present if isinstance(v, int | float) and type(v) is not bool]
    if len(numbers) == len(present) and len(kept) > LEVELS:
        edges = np.unique(np.quantile(numbers, np.linspace(0, 1, LEVELS + 1))).tolist()
        names = [f"{a:g} to {b:g}" for a, b in pairwise(edges)]
        found = iter([bisect_right(edges[1:-1], number) for number in numbers])
    else:
        names = [show(value) for value in kept]
        found = iter([kept.index(value) for value in present])
    places = [next(found) if axis in c else len(names) for c in configs]
    return _Column(tuple(names), np.array(places))


def _fitted(
    algorithm: str | None,
    axes: Sequence[str],
    columns: Sequence[_Column],
    logs: Floats,
    random: np.random.Generator,
) -> list[Importance]:
    names = [column.names for column in columns]
    places = np.stack([column.places for column in columns])
    sizes = [column.size for column in columns]
    design, starts = _design(places, sizes), np.concatenate(([0], np.cumsum(sizes)))
    count = len(logs)
    effects = _effects(design, logs, np.ones((1, count)), starts)
    draws = random.multinomial(count, np.full(count, 1 / count), DRAWS).astype(float)
    spreads, drawn = _spreads(effects)[0], _spreads(_effects(design, logs, draws, starts))
    chance = _by_chance(design, logs, starts, random)
    lows, highs = np.quantile(drawn, (0.025, 0.975), axis=0)
    return [
        Importance(
            algorithm, axis, float(np.expm1(spread)), float(np.expm1(lows[k])),
            float(np.expm1(highs[k])), float(np.expm1(chance[k])),
            names[k][int(np.argmax(effects[k][0, :-1]))], count,
            tuple(axes[j] for j in range(len(axes)) if j != k and _alike(places[j], places[k])),
        )
        for k, (axis, spread) in enumerate(zip(axes, spreads.tolist(), strict=True))
    ]  # fmt: skip


def _alike(one: NDArray[np.int_], other: NDArray[np.int_]) -> bool:
    """Tell whether two axes split the variants into the same groups."""
    pairs = len(set(zip(one.tolist(), other.tolist(), strict=True)))
    return pairs == len(set(one.tolist())) == len(set(other.tolist()))


def _effects(
    design: Floats, logs: Floats, weights: Floats, starts: NDArray[np.int_]
) -> list[Floats]:
    """Fit a sum of one effect a level of each axis, once for each row of weights.

    Returns the effects of each axis; levels that do not occur have none.
    """
    width = design.shape[1]
    products = (design[:, :, None] * design[:, None, :]).reshape(len(logs), width * width)
    grams = (weights @ products).reshape(len(weights), width, width)
    means = weights @ logs / weights.sum(axis=1)
    right = weights @ (design * logs[:, None]) - means[:, None] * (weights @ design)
    found = _solved(grams, right[:, :, None])[:, :, 0]
    return [found[:, a:b] for a, b in pairwise(starts)]


def _by_chance(
    design: Floats, logs: Floats, starts: NDArray[np.int_], random: np.random.Generator
) -> list[float]:
    """Shuffle one axis at a time, the others as they are: what it reaches in 95 of 100 cases."""
    centred = logs - logs.mean()
    gram, right = design.T @ design, design.T @ centred
    found = []
    for start, end in pairwise(starts):
        spreads = []
        for _ in range(DRAWS):
            block = random.permutation(design[:, start:end])
            mixed, turned = gram.copy(), right.copy()
            mixed[start:end] = block.T @ design
            mixed[:, start:end] = mixed[start:end].T
            mixed[start:end, start:end] = gram[start:end, start:end]
            turned[start:end] = block.T @ centred
            effects = _solved(mixed, turned)[start : end - 1]
            spreads.append(float(np.ptp(effects)))
        found.append(float(np.quantile(spreads, 0.95)))
    return found


def _design(places: NDArray[np.int_], sizes: Sequence[int]) -> Floats:
    """Return a column a level, 1 where a variant has it."""
    starts = np.concatenate(([0], np.cumsum(sizes)))
    design = np.zeros((places.shape[1], int(starts[-1])))
    rows = np.arange(places.shape[1])
    for start, place in zip(starts[:-1], places, strict=True):
        design[rows, start + place] = 1.0
    return design


def _solved(gram: Floats, right: Floats) -> Floats:
    shrunk = gram + _SHRINK * np.eye(gram.shape[-1])
    return np.asarray(np.linalg.solve(shrunk, right))


def _spreads(effects: Sequence[Floats]) -> Floats:
    """Return the range of each axis over the levels at which it exists, for each fit."""
    return np.stack([np.ptp(one[:, :-1], axis=1) for one in effects], axis=1)
