"""The space of configurations: which axes exist when, which rules bind them, how many there are."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweeps.axes import Axis, Choice, FloatRange, conditions
from sweeps.config import Config
from sweeps.expressions import Expr, UnsetError
from sweeps.problems import Problem, nearest
from sweeps.values import Value, show

COUNT_LIMIT = 200_000
"""Combinations that a count may visit in one group of linked axes before it gives a bound."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A joint constraint. It binds a configuration in which all the axes that it names exist."""

    must: Expr
    message: str

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Tell whether settings obey the rule; comparisons with an unset value bind nothing."""
        if not self.must.names() <= values.keys():
            return True
        try:
            return bool(self.must.evaluate(values))
        except UnsetError:
            return True


@dataclass(frozen=True, slots=True)
class Count:
    """How many configurations there are: exactly, or at most."""

    configs: int
    exact: bool
    continuous: bool

    def __str__(self) -> str:
        number = f"{self.configs:,}" if self.exact else f"at most {self.configs:,}"
        return f"{number} x continuous axes" if self.continuous else number


@dataclass(frozen=True, slots=True)
class Space:
    """Axes and rules. `problems()` first: the other methods rely on a sound space."""

    axes: Sequence[Axis]
    rules: Sequence[Rule] = ()

    def axis(self, name: str) -> Axis:
        """Find an axis. Raises KeyError."""
        return {axis.name: axis for axis in self.axes}[name]

    def ordered(self) -> list[Axis]:
        """Sort the axes so that each comes after those that its conditions name."""
        placed: list[Axis] = []
        waiting = list(self.axes)
        while waiting:
            done = {axis.name for axis in placed}
            ready = [axis for axis in waiting if conditions(axis).keys() <= done]
            if not ready:
                raise ValueError("conditions in a circle or on a missing axis")
            placed += ready
            waiting = [axis for axis in waiting if axis not in ready]
        return placed

    def walk(self, pick: Callable[[Axis], Value]) -> Config:
        """Build a configuration by asking for the value of each axis that exists."""
        values: dict[str, Value] = {}
        for axis in self.ordered():
            if exists(axis, values):
                values[axis.name] = pick(axis)
        return Config.of(values)

    def plain(self) -> Config:
        """Return the baseline: every axis at its default."""
        return self.walk(lambda axis: axis.default)

    def broken_rules(self, config: Mapping[str, Value]) -> list[Rule]:
        """List the rules that a configuration breaks."""
        return [rule for rule in self.rules if not rule.holds(config)]

    def strays(self, config: Mapping[str, Value]) -> list[str]:
        """Name what keeps a configuration outside the space: extra, missing or illegal values."""
        expected = {a.name: a for a in self.ordered() if exists(a, config)}
        wrong = [f"{name} is not an axis here" for name in config.keys() - expected.keys()]
        wrong += [f"{name} is missing" for name in expected.keys() - config.keys()]
        wrong += [
            f"{name} cannot be {show(config[name])}"
            for name in expected.keys() & config.keys()
            if not _allows(expected[name], config[name])
        ]
        return sorted(wrong)

    def as_data(self) -> dict[str, object]:
        """Return plain data for the hash; the order of axes and rules does not matter."""
        return {
            "axes": sorted((axis.as_data() for axis in self.axes), key=lambda d: str(d["name"])),
            "rules": sorted([str(rule.must), rule.message] for rule in self.rules),
        }

    def count(self) -> Count:
        """Count the valid configurations; groups of axes without a link between them multiply."""
        total, exact = 1, True
        for group in self._groups():
            number, whole = self._count_group(group)
            total *= number
            exact &= whole
        return Count(total, exact, any(axis.grid is None for axis in self.axes))

    def problems(self) -> list[Problem]:
        """List everything that is wrong with the space."""
        found = self.structure_problems()
        if not found and self.count().configs == 0:
            rules = "; ".join(rule.message for rule in self.rules)
            found.append(
                Problem("rules", rules, "no configuration obeys all of them", "Loosen one.")
            )
        return found

    def structure_problems(self) -> list[Problem]:
        """List what keeps the space from being walked."""
        # Conditions and rules speak of sound axes.
        return self._axis_problems() or self._condition_problems() + self._rule_problems()

    def _axis_problems(self) -> list[Problem]:
        found = [] if self.axes else [Problem("axes", "[]", "nothing varies", "Add an axis.")]
        names = [axis.name for axis in self.axes]
        for axis in self.axes:
            if names.count(axis.name) > 1:
                found.append(Problem("axes", axis.name, "the axis stands twice", "Keep one."))
            if fault := axis.fault():
                found.append(Problem(axis.name, str(axis), fault, "Mend the axis."))
            if not _is_mapping(axis.when):
                mend = 'Write {"speculative_algorithm": "NGRAM"}.'
                why = "conditions map the name of an axis to a value or values"
                found.append(Problem(f"{axis.name}.when", str(axis.when), why, mend))
        return found

    def _condition_problems(self) -> list[Problem]:
        found = []
        known = {axis.name: axis for axis in self.axes}
        for axis in self.axes:
            for name, allowed in conditions(axis).items():
                field, text = f"{axis.name}.when", f"{name}: {', '.join(map(show, allowed))}"
                if name not in known:
                    mend = nearest(name, known) or "Name an axis of this space."
                    found.append(Problem(field, text, f"there is no axis `{name}`", mend))
                elif not any(_allows(known[name], value) for value in allowed):
                    mend = f"It can be {values_text(known[name])}."
                    found.append(Problem(field, text, f"`{name}` is never that", mend))
        if not found:
            found += self._circle_problems()
        return found

    def _circle_problems(self) -> list[Problem]:
        try:
            self.ordered()
        except ValueError:
            names = ", ".join(axis.name for axis in self.axes if axis.when)
            why = "the conditions form a circle, so no axis of it can ever exist"
            return [Problem("when", names, why, "Take one of these conditions away.")]
        return []

    def _rule_problems(self) -> list[Problem]:
        known = [axis.name for axis in self.axes]
        return [
            Problem(
                "rules", str(rule.must), f"there is no axis `{name}`",
                nearest(name, known) or "Name an axis of this space.",
            )
            for rule in self.rules
            for name in sorted(rule.must.names() - set(known))
        ]  # fmt: skip

    def _groups(self) -> list[list[Axis]]:
        """Split the axes into groups between which no condition and no rule runs."""
        links = [{axis.name, *conditions(axis)} for axis in self.axes]
        links += [set(rule.must.names()) for rule in self.rules]
        groups: list[set[str]] = []
        for link in links:
            touched = [group for group in groups if group & link]
            groups = [group for group in groups if not group & link]
            groups.append(set(link).union(*touched))
        ordered = self.ordered()
        return [[axis for axis in ordered if axis.name in group] for group in groups]

    def _count_group(self, group: list[Axis]) -> tuple[int, bool]:
        """Count one group: walk the axes that steer others, multiply by the sizes of the rest."""
        steering = {name for axis in group for name in conditions(axis)}
        rules = [rule for rule in self.rules if rule.must.names() & {a.name for a in group}]
        steering |= {name for rule in rules for name in rule.must.names()}
        walked = [axis for axis in group if axis.name in steering]
        free = [axis for axis in group if axis.name not in steering]
        bound = math.prod(_size(axis) for axis in walked)
        if bound > COUNT_LIMIT:
            return math.prod(_size(axis) for axis in group), False
        number = 0
        for values in _combinations(walked, {}):
            if all(rule.holds(values) for rule in rules):
                number += math.prod(_size(axis) for axis in free if exists(axis, values))
        return number, True


def exists(axis: Axis, values: Mapping[str, Value]) -> bool:
    """Tell whether an axis exists under the values of the axes before it."""
    return all(
        name in values and values[name] in allowed for name, allowed in conditions(axis).items()
    )


def _is_mapping(when: object) -> bool:
    return isinstance(when, Mapping)


def _combinations(axes: Sequence[Axis], values: dict[str, Value]) -> Iterator[dict[str, Value]]:
    if not axes:
        yield values
    elif not exists(axes[0], values):
        yield from _combinations(axes[1:], values)
    else:
        for value in axes[0].grid or (axes[0].default,):
            yield from _combinations(axes[1:], {**values, axes[0].name: value})


def _allows(axis: Axis, value: Value) -> bool:
    if isinstance(axis, FloatRange):
        return isinstance(value, float | int) and axis.low <= value <= axis.high
    return value in axis.grid


def _size(axis: Axis) -> int:
    return 1 if axis.grid is None else len(axis.grid)


def values_text(axis: Axis) -> str:
    """Write the values of an axis as a person reads them."""
    if isinstance(axis, Choice):
        return ", ".join(map(show, axis.values)) or "[]"
    return f"{axis.low:g} to {axis.high:g}"
