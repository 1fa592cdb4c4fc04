"""Which settings of a configuration, or axes of a space, cannot matter."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from infra.machine import Machine
from infra.sglang.configuration import Configuration
from infra.sglang.flag import within
from infra.sglang.flags import FLAGS, spelled
from infra.sglang.inert_rules import INERT_RULES, InertRule
from sweeps.values import Value

_LOOKS_LIMIT = 20_000
"""Configurations that are looked at for an axis; one that needs more is not called inert."""


@dataclass(frozen=True, slots=True)
class Inert:
    """A setting whose value has no effect, and the value that stands for all that have none."""

    axis: str
    value: Value
    reason: str
    becomes: Value


@dataclass(frozen=True, slots=True)
class EqualValues:
    """Values of an axis that make the same server, whatever the other settings are."""

    axis: str
    values: tuple[Value, ...]
    reasons: tuple[str, ...]
    whole: bool
    """They are all the values of the axis: it cannot matter."""


def inert_settings(
    settings: Mapping[str, Value], version: str, machine: Machine | None = None
) -> tuple[Inert, ...]:
    """List the settings that have no effect, of all those of one start, the fixed ones too.

    Names may be neutral. What is not given counts with the version's default.
    """
    found = _collapsed(settings, version, machine)[1]
    return tuple(inert for inert in found if inert.value is not None)


def collapse(
    settings: Mapping[str, Value], version: str, machine: Machine | None = None
) -> dict[str, Value]:
    """Return the settings with each one that has no effect at the value that stands for all.

    The names stay as they are. Two configurations that become equal make the same server, as far
    as is known. The value of a collapsed setting need not be one of its axis.
    """
    return _collapsed(settings, version, machine)[0]


def partly_inert(
    settings: Mapping[str, Value], version: str, machine: Machine | None = None
) -> tuple[Inert, ...]:
    """List the settings that are given and matter only in part; their values stay."""
    seen = Configuration.of(settings, version, machine)
    found = []
    for name, value in settings.items():
        for rule in _rules(spelled(name, version), version, partly=True):
            if value is not None and rule.applies(seen):
                found.append(Inert(name, value, rule.reason, value))
    return tuple(found)


def inert_axes(
    values: Mapping[str, tuple[Value, ...]], version: str, machine: Machine | None = None
) -> tuple[EqualValues, ...]:
    """List the axes none of whose values can matter; `values` holds fixed settings too."""
    return tuple(group for group in equal_values(values, version, machine) if group.whole)


def equal_values(
    values: Mapping[str, tuple[Value, ...]], version: str, machine: Machine | None = None
) -> tuple[EqualValues, ...]:
    """List the values of each axis that are one, such as breadth 1 and 2."""
    found: list[EqualValues] = []
    for axis, choices in values.items():
        if len(choices) > 1:
            found += _equal_values(axis, values, version, machine)
    return tuple(found)


def _collapsed(
    settings: Mapping[str, Value], version: str, machine: Machine | None
) -> tuple[dict[str, Value], list[Inert]]:
    """Collapse until nothing changes: a setting may be inert beside one that turns out to be."""
    flags = {name: spelled(name, version) for name in settings}
    ruled = {
        name: rules for name, f in flags.items() if (rules := _rules(f, version, partly=False))
    }
    state = dict(settings)
    spelt = {flags[name]: value for name, value in settings.items()}
    seen = Configuration(spelt, version, machine)
    found: list[Inert] = []
    changed = True
    while changed:
        changed = False
        for name, rules in ruled.items():
            inert = _inert(name, flags[name], rules, seen)
            if inert is not None:
                state[name] = spelt[flags[name]] = inert.becomes
                found.append(inert)
                changed = True
    return state, found


def _inert(name: str, flag: str, rules: tuple[InertRule, ...], seen: Configuration) -> Inert | None:
    """Return why a setting has no effect; None where it may have, or stands collapsed already."""
    value = seen.given(flag)
    for rule in rules:
        concerned = not rule.values or value in rule.values
        becomes = _becomes(rule, flag, seen.version)
        if concerned and not _same(value, becomes) and rule.applies(seen):
            return Inert(name, value, rule.reason, becomes)
    return None


@lru_cache(maxsize=1024)
def _rules(flag: str, version: str, *, partly: bool) -> tuple[InertRule, ...]:
    return tuple(
        rule
        for rule in INERT_RULES
        if rule.partly is partly and within(version, rule.first, rule.last)
        if any(fnmatchcase(flag, pattern) for pattern in rule.settings)
    )


def _becomes(rule: InertRule, flag: str, version: str) -> Value:
    if rule.becomes is not None:
        return rule.becomes
    row = FLAGS.get(flag)
    return row.default_in(version) if row is not None else None


def _same(one: Value, other: Value) -> bool:
    return one == other and type(one) is type(other)


def _equal_values(
    axis: str, values: Mapping[str, tuple[Value, ...]], version: str, machine: Machine | None
) -> Iterator[EqualValues]:
    flag = spelled(axis, version)
    rules = _rules(flag, version, partly=False)
    others = _surroundings(flag, rules, values, version)
    if not rules or math.prod(map(len, [*others.values(), values[axis]])) > _LOOKS_LIMIT:
        return
    outcomes: dict[Value, list[Value]] = {value: [] for value in values[axis]}
    reasons: dict[str, None] = {}
    for combination in itertools.product(*others.values()):
        around = dict(zip(others, combination, strict=True))
        for value, seen in outcomes.items():
            surrounded = Configuration({**around, flag: value}, version, machine)
            inert = _inert(axis, flag, rules, surrounded)
            seen.append(value if inert is None else inert.becomes)
            if inert is not None:
                reasons[inert.reason] = None
    groups: dict[tuple[Value, ...], list[Value]] = {}
    for value, seen in outcomes.items():
        groups.setdefault(tuple(seen), []).append(value)
    for members in groups.values():
        if len(members) > 1:
            whole = len(members) == len(values[axis])
            yield EqualValues(axis, tuple(members), tuple(reasons), whole)


def _surroundings(
    flag: str,
    rules: tuple[InertRule, ...],
    values: Mapping[str, tuple[Value, ...]],
    version: str,
) -> dict[str, tuple[Value, ...]]:
    """Return the other settings that the rules of a flag look at, by SGLang's names."""
    read = {name for rule in rules for name in rule.reads} - {flag}
    spelt = {spelled(name, version): choices for name, choices in values.items()}
    return {name: spelt[name] for name in sorted(read & spelt.keys())}
