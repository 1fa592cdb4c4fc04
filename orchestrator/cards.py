"""What a sweep's card may hold: a field that holds something else is passed over and named."""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from orchestrator.files import name_once
from sweeps.hosts import GPU_HOURS, HostSpec, hours_unit
from sweeps.limits import Limit
from sweeps.metrics import metric_named
from sweeps.value_checks import host_value_problems
from sweeps.workloads import Workload


def checked_card(path: Path, card: Mapping[str, object]) -> dict[str, object]:
    """Return a card without the fields that hold what they cannot hold: as an older one is."""
    kept: dict[str, object] = {}
    for name, value in card.items():
        check = _CHECKS.get(name)
        if check is None or value is None or _holds(check, value):
            kept[name] = value
        else:
            name_once(path, f"`{name}` holds what it cannot hold")
    return kept


def hours_unit_in(card: Mapping[str, object]) -> str:
    """Name the hours that the trials of a sweep cost, by the hosts of its card."""
    hosts = card.get("hosts")
    known = [host for host in hosts if isinstance(host, dict)] if isinstance(hosts, list) else []
    return hours_unit(int(host.get("gpus", 1)) for host in known) if known else GPU_HOURS


def _holds(check: Callable[[Any], bool], value: object) -> bool:
    try:
        return check(value)
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: object) -> bool:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and math.isfinite(value)  # type: ignore[arg-type] # it is one


def _is_metric(value: object) -> bool:
    metric = metric_named(value) if isinstance(value, str) else None
    return metric is not None and metric.higher_is_better is not None


def _are_limits(value: Any) -> bool:
    limits = [Limit.from_data(one) for one in value]
    ends = [end for limit in limits for end in (limit.most, limit.least) if end is not None]
    return all(metric_named(limit.metric) for limit in limits) and all(map(_is_number, ends))


def _are_hosts(value: Any) -> bool:
    hosts = [HostSpec.from_data(one) for one in value]
    return (
        isinstance(value, list)
        and all("name" in one for one in value)
        and not any(problem for host in hosts for problem in host_value_problems(host))
    )


def _is_workload(value: Any) -> bool:
    """Compare with what each field holds by default; the numbers of a rate may miss."""
    default = Workload()
    work = Workload.from_data(value)
    return "concurrency" in value and "concurrencies" in value and all(
        _is_like(getattr(default, each.name), getattr(work, each.name)) for each in fields(work)
    )  # fmt: skip


def _is_like(default: object, value: object) -> bool:
    if default is None:
        return value is None or _is_number(value)
    if isinstance(default, bool | str):
        return isinstance(value, bool if isinstance(default, bool) else str)
    if isinstance(default, tuple):
        return isinstance(value, list | tuple) and all(map(_is_count, value))
    return _is_number(value)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "name": _is_text, "key": _is_text, "file": _is_text, "created_at": _is_text,
    "status": _is_text, "trouble": _is_text, "driver": _is_text,
    "emulated": lambda value: isinstance(value, bool),
    "place": _is_count, "trials": _is_count, "done_before": _is_count, "collapsed": _is_count,
    "configurations": _is_count, "zone_fraction": _is_number,
    "objective": _is_metric, "limits": _are_limits, "hosts": _are_hosts, "workload": _is_workload,
    "also": lambda value: isinstance(value, list) and all(map(_is_metric, value)),
    "aside": lambda value: isinstance(value, list) and all(map(_is_count, value)),
    "budget": lambda value: all(v is None or _is_number(v) for v in value.values()),
}  # fmt: skip
"""Fields of a card that commands rely on, and what each may hold; None stands for no value."""
