"""What one change does, all else equal: the only evidence that a cost is attributed on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, hypot, log

from sweeps.config import Config
from sweeps.naming import abbreviated
from sweeps.ranking import LAUNCH_CV, Standing, rank
from sweeps.results import Outcome, TrialResult
from sweeps.values import Value, show

_QUANTILE = 1.96


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two variants that differ in one axis alone."""

    axis: str
    before: Standing
    after: Standing

    @property
    def ratio(self) -> float:
        """Return the metric after the change over that before."""
        return self.after.value / self.before.value

    @property
    def _spread(self) -> float:
        """Return the half-width of the logarithm of the ratio."""
        return hypot(_relative(self.before), _relative(self.after))

    @property
    def low(self) -> float:
        """Return the lower end of the 95 % interval of the ratio."""
        return exp(log(self.ratio) - self._spread)

    @property
    def high(self) -> float:
        """Return its upper end."""
        return exp(log(self.ratio) + self._spread)

    @property
    def is_shown(self) -> bool:
        """Tell whether the change surely did something."""
        return self.low > 1 or self.high < 1

    @property
    def change(self) -> str:
        """Name the change."""
        ends = (show(s.config.get(self.axis)) for s in (self.before, self.after))
        return f"{abbreviated(self.axis)}: {' → '.join(ends)}"

    @property
    def rest(self) -> Config:
        """Return what both have in common."""
        return without(self.before.config, self.axis)


def without(config: Config, axis: str) -> Config:
    """Return a configuration but for one axis."""
    return Config.of({name: value for name, value in config.items() if name != axis})


def contrasts_of(results: Sequence[TrialResult], metric: str) -> tuple[Contrast, ...]:
    """Find all pairs on one host; a change goes from the axis's default where that is one side."""
    default = next((r.config for r in results if r.purpose == "baseline"), Config.of({}))
    found: list[Contrast] = []
    for host in dict.fromkeys(r.host for r in results):
        standings = _standings([r for r in results if r.host == host], metric)
        for axis in dict.fromkeys(name for s in standings for name in s.config):
            found += _of_axis(axis, standings, default.get(axis))
    return tuple(found)


def _standings(results: Sequence[TrialResult], metric: str) -> tuple[Standing, ...]:
    """Pool variants; a stopped trial has timed its steps too, where nothing better is known."""
    whole = rank(results, metric, higher_is_better=True).standings
    known = {s.variant for s in whole}
    stopped = [
        Standing(r.config, e.value, e.low, e.high, (r.trial,), confirmed=False, used=(r.trial,))
        for r in results
        if r.outcome is Outcome.STOPPED
        and r.config.variant not in known
        and (e := r.estimates.get(metric)) is not None
    ]
    return (*whole, *{s.variant: s for s in stopped}.values())


def _of_axis(axis: str, standings: Sequence[Standing], default: Value) -> Iterator[Contrast]:
    groups: dict[Config, list[Standing]] = {}
    for standing in standings:
        if axis in standing.config and standing.value > 0:
            groups.setdefault(without(standing.config, axis), []).append(standing)
    for group in groups.values():
        group.sort(key=lambda s: (s.config[axis] != default, show(s.config[axis])))
        first, *others = group
        yield from (Contrast(axis, first, other) for other in others)


def _relative(standing: Standing) -> float:
    """Return the half-width of a logarithm: blocks within a start, and luck between starts."""
    within = 0.0
    if standing.low is not None and standing.high is not None:
        within = (standing.high - standing.low) / 2 / standing.value
    return hypot(within, _QUANTILE * LAUNCH_CV / standing.starts**0.5)
