"""Which variant won, by how much, and which others cannot be told apart from it."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sweeps.config import Config
from sweeps.limits import Limit, broken_limits
from sweeps.results import Estimate, TrialResult

INDIFFERENCE_FRACTION = 0.02
"""Variants closer than this are a tie: no user would change a server for less."""


LAUNCH_CV = 0.015
"""Spread of the rate of one variant between starts (assumption, until a sweep repeats some)."""

_ONE_SIDED = 1.645
"""Normal quantile of 95 %."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A variant over all its trials."""

    config: Config
    value: float
    low: float | None
    high: float | None
    trials: tuple[str, ...]
    confirmed: bool
    """The value comes only from starts made after the variant was chosen."""

    starts: int = 1
    """How many starts the value comes from."""
    used: tuple[str, ...] = ()
    """The trials that the value comes from."""

    @property
    def variant(self) -> str:
        """Return the key of the configuration."""
        return self.config.variant


@dataclass(frozen=True, slots=True)
class Ranking:
    """All variants with a rate, best first; `best` has fewest changes from plain among its ties."""

    standings: tuple[Standing, ...]
    best: Standing | None
    ties: tuple[Standing, ...]
    plain: Standing | None
    """The best plain decode."""
    baseline: Standing | None
    """Plain decode with every setting at its default."""


def rank(
    results: Sequence[TrialResult], metric: str, *, higher_is_better: bool,
    limits: Sequence[Limit] = (),
) -> Ranking:  # fmt: skip
    """Rank the variants of a sweep by a metric; trials without a rate take no part.

    Nor do those that break a limit, so that nothing is recommended that breaks one.
    """
    standings = _standings(results, metric, limits)
    standings.sort(key=lambda s: s.value, reverse=higher_is_better)
    if not standings:
        return Ranking((), None, (), None, None)
    ties = tuple(s for s in standings if _is_tie(standings[0], s))
    baseline = next((r.config for r in results if r.purpose == "baseline"), None)
    best = min(ties, key=lambda s: (_changes(s.config, baseline), standings.index(s)))
    plain = next((s for s in standings if s.config.is_plain), None)
    base = next((s for s in standings if s.config == baseline), None)
    return Ranking(tuple(standings), best, ties, plain, base)


def incumbent_bar(
    results: Sequence[TrialResult], metric: str, limits: Sequence[Limit] = ()
) -> float | None:
    """Return what the leader surely reaches: what a candidate must be able to reach.

    The leader is the variant whose lower bound over starts is highest: one lucky run does not
    raise the bar, since a single start may be off by the spread between starts.
    """
    bounds = [_surely(standing) for standing in _standings(results, metric, limits)]
    return max((bound for bound in bounds if bound is not None), default=None)


def _surely(standing: Standing) -> float | None:
    if standing.low is None:
        return None
    luck = _ONE_SIDED * LAUNCH_CV / math.sqrt(standing.starts)
    return min(standing.low, standing.value * (1 - luck))


def _standings(
    results: Sequence[TrialResult], metric: str, limits: Sequence[Limit]
) -> list[Standing]:
    """Return where each variant stands that has a rate, in the order of their first trials."""
    groups: dict[str, list[TrialResult]] = {}
    for result in results:
        if result.may_lead and metric in result.estimates and not broken_limits(result, limits):
            groups.setdefault(result.config.variant, []).append(result)
    return [standing_of(group, metric) for group in groups.values()]


def standing_of(group: Sequence[TrialResult], metric: str, fresh: Collection[str] = ()) -> Standing:
    """Pool the trials of one variant: mean over starts, with the interval that they give.

    Only starts that were made after the choice count, if there are any: the `fresh` trials, or else
    all that confirm.
    """
    confirms = [r for r in group if r.trial in fresh and r.purpose == "confirm"]
    confirms = confirms or [r for r in group if r.purpose == "confirm"]
    used = confirms or list(group)
    estimates = [r.estimates[metric] for r in used]
    low, high = _pooled_interval(estimates)
    value = sum(e.value for e in estimates) / len(estimates)
    trials = tuple(r.trial for r in group)
    return Standing(
        used[0].config, value, low, high, trials, bool(confirms), len(used),
        tuple(r.trial for r in used),
    )  # fmt: skip


def _pooled_interval(estimates: list[Estimate]) -> tuple[float | None, float | None]:
    """Combine half-widths as independent errors of a mean over starts."""
    value = sum(e.value for e in estimates) / len(estimates)
    widths = [_half_width(e) for e in estimates]
    known = [w for w in widths if w is not None]
    if len(known) < len(widths):
        return None, None
    half = math.sqrt(sum(w * w for w in known)) / len(known)
    spread = max(abs(e.value - value) for e in estimates)
    half = max(half, spread)
    return value - half, value + half


def _half_width(estimate: Estimate) -> float | None:
    if estimate.low is None or estimate.high is None:
        return None
    return (estimate.high - estimate.low) / 2


def _is_tie(best: Standing, other: Standing) -> bool:
    return abs(other.value - best.value) <= INDIFFERENCE_FRACTION * abs(best.value)


def _changes(config: Config, baseline: Config | None) -> int:
    """Count the settings that differ from the baseline."""
    base = dict(baseline) if baseline is not None else {}
    return sum(1 for name, value in config.items() if base.get(name) != value)
