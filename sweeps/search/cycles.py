"""What is believed of the time of a step before it is measured: width, communication, and both.

Logarithms throughout. Speculation adds a cost that grows with the width as a + b x width does; a
setting of communication adds its own, which may depend on the width, smoothly or by a cliff.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeps.search.encoding import Encoder, log2_of
from sweeps.search.gaussian import Floats, Points
from sweeps.search.roles import trait_of

LEVEL = 1.5
"""Spread of the time of a plain step, before any is known."""
VERIFY_OFFSET, OFFSET_SPREAD, DRAFTER_SPREAD = 0.1, 0.15, 0.08
GROWTH_WIDTHS, GROWTH_SPREADS = (8.0, 40.0), (0.3, 0.15)
"""Time grows as 1 + width / so many does, by the first of them on average."""
BEND_SPREAD, BEND_LENGTH = 0.07, 1.0
"""What no growth explains, over doublings of the width."""
WIDE_SHARE, CLIFF_SHARE, CLIFF_LENGTH = 0.5, 0.8, 0.8
"""How much of a setting's spread is its own with speculation, and by width where it is bold."""
PAIR_SHARE = 2.0
INERT_SCALE = 0.1


@dataclass(frozen=True)
class CyclePrior:
    """The prior of a space. `scale` widens the effects of settings that are not bold."""

    encoder: Encoder
    level: float = 0.0
    """Where plain steps are expected."""
    scale: float = 1.0
    inert: frozenset[str] = frozenset()
    """Axes that were seen to do nothing for plain decode, and so are expected to do little."""

    def mean(self, points: Points) -> Floats:
        """Return the expected logarithm of the time."""
        drafts = points.codes[:, 0] > 0
        changed = sum(
            costs[points.codes[..., place]]
            for place, costs in enumerate(self.encoder.serving_costs, 1)
        )
        grown = VERIFY_OFFSET + _growth(points, GROWTH_WIDTHS[0])
        return np.asarray(self.level + drafts * grown + changed)

    def kernel(self, a: Points, b: Points) -> Floats:
        """Return the prior covariance of rows with rows; the two broadcast."""
        both = (a.codes[..., 0] > 0) & (b.codes[..., 0] > 0)
        same = both & (a.codes[..., 0] == b.codes[..., 0])
        bend = _alike(a, b, BEND_LENGTH)
        spec = OFFSET_SPREAD**2 + BEND_SPREAD**2 * bend + DRAFTER_SPREAD**2 * same
        for width, spread in zip(GROWTH_WIDTHS, GROWTH_SPREADS, strict=True):
            spec = spec + spread**2 * _growth(a, width) * _growth(b, width)
        return np.asarray(LEVEL**2 + both * spec + self._settings(a, b, both))

    def _settings(self, a: Points, b: Points, both: NDArray[np.bool_]) -> Floats:
        bold, other = np.zeros(both.shape), np.zeros(both.shape)
        for place, axis in enumerate(self.encoder.serving_axes, 1):
            trait = trait_of(axis.name)
            scale = INERT_SCALE if axis.name in self.inert else 1.0 if trait.bold else self.scale
            ours, theirs = a.codes[..., place], b.codes[..., place]
            alike = ((ours == theirs) & (ours > 0)) * (trait.spread * scale) ** 2
            if trait.bold:
                bold += alike
            else:
                other += alike
        cliffs = CLIFF_SHARE**2 * bold * _alike(a, b, CLIFF_LENGTH)
        wide = WIDE_SHARE**2 * (bold + other) + cliffs
        return np.asarray(bold + other + both * wide + PAIR_SHARE * bold * other)


def _growth(points: Points, width: float) -> Floats:
    """Return how much dearer a wide step is if each token costs 1 / `width` of the rest."""
    return np.asarray(np.log((1 + 2 ** log2_of(points) / width) / (1 + 1 / width)))


def _alike(a: Points, b: Points, length: float) -> Floats:
    apart = (log2_of(a) - log2_of(b)) / length
    return np.asarray(np.exp(-0.5 * apart * apart))
