"""The variants that no other beats in every objective."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeps.config import Config
from sweeps.results import TrialResult


@dataclass(frozen=True, slots=True)
class Point:
    """A variant and the mean over its trials of each objective, in the order of the objectives."""

    config: Config
    values: tuple[float, ...]


def front(results: Sequence[TrialResult], directions: Mapping[str, bool]) -> tuple[Point, ...]:
    """Return the points that none dominates, best in the first objective first.

    `directions` maps each objective to whether higher is better.
    """
    signs = [1.0 if upwards else -1.0 for upwards in directions.values()]
    points = _points(results, tuple(directions))
    kept = [p for p in points if not any(_dominates(other, p, signs) for other in points)]
    return tuple(sorted(kept, key=lambda p: -signs[0] * p.values[0]))


def _points(results: Sequence[TrialResult], metrics: tuple[str, ...]) -> list[Point]:
    groups: dict[str, list[TrialResult]] = {}
    for result in results:
        if result.may_lead and all(name in result.estimates for name in metrics):
            groups.setdefault(result.config.variant, []).append(result)
    return [
        Point(group[0].config, tuple(_mean(group, name) for name in metrics))
        for group in groups.values()
    ]


def _mean(group: Sequence[TrialResult], name: str) -> float:
    return sum(result.estimates[name].value for result in group) / len(group)


def _dominates(one: Point, other: Point, signs: Sequence[float]) -> bool:
    leads = [s * (a - b) for s, a, b in zip(signs, one.values, other.values, strict=True)]
    return all(lead >= 0 for lead in leads) and any(lead > 0 for lead in leads)
