"""The axes of a space: what may vary, over which values, and under which conditions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sweeps.ranges import is_finite
from sweeps.values import Value

When = Mapping[str, Value | Sequence[Value]]
"""Axis name to the value, or the values, under which an axis exists. All must hold."""

_MOST_VALUES = 2**24
"""Of a range: all of them are listed."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few values. The first is the default: what a plain server would run with."""

    name: str
    values: Sequence[Value]
    when: When = field(default_factory=dict)

    @property
    def default(self) -> Value:
        """Return the value of the baseline."""
        return self.values[0]

    @property
    def grid(self) -> Sequence[Value]:
        """List all values."""
        return self.values

    def fault(self) -> str:
        """Say what is wrong with the axis by itself; empty if nothing is."""
        if isinstance(self.values, str) or not isinstance(self.values, Sequence):
            return "the values are no list"
        if not self.values:
            return "there is no value to choose from"
        if not all(v is None or isinstance(v, str | int | float | bool) for v in self.values):
            return "a value is no text, number, bool or None"
        if not all(math.isfinite(v) for v in self.values if isinstance(v, float)):
            return "a value is no finite number"
        if any(isinstance(v, str) and "\0" in v for v in self.values):
            return "a value holds a null character"
        return self._twice()

    def _twice(self) -> str:
        """Say which value stands twice, empty if none does."""
        values = list(self.values)
        for at, value in enumerate(values):
            for other in values[:at]:
                if _are_one(other, value):
                    return f"a value stands twice: {other!r} and {value!r} are one"
        return ""

    def as_data(self) -> dict[str, object]:
        """Return plain data for the hash of the space."""
        return {"choice": list(self.values), **_head(self.name, self.when)}


@dataclass(frozen=True, slots=True)
class IntRange:
    """Whole numbers from `low` to `high`, both included."""

    name: str
    low: int
    high: int
    when: When = field(default_factory=dict)
    step: int = field(default=1, kw_only=True)
    log: bool = field(default=False, kw_only=True)

    @property
    def default(self) -> Value:
        """Return the value of the baseline."""
        return self.low

    @property
    def grid(self) -> Sequence[Value]:
        """List all values."""
        return range(self.low, self.high + 1, self.step)

    def fault(self) -> str:
        """Say what is wrong with the axis by itself; empty if nothing is."""
        if not all(type(n) is int for n in (self.low, self.high, self.step)):
            return "the ends of the range are no whole numbers"
        if self.low > self.high:
            return f"the range from {self.low} to {self.high} is empty"
        if self.step < 1:
            return f"the step {self.step} is below 1"
        if (self.high - self.low) // self.step >= _MOST_VALUES:
            return f"it has more than {_MOST_VALUES:,} values; a larger `step` gives fewer"
        if self.log and (self.low < 1 or self.step != 1):
            return "a log scale needs low >= 1 and step 1"
        return ""

    def as_data(self) -> dict[str, object]:
        """Return plain data for the hash of the space."""
        return {
            "int": [self.low, self.high, self.step],
            "log": self.log,
            **_head(self.name, self.when),
        }


@dataclass(frozen=True, slots=True)
class FloatRange:
    """Real numbers from `low` to `high`."""

    name: str
    low: float
    high: float
    when: When = field(default_factory=dict)
    log: bool = field(default=False, kw_only=True)

    @property
    def default(self) -> Value:
        """Return the value of the baseline."""
        return self.low

    @property
    def grid(self) -> None:
        """Return None: there is no list of all values."""
        return None

    def fault(self) -> str:
        """Say what is wrong with the axis by itself; empty if nothing is."""
        if not all(type(n) in (int, float) and is_finite(n) for n in (self.low, self.high)):
            return "the ends of the range are no finite numbers"
        if self.low >= self.high:
            return f"the range from {self.low:g} to {self.high:g} is empty"
        if self.log and self.low <= 0:
            return "a log scale needs low > 0"
        return ""

    def as_data(self) -> dict[str, object]:
        """Return plain data for the hash of the space."""
        return {
            "float": [self.low, self.high],
            "log": self.log,
            **_head(self.name, self.when),
        }


Axis = Choice | IntRange | FloatRange


def _are_one(a: Value, b: Value) -> bool:
    """Tell whether two values are one setting: equal, as 1 and 1.0, or the same word."""
    words = [str(v) for v in (a, b) if v is not None and not isinstance(v, bool)]
    return a == b or (len(words) == 2 and words[0] == words[1])


def switch(name: str, when: When | None = None) -> Choice:
    """Make an axis of a flag that is either given or not; off is the default."""
    return Choice(name, (False, True), when or {})


def holds_numbers(axis: Axis) -> bool:
    """Tell whether all values of an axis are numbers."""
    if axis.grid is None:
        return True
    return all(type(value) in (int, float) for value in axis.grid)


def conditions(axis: Axis) -> dict[str, tuple[Value, ...]]:
    """Return the conditions of an axis, each as the tuple of values that it allows."""
    return {name: _allowed(allowed) for name, allowed in axis.when.items()}


def is_environment(name: str) -> bool:
    """Tell a variable of the environment from a server flag: it is written in capitals."""
    return name == name.upper()


def _allowed(allowed: Value | Sequence[Value]) -> tuple[Value, ...]:
    if isinstance(allowed, Sequence) and not isinstance(allowed, str):
        return tuple(allowed)
    return (allowed,)


def _head(name: str, when: When) -> dict[str, object]:
    return {"name": name, "when": {k: list(_allowed(v)) for k, v in when.items()}}
