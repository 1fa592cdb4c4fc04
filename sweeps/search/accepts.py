"""What is believed of the accept length before it is measured: who drafts, how much, and how.

Logarithms throughout. If each draft hits with chance p, a chain of N tokens accepts
(1 - p^N) / (1 - p) of them on average; real drafters are mixtures of such chains.
"""

from dataclasses import dataclass

import numpy as np

from sweeps.search.encoding import Encoder
from sweeps.search.gaussian import Floats, Points
from sweeps.search.roles import WIDENING

CHANCES = (0.1, 0.25, 0.4, 0.6, 0.8)
CHANCE_MEANS = (0.3, 0.25, 0.15, 0.08, 0.0)
CHANCE_SPREADS = (0.3, 0.3, 0.3, 0.2, 0.15)
BEND_SPREAD, BEND_LENGTH = 0.02, 1.0
ORDERED_SPREAD, ORDERED_LENGTH = 0.04, 0.6
NAMED_SPREAD = 0.02
SHARED = 0.7
"""How much of what a shape does is the same at all widths."""
KNOWN_TOGETHER, KNOWN_SPREAD = 0.95, 0.004
"""Of the error of accept lengths that were computed: the share that all settings have in common,
and what each may be wrong by of its own, as a logarithm."""
UNPOOLED_SPREAD = 0.15
"""What a setting of communication moves, once accept lengths were seen to differ by it."""


@dataclass(frozen=True)
class AcceptPrior:
    """The prior of a space; `unpooled` lets settings of communication move accept lengths."""

    encoder: Encoder
    unpooled: bool = False
    believes: bool = True
    """Accept lengths that are known without measuring count; False once measurements refuted
    them."""

    def mean(self, points: Points) -> Floats:
        """Return the expected logarithm; 0 for plain decode, which accepts its one token."""
        drafts = points.codes[..., 0] > 0
        found = _chains(points) @ np.array(CHANCE_MEANS)
        for column, axis in enumerate(self.encoder.ordered_axes, 1):
            widening = WIDENING.get(axis.name, 0.0)
            found = found + widening * points.numbers[..., column] * _room(points)
        known = self._known(points)[0]
        return np.asarray(np.where(np.isnan(known), drafts * found, known))

    def kernel(self, a: Points, b: Points) -> Floats:
        """Return the prior covariance of rows with rows; the two broadcast.

        Drafters do not speak of each other, and plain decode is certain.
        """
        same = (a.codes[..., 0] == b.codes[..., 0]) & (a.codes[..., 0] > 0)
        found = np.zeros(same.shape)
        for chance, spread in zip(CHANCES, CHANCE_SPREADS, strict=True):
            found += spread**2 * _chain(a, chance) * _chain(b, chance)
        doublings = np.log2(a.numbers[..., 0]) - np.log2(b.numbers[..., 0])
        bend = np.exp(-0.5 * (doublings / BEND_LENGTH) ** 2)
        found += BEND_SPREAD**2 * bend
        found += (SHARED + (1 - SHARED) * bend) * self._shapes(a, b)
        found = self._where_known(a, b, found, bend)
        if self.unpooled:
            found += self._unpooled(a, b)
        return np.asarray(found * same)

    def _where_known(self, a: Points, b: Points, otherwise: Floats, bend: Floats) -> Floats:
        """Return the covariance of what is left open where accept lengths are known before they
        are measured: most of it is one error, of other text than the sweep's."""
        (_, ours), (_, theirs) = self._known(a), self._known(b)
        one = np.isnan(ours)
        both = ~one & ~np.isnan(theirs)
        spread = np.nan_to_num(ours) * np.nan_to_num(theirs)
        left = spread * (KNOWN_TOGETHER + (1 - KNOWN_TOGETHER) * bend) + KNOWN_SPREAD**2 * bend
        return np.where(both, left, np.where(one & np.isnan(theirs), otherwise, 0.0))

    def _known(self, points: Points) -> tuple[Floats, Floats]:
        values, spreads = points.numbers[..., -2], points.numbers[..., -1]
        if not self.believes:
            return np.full_like(values, np.nan), np.full_like(values, np.nan)
        return values, spreads

    def _shapes(self, a: Points, b: Points) -> Floats:
        """Return what the shape of a draft adds; wider drafts are shaped more."""
        found = np.zeros(np.broadcast(a.codes[..., 0], b.codes[..., 0]).shape)
        for column in range(1, 1 + len(self.encoder.ordered_axes)):
            apart = (a.numbers[..., column] - b.numbers[..., column]) / ORDERED_LENGTH
            found += ORDERED_SPREAD**2 * np.exp(-0.5 * apart**2)
        for column in range(1 + len(self.encoder.serving_axes), a.codes.shape[-1]):
            found += NAMED_SPREAD**2 * (a.codes[..., column] == b.codes[..., column])
        return found * np.sqrt(_room(a) * _room(b))

    def _unpooled(self, a: Points, b: Points) -> Floats:
        found = np.zeros(np.broadcast(a.codes[..., 0], b.codes[..., 0]).shape)
        for column in range(1, 1 + len(self.encoder.serving_axes)):
            ours, theirs = a.codes[..., column], b.codes[..., column]
            found += UNPOOLED_SPREAD**2 * ((ours == theirs) & (ours > 0))
        return found


def _chain(points: Points, chance: float) -> Floats:
    return np.asarray(np.log((1 - chance ** points.numbers[..., 0]) / (1 - chance)))


def _chains(points: Points) -> Floats:
    return np.stack([_chain(points, chance) for chance in CHANCES], axis=-1)


def _room(points: Points) -> Floats:
    """Return how much the shape of a draft can matter, from 0 for one drafted token to 1."""
    return np.asarray(np.clip(np.log2(np.maximum(points.numbers[..., 0], 1.0)) - 1, 0.05, 3) / 3)
