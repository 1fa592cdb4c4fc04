"""Where the configurations that were measured stand, by all that is known of them together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.config import Config
from sweeps.search.beliefs import Models
from sweeps.search.evidence import Evidence
from sweeps.search.gaussian import Floats
from sweeps.values import Value

MOST_RANKED = 60
CAUTION = 0.5
"""Standard deviations that are taken off before the leader is named: luck has none."""


@dataclass(frozen=True)
class Standings:
    """Log rates of measured configurations with their covariance."""

    configs: Sequence[Config]
    mean: Floats
    covariance: Floats

    def place(self, config: Config) -> int | None:
        """Return where a configuration is in the list."""
        return self.configs.index(config) if config in self.configs else None

    @property
    def leader(self) -> int:
        """Return the place of the best, by a rate that it is likely to reach."""
        spread = np.sqrt(np.maximum(np.diag(self.covariance), 0))
        return int(np.argmax(self.mean - CAUTION * spread))

    def ahead(self, one: int, other: int) -> tuple[float, float]:
        """Return by how much one is ahead of another, and the standard deviation of that."""
        c = self.covariance
        variance = c[one, one] + c[other, other] - 2 * c[one, other]
        return float(self.mean[one] - self.mean[other]), math.sqrt(max(float(variance), 1e-12))

    def chance_ahead(self, one: int, other: int, by: float = 0.0) -> float:
        """Return the probability that one is ahead of another by more than so much."""
        mean, spread = self.ahead(one, other)
        return 0.5 * math.erfc((by - mean) / spread / math.sqrt(2))

    def low(self, place: int, deviations: float = 1.64) -> float:
        """Return a rate that the configuration is likely to reach, not its logarithm."""
        spread = math.sqrt(max(float(self.covariance[place, place]), 0.0))
        return math.exp(float(self.mean[place]) - deviations * spread)


def stand(models: Models, evidence: Evidence) -> Standings | None:
    """Rank what was measured and may lead; None where nothing was."""
    able = [v for v in evidence.variants.values() if v.may_lead]
    if not able:
        return None
    able.sort(key=lambda v: max(s.rate.value for s in v.starts if s.may_lead), reverse=True)
    plain = [v for v in able[MOST_RANKED:] if v.config.is_plain]
    configs = [v.config for v in [*able[:MOST_RANKED], *plain[:MOST_RANKED]]]
    mean, covariance = models.joint(configs)
    return Standings(configs, mean, covariance)


def changes(config: Mapping[str, Value], plain: Mapping[str, Value]) -> int:
    """Count the settings that differ from plain decode's."""
    return sum(1 for name, value in config.items() if plain.get(name) != value)
