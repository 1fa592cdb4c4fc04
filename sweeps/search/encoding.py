"""Configurations as rows of numbers: what the models of step time and accept length look at."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sweeps.axes import Axis, FloatRange
from sweeps.config import Config
from sweeps.prediction.source import NOTHING_KNOWN, AcceptSource
from sweeps.search.evidence import read_log
from sweeps.search.gaussian import Floats, Points
from sweeps.search.roles import (
    ALGORITHM,
    DRAFT_STEPS,
    DRAFT_TOKENS,
    TREE_BREADTH,
    Role,
    cost_of,
    drafting_of,
    reach_of,
    role_of,
    width_of,
)
from sweeps.space import Space
from sweeps.values import Value

Settings = Mapping[str, Value]


@dataclass(frozen=True)
class Encoder:
    """Reads a space once; rows of the same space compare."""

    space: Space
    source: AcceptSource = NOTHING_KNOWN
    """Gives accept lengths that were computed instead of measured."""

    @cached_property
    def serving_axes(self) -> tuple[Axis, ...]:
        """The axes that decide what a step costs."""
        return tuple(a for a in self.space.axes if role_of(a.name) is not Role.DRAFTING)

    @cached_property
    def serving_costs(self) -> tuple[Floats, ...]:
        """What each value of a serving axis is expected to cost, by its code."""
        found = []
        for axis in self.serving_axes:
            found.append(np.array([0.0, *(cost_of(axis.name, v) for v in values_of(axis))]))
        return tuple(found)

    @cached_property
    def shape_axes(self) -> tuple[Axis, ...]:
        """The axes that shape a draft, apart from who drafts and how far it reaches. In a tree that
        is how deep it is, and its size is shape."""
        leading = [ALGORITHM, DRAFT_STEPS]
        if not any(a.name == TREE_BREADTH and len(values_of(a)) > 1 for a in self.space.axes):
            leading.append(DRAFT_TOKENS)
        named = [a for a in self.space.axes if a.name not in leading]
        return tuple(a for a in named if role_of(a.name) is Role.DRAFTING)

    def cycles(self, configs: Sequence[Settings]) -> Points:
        """Return rows for the time of a step: algorithm and serving codes; log2 of the width."""
        codes = [(self.algorithm_code(c), *self._serving_codes(c)) for c in configs]
        numbers = [[math.log2(width_of(c))] for c in configs]
        return _points(codes, numbers, 1 + len(self.serving_axes), 1)

    def cycles_of_all(
        self, kinds: Sequence[tuple[int, int]], servings: Sequence[Settings]
    ) -> Points:
        """Return such rows for every algorithm code and width with every serving, in this order."""
        columns = len(self.serving_axes)
        rows = np.array([self._serving_codes(s) for s in servings], dtype=np.int64)
        heads = np.array([kind[0] for kind in kinds], dtype=np.int64).repeat(len(servings))
        widths = np.log2([float(kind[1]) for kind in kinds]).repeat(len(servings))
        tiled = np.tile(rows.reshape(len(servings), columns), (len(kinds), 1))
        return Points(np.column_stack([heads, tiled]), widths[:, None])

    def accepts(self, configs: Sequence[Settings]) -> Points:
        """Return rows for the accept length: the codes as above, those of the shape of the draft
        after them; reach, each ordered axis from 0 to 1, then the logarithm of the accept length
        that is known without measuring, and its spread: not a number where none is."""
        self._prepare(configs)
        rows = [self._shape(config) for config in configs]
        codes = [
            (self.algorithm_code(config), *self._serving_codes(config), *named)
            for config, (_, named) in zip(configs, rows, strict=True)
        ]
        numbers = [
            [float(reach_of(config)), *ordered, *self.given(config)]
            for config, (ordered, _) in zip(configs, rows, strict=True)
        ]
        columns = 1 + len(self.serving_axes) + len(self._named_axes)
        return _points(codes, numbers, columns, 3 + len(self.ordered_axes))

    def given(self, config: Settings) -> tuple[float, float]:
        """Return what is known of the accept length before it is measured, as a logarithm."""
        draft = drafting_of(config)
        found = self._given.get(draft)
        if found is None:
            reading = read_log(self.source.accept(draft))
            found = (
                (math.nan, math.nan)
                if reading is None
                else (reading.value, math.sqrt(reading.variance))
            )
            self._given[draft] = found
        return found

    def _prepare(self, configs: Sequence[Settings]) -> None:
        drafts = dict.fromkeys(map(drafting_of, configs))
        missing = [draft for draft in drafts if draft not in self._given]
        if missing:
            self.source.prepare(missing)

    def algorithm_code(self, settings: Settings) -> int:
        """Return which algorithm drafts, as a number; 0: none."""
        return self._algorithms.get(settings.get(ALGORITHM), 0)

    @cached_property
    def ordered_axes(self) -> tuple[Axis, ...]:
        """The axes of the shape of a draft whose values have an order."""
        return tuple(axis for axis in self.shape_axes if is_ordered(axis))

    @cached_property
    def _named_axes(self) -> tuple[Axis, ...]:
        return tuple(axis for axis in self.shape_axes if not is_ordered(axis))

    def _serving_codes(self, settings: Settings) -> tuple[int, ...]:
        return tuple(self._code(axis.name, settings) for axis in self.serving_axes)

    def _shape(self, settings: Settings) -> tuple[tuple[float, ...], tuple[int, ...]]:
        ordered = tuple(self._place(axis.name, settings) for axis in self.ordered_axes)
        return ordered, tuple(self._code(axis.name, settings) for axis in self._named_axes)

    def _code(self, name: str, settings: Settings) -> int:
        """Return 0 for the default or nothing, else which value it is."""
        value = settings.get(name)
        known = self._codes[name]
        if value not in known:
            known[value] = _code(self.space.axis(name), value)
        return known[value]

    def _place(self, name: str, settings: Settings) -> float:
        value = settings.get(name)
        known = self._places[name]
        if value not in known:
            known[value] = place(self.space.axis(name), value)
        return known[value]

    @cached_property
    def _given(self) -> dict[Config, tuple[float, float]]:
        return {}

    @cached_property
    def _codes(self) -> dict[str, dict[Value, int]]:
        return {axis.name: {None: 0} for axis in self.space.axes}

    @cached_property
    def _places(self) -> dict[str, dict[Value, float]]:
        return {axis.name: {} for axis in self.space.axes}

    @cached_property
    def _algorithms(self) -> dict[Value, int]:
        axis = self._algorithm
        named = [v for v in values_of(axis) if v is not None] if axis else []
        return {value: code for code, value in enumerate(named, 1)}

    @cached_property
    def _algorithm(self) -> Axis | None:
        return next((a for a in self.space.axes if a.name == ALGORITHM), None)


def _points(
    codes: Sequence[Sequence[int]],
    numbers: Sequence[Sequence[float]],
    code_columns: int,
    number_columns: int,
) -> Points:
    """Make arrays that keep their columns when there are no rows."""
    return Points(
        np.array(codes, dtype=np.int64).reshape(len(codes), code_columns),
        np.array(numbers, dtype=float).reshape(len(numbers), number_columns),
    )


def is_ordered(axis: Axis) -> bool:
    """Tell whether neighbouring values of an axis are expected to do alike: numbers alone are."""
    return all(type(value) in (int, float) for value in values_of(axis))


def values_of(axis: Axis, most: int = 8) -> tuple[Value, ...]:
    """List the values of an axis; a continuous one gives `most` that cover it."""
    if not isinstance(axis, FloatRange):
        return tuple(axis.grid)
    low, high = (math.log(axis.low), math.log(axis.high)) if axis.log else (axis.low, axis.high)
    evenly = np.linspace(low, high, most).tolist()
    return tuple(math.exp(v) for v in evenly) if axis.log else tuple(evenly)


def place(axis: Axis, value: Value) -> float:
    """Return where an ordered value lies between the ends of its axis, by ratio where it can."""
    if not isinstance(value, int | float):
        return 0.0
    numbers = [float(v) for v in values_of(axis) if isinstance(v, int | float)]
    low, high = min(numbers), max(numbers)
    if low == high:
        return 0.0
    if low > 0:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def _code(axis: Axis, value: Value) -> int:
    """Return 0 for the default, else which value it is; near values of a range are alike."""
    if value == axis.default:
        return 0
    values = values_of(axis)
    if value in values:
        return 1 + values.index(value)
    return 1 + int(np.argmin([abs(float(v or 0) - float(value or 0)) for v in values]))


def log2_of(points: Points) -> Floats:
    """Return the logarithm of the width, the first number of a row of cycles."""
    return np.asarray(points.numbers[..., 0])
