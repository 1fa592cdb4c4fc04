"""What defines a sweep, as plain data, and what an edit of its file means for its trials."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sweeps.axes import Axis, Choice, FloatRange, IntRange, When
from sweeps.limits import Limit
from sweeps.results import TrialResult
from sweeps.space import Space
from sweeps.sweep import Model, Objective, Sweep
from sweeps.values import Value, digest

Data = Mapping[str, object]

IDLE_HOST_FIELDS = ("time_scale", "scenario")
"""Of an emulated host: how fast it is played and what goes wrong there, not what it is."""


class Effect(StrEnum):
    """What an edit means for the trials that have ended."""

    KEEPS = "all trials stay"
    SPLITS = "trials inside the new space stay"
    BREAKS = "trials before and after it do not compare"


_EFFECTS = {
    "fixed": Effect.BREAKS,
    "model": Effect.BREAKS,
    "workload": Effect.BREAKS,
    "objective": Effect.KEEPS,
    "budget": Effect.KEEPS,
    "search": Effect.KEEPS,
}
"""Of a change in each part that is a plain mapping."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs between a file and the sweep that was made of it."""

    part: str
    """axes, rules, fixed, model, workload, hosts, objective, budget or search."""
    what: str
    before: str
    after: str
    effect: Effect

    @property
    def is_quiet(self) -> bool:
        """Tell whether it is only about how long and how to search, so that nobody is asked."""
        return self.part in ("budget", "search")

    def __str__(self) -> str:
        return f"{self.what}: {self.before} is now {self.after} ({self.effect.value})"


def definition(sweep: Sweep) -> dict[str, object]:
    """Return all that a space file says, as JSON keeps it."""
    goal = sweep.objective
    data = {
        "axes": [axis.as_data() for axis in sweep.axes],
        "rules": [[str(rule.must), rule.message] for rule in sweep.rules],
        "fixed": dict(sweep.fixed),
        "model": {"path": sweep.model.path, "draft_path": sweep.model.draft_path},
        "workload": sweep.workload.as_data(),
        "hosts": {
            host.name: {n: v for n, v in host.as_data().items() if n not in IDLE_HOST_FIELDS}
            for host in sweep.hosts
        },
        "objective": {
            "metric": goal.metric,
            "limits": [limit.as_data() for limit in goal.limits],
            "also": list(goal.also),
        },
        "budget": asdict(sweep.budget),
        "search": {
            "sampler": sweep.sampler, "seed": sweep.seed, "taste": asdict(sweep.taste),
            "early_stopping": sweep.early_stopping, "stop_rule": sweep.stop_rule,
            "keep_inert": sweep.keep_inert,
        },
    }  # fmt: skip
    plain: dict[str, object] = json.loads(json.dumps(data))
    return plain


def study_key(data: Data) -> str:
    """Hash what an Optuna study depends on: its parameters, and what counts as good."""
    return digest({part: data[part] for part in ("axes", "rules", "objective")})


def searched(name: str, data: Data) -> Sweep:
    """Return a sweep with the axes and the goal of a definition; it can be read, not run."""
    goal = _part(data, "objective")
    limits: list[dict[str, object]] = goal["limits"]  # type: ignore[assignment] # as written
    also: list[str] = goal["also"]  # type: ignore[assignment] # as written
    axes: list[Data] = data["axes"]  # type: ignore[assignment] # as written
    return Sweep(
        name=name,
        model=Model(str(_part(data, "model")["path"])),
        axes=[_axis(axis) for axis in axes],
        objective=Objective(str(goal["metric"]), [Limit.from_data(one) for one in limits], also),
    )


def changes(before: Data, after: Data) -> tuple[Change, ...]:
    """List what differs between two definitions, and what each means."""
    return (
        *_axis_changes(before, after),
        *_rule_changes(before, after),
        *(
            change
            for part, effect in _EFFECTS.items()
            for change in _field_changes(part, _part(before, part), _part(after, part), effect)
        ),
        *_host_changes(_part(before, "hosts"), _part(after, "hosts")),
    )


def fitting(
    results: Sequence[TrialResult], space: Space
) -> tuple[list[TrialResult], list[TrialResult]]:
    """Split trials into those inside a space and those outside."""
    inside: list[TrialResult] = []
    outside: list[TrialResult] = []
    for result in results:
        fits = not space.strays(result.config) and not space.broken_rules(result.config)
        (inside if fits else outside).append(result)
    return inside, outside


def _axis_changes(before: Data, after: Data) -> Iterator[Change]:
    old, new = (_by_name(data["axes"]) for data in (before, after))
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in new:
            yield Change("axes", f"axis {name}", _axis_text(old[name]), "gone", Effect.SPLITS)
        elif name not in old:
            yield Change("axes", f"axis {name}", "missing", _axis_text(new[name]), Effect.SPLITS)
        elif old[name] != new[name]:
            texts = _axis_text(old[name]), _axis_text(new[name])
            wider = _is_wider(_axis(old[name]), _axis(new[name]))
            effect = Effect.KEEPS if wider else Effect.SPLITS
            yield Change("axes", f"axis {name}", *texts, effect)


def _is_wider(old: Axis, new: Axis) -> bool:
    """Tell whether every value of the old axis is one of the new, under the same conditions."""
    if type(old) is not type(new) or old.as_data()["when"] != new.as_data()["when"]:
        return False
    if isinstance(old, FloatRange) and isinstance(new, FloatRange):
        return new.low <= old.low and old.high <= new.high
    return set(old.grid or ()) <= set(new.grid or ())


def _rule_changes(before: Data, after: Data) -> Iterator[Change]:
    old, new = (_rules(data) for data in (before, after))
    for rule in old:
        if rule not in new:
            yield Change("rules", f"rule {rule}", "kept", "gone", Effect.KEEPS)
    for rule in new:
        if rule not in old:
            yield Change("rules", f"rule {rule}", "missing", "kept", Effect.SPLITS)


def _host_changes(old: Data, new: Data) -> Iterator[Change]:
    for name in old:
        if name not in new:
            yield Change("hosts", f"host {name}", "there", "gone", Effect.BREAKS)
        else:
            fields = (_part(old, name), _part(new, name))
            yield from _field_changes(f"hosts.{name}", *fields, Effect.BREAKS)
    for name in new:
        if name not in old:
            yield Change("hosts", f"host {name}", "missing", "there", Effect.KEEPS)


def _field_changes(part: str, old: Data, new: Data, effect: Effect) -> Iterator[Change]:
    for name in [*old, *(name for name in new if name not in old)]:
        told = tuple(json.dumps(side.get(name)) if name in side else "unset" for side in (old, new))
        if told[0] != told[1]:
            yield Change(part, f"{part}.{name}", told[0], told[1], effect)


def _rules(data: Data) -> list[str]:
    rows: list[list[str]] = data["rules"]  # type: ignore[assignment] # as written
    return [must for must, _ in rows]


def _axis(data: Data) -> Axis:
    """Read back what the `as_data` of an axis wrote."""
    name, log = str(data["name"]), data.get("log") is True
    when: When = data["when"]  # type: ignore[assignment] # as written
    ends: Any = data.get("int") or data.get("float")
    if "int" in data:
        return IntRange(name, ends[0], ends[1], when, step=ends[2], log=log)
    if "float" in data:
        return FloatRange(name, ends[0], ends[1], when, log=log)
    values: list[Value] = data["choice"]  # type: ignore[assignment] # as written
    return Choice(name, values, when)


def _axis_text(data: Data) -> str:
    shown = {name: value for name, value in data.items() if name != "name" and value}
    return json.dumps(next(iter(shown.values()))) + (
        f" when {json.dumps(data['when'])}" if data["when"] else ""
    )


def _by_name(axes: object) -> dict[str, Data]:
    return {str(axis["name"]): axis for axis in _rows(axes)}


def _rows(value: object) -> list[Data]:
    assert isinstance(value, list), "written as a list"
    return value


def _part(data: Data, name: str) -> Data:
    part = data[name]
    assert isinstance(part, Mapping), "written as a mapping"
    return part
