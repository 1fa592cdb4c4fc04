"""What is believed of step times, in one of two ways: smooth in all settings, or as a sum of parts.

The first knows nothing of how steps come about. The second does, and says more from fewer starts;
it is taken where accept lengths are predicted too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Protocol

import numpy as np

from sweeps.config import Config
from sweeps.prediction.all_reduces import NOT_TIMED, AllReduces
from sweeps.prediction.cost_fit import CostFit
from sweeps.prediction.observations import Work, pooled
from sweeps.prediction.profile import HostProfile
from sweeps.search.encoding import Encoder, values_of
from sweeps.search.evidence import Evidence
from sweeps.search.gaussian import Belief, Conditioned, Floats
from sweeps.search.roles import ALGORITHM, serving_of, trait_of

MOST_CURVES = 12
Kind = tuple[str | None, int]
"""Who drafts, and how many tokens a step verifies."""
_MS_PER_S = 1000.0


class Moments(Protocol):
    """Means and variances of some unknowns, and how they move together."""

    @property
    def mean(self) -> Floats:
        """Return the expected values."""
        ...

    @property
    def variance(self) -> Floats:
        """Return how sure they are."""
        ...

    @property
    def covariance(self) -> Floats:
        """Return the covariance of all."""
        ...

    def covariance_with(self, row: int) -> Floats:
        """Return the covariance of all with one."""
        ...


class StepTimes(Protocol):
    """Believes something of logarithms of step times in seconds."""

    def at(self, configs: Sequence[Config]) -> Moments:
        """Return the belief of configurations."""
        ...

    def over(self, kinds: Sequence[Kind], servings: Sequence[Config]) -> Moments:
        """Return it for each kind of step with each of some settings, in this order."""
        ...


@dataclass(frozen=True)
class SmoothTimes:
    """By a Gaussian process over widths and settings."""

    encoder: Encoder
    conditioned: Conditioned

    def at(self, configs: Sequence[Config]) -> Belief:
        """Return the belief of configurations."""
        return self.conditioned.at(self.encoder.cycles(configs))

    def over(self, kinds: Sequence[Kind], servings: Sequence[Config]) -> Belief:
        """Return it for each kind of step with each of some settings."""
        codes = [(self.encoder.algorithm_code({ALGORITHM: who}), width) for who, width in kinds]
        return self.conditioned.at(self.encoder.cycles_of_all(codes, servings))


@dataclass(frozen=True)
class Draws:
    """Unknowns as draws: a row for each draw."""

    rows: Floats

    @cached_property
    def mean(self) -> Floats:
        """The expected values."""
        return np.asarray(self.rows.mean(axis=0))

    @cached_property
    def variance(self) -> Floats:
        """How sure they are."""
        return np.asarray(self.rows.var(axis=0))

    @property
    def covariance(self) -> Floats:
        """The covariance of all."""
        return np.asarray(self._apart.T @ self._apart / len(self.rows))

    def covariance_with(self, row: int) -> Floats:
        """Return the covariance of all with one."""
        return np.asarray(self._apart.T @ self._apart[:, row] / len(self.rows))

    @cached_property
    def _apart(self) -> Floats:
        return np.asarray(self.rows - self.mean)


@dataclass(frozen=True)
class PartedTimes:
    """By parts that cannot be negative."""

    fit: CostFit

    def at(self, configs: Sequence[Config]) -> Draws:
        """Return the belief of configurations."""
        return self._of([Work.of(config) for config in configs])

    def over(self, kinds: Sequence[Kind], servings: Sequence[Config]) -> Draws:
        """Return it for each kind of step with each of some settings."""
        pairs = product(kinds, servings)
        return self._of([Work(who, width, serving) for (who, width), serving in pairs])

    def _of(self, works: Sequence[Work]) -> Draws:
        return Draws(self.fit.log_cycles(works) - np.log(_MS_PER_S))


def fit_of(
    encoder: Encoder, evidence: Evidence, inert: frozenset[str],
    profile: HostProfile | None = None, all_reduces: AllReduces = NOT_TIMED,
) -> CostFit | None:  # fmt: skip
    """Fit what was measured, by parts; None before any plain step was. What a profile knows of
    verify steps counts until one was measured."""
    observed = pooled(evidence)
    plain = [one.cycle_ms for one in observed if one.work.algorithm is None]
    if not plain:
        return None
    default = serving_of(encoder.space.plain())
    if profile is not None and len(plain) == len(observed):
        observed += profile.verify_steps(default, min(plain))
    return CostFit(
        observed, default, min(plain), bold_settings(encoder, default), inert, all_reduces
    )


def bold_settings(encoder: Encoder, default: Config) -> tuple[Config, ...]:
    """List the bold settings of communication of a space, with each other."""
    bold = [axis for axis in encoder.serving_axes if trait_of(axis.name).bold]
    found = [
        Config.of({**default, **dict(zip((a.name for a in bold), values, strict=True))})
        for values in product(*(values_of(axis) for axis in bold))
    ]
    return tuple(found[:MOST_CURVES])
