"""Accept lengths that a replay of recorded output gives in a world, with an error of its own."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from search_worlds.world import World
from sweeps.config import Config
from sweeps.prediction.source import PLAIN
from sweeps.results import Estimate
from sweeps.search.roles import drafting_of

COMMON_SIGMA, OWN_SIGMA = 0.005, 0.003
"""Of all settings together, and of each: a replay of the sweep's own texts is token for token the
real drafter, but for where requests begin and end."""
STATED_SIGMA = 0.01


@dataclass
class Recorded:
    """Knows the n-gram drafts of a world, not those of a draft model."""

    world: World
    seed: int
    common_sigma: float = COMMON_SIGMA
    _kept: dict[Config, Estimate] = field(default_factory=dict)

    def accept(self, config: Config) -> Estimate | None:
        """Return the true accept length, a little wrong."""
        draft = drafting_of(config)
        if draft.algorithm is None:
            return PLAIN
        if draft.algorithm != "NGRAM":
            return None
        found = self._kept.get(draft)
        if found is None:
            found = self._kept[draft] = self._wrong(draft)
        return found

    def prepare(self, configs: Sequence[Config]) -> None:
        """Do nothing: each is known at once."""

    def _wrong(self, draft: Config) -> Estimate:
        common = random.Random(f"replay {self.seed}").gauss(0, self.common_sigma)
        own = random.Random(f"replay {self.seed} {draft.variant}").gauss(0, OWN_SIGMA)
        value = self.world.accept(draft) * math.exp(common + own)
        half = 1.96 * STATED_SIGMA * value
        return Estimate(value, value - half, value + half, 0.0, "replay", provisional=False)
