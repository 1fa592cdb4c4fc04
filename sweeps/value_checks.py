"""What each field of a sweep may hold, looked at alone: before anything is made of it."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sweeps.hosts import HostSpec
from sweeps.problems import Problem, shown
from sweeps.ranges import Range
from sweeps.values import Value

if TYPE_CHECKING:
    from sweeps.sweep import Sweep

_MOST_S = 1e9
_MOST_GPUS = 1024
_SECONDS = Range(0, "a deadline lies ahead", most=_MOST_S, whole=False, above=True)
_GRACE = Range(0, "time does not run backwards", most=_MOST_S, whole=False)
_BUDGET = {
    "trials": Range(1, "at least one trial is needed", most=1e9),
    "gpu_hours": Range(0, "nothing could be started", most=1e9, whole=False, above=True),
    "start_s": _SECONDS, "phase_s": _SECONDS, "trial_s": _SECONDS, "silence_s": _SECONDS,
    "stop_grace_s": _GRACE, "clean_s": _GRACE,
}  # fmt: skip
_TASTE = {
    "indifference_fraction": Range(0, "no difference is less", most=1, whole=False),
    "least_gain_per_gpu_hour": Range(0, "no gain is less", whole=False),
    "drift_every_trials": Range(0), "confirm_rounds": Range(1), "most_confirm_rounds": Range(1),
    "rivals": Range(0),
}  # fmt: skip
_HOST = {
    "gpus": Range(0, "that is no number of GPUs", most=_MOST_GPUS),
    "time_scale": Range(0, "time must run forwards", most=1e6, whole=False, above=True),
}
_HOST_TEXTS = ("name", "python", "version", "truth", "scenario", "folder")
_LIMIT = Range(-math.inf, "that is no finite number", whole=False)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def value_problems(sweep: "Sweep") -> list[Problem]:
    """List the fields that hold what no sweep can mean; all else may rely on the others.

    Their types are checked before, by `sweeps.shapes`.
    """
    return [
        *_text("name", sweep.name),
        *_text("model.path", sweep.model.path),
        *_text("model.draft_path", sweep.model.draft_path, may_miss=True),
        *_numbers("budget", sweep.budget, _BUDGET, may_miss="gpu_hours"),
        *_numbers("taste", sweep.taste, _TASTE),
        *_number("seed", sweep.seed, Range(-(2**63), most=2**63)),
        *_fixed(sweep.fixed),
        *_limits(sweep),
        *(problem for host in sweep.hosts for problem in host_value_problems(host)),
    ]


def host_value_problems(host: HostSpec) -> Iterator[Problem]:
    """List the fields of a host that hold what no host can be."""
    field = f"hosts.{shown(host.name)[1:-1]}"
    yield from _numbers(field, host, _HOST)
    for name in _HOST_TEXTS:
        yield from _text(f"{field}.{name}", getattr(host, name), may_miss=name != "name")
    yield from _variables(f"{field}.env", host.env)


def _variables(field: str, env: object) -> Iterator[Problem]:
    if not isinstance(env, Mapping):
        yield Problem(field, shown(env), "it is no mapping", 'Write {"A": "1"}.')
        return
    for name, value in env.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            why = "that is no name of a variable"
            yield Problem(field, shown(name), why, "Rename it.")
        elif not isinstance(value, str):
            why = "a variable holds text"
            yield Problem(f"{field}.{name}", shown(value), why, "Write it in quotes.")
        elif "\0" in value:
            why = "a null character ends a variable"
            yield Problem(f"{field}.{name}", shown(value), why, "Take it out.")


def _numbers(
    field: str, given: object, ranges: Mapping[str, Range], may_miss: str = ""
) -> Iterator[Problem]:
    for name, allowed in ranges.items():
        value = getattr(given, name)
        if value is not None or name != may_miss:
            yield from _number(f"{field}.{name}", value, allowed)


def _number(field: str, value: object, allowed: Range) -> Iterator[Problem]:
    if not allowed.holds(value):
        yield Problem(field, shown(value), allowed.why, allowed.wanted)


def _text(field: str, value: object, *, may_miss: bool = False) -> Iterator[Problem]:
    if value is None and may_miss:
        return
    if not isinstance(value, str):
        yield Problem(field, shown(value), "it is no text", "Write it in quotes.")
    elif not value:
        yield Problem(field, "''", "it is empty", "Give one, or leave it out.")
    elif _CONTROL.search(value):
        why = "it holds a control character, or half a character"
        yield Problem(field, shown(value), why, "Take it out.")


def _fixed(fixed: Mapping[str, Value]) -> Iterator[Problem]:
    for name, value in fixed.items():
        field = f"fixed.{name}" if name.isprintable() else "fixed"
        if isinstance(value, float) and not math.isfinite(value):
            yield Problem(field, shown(value), "it is no finite number", "Give one.")
        elif isinstance(value, str) and _CONTROL.search(value):
            why = "it holds a control character, or half a character"
            yield Problem(field, shown(value), why, "Take it out.")


def _limits(sweep: "Sweep") -> Iterator[Problem]:
    for limit in sweep.objective.limits:
        for end in ("most", "least"):
            value = getattr(limit, end)
            if value is not None:
                yield from _number(f"objective.limits.{limit.metric}.{end}", value, _LIMIT)
