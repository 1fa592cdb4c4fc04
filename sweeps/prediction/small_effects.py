"""What multiplies a step time by a little: settings that are not bold, and what is unexplained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.config import Config
from sweeps.prediction.observations import Observation, Work
from sweeps.search.gaussian import Floats
from sweeps.search.roles import KNOWN_COSTS, trait_of

OWN_SPREAD = 0.007
"""What each kind of step may have of its own, as a fraction."""
SURPRISE = 2.5
"""Standard deviations from the fit beyond which a step is its own: the measurement is trusted."""
Effect = tuple[object, ...]
"""Names what has an effect: an axis with its value, or a kind of step."""


@dataclass(frozen=True)
class SmallEffects:
    """Effects as logarithms, additive and independent before anything is measured."""

    default: Config
    bold: Callable[[Config], Config]
    """Returns settings of communication with all that is not bold at its default."""

    def cost(self, work: Work) -> float:
        """Return what the settings of a step are expected to cost."""
        return sum(
            KNOWN_COSTS.get(name, {}).get(value, trait_of(name).cost)  # type: ignore[call-overload] # values of settings
            for name, value in self._changes(work)
        )

    def spread(self, work: Work) -> float:
        """Return how far from that they may be."""
        changes = self._changes(work)
        squares = sum(trait_of(name).spread ** 2 for name, _ in changes)
        return float(np.sqrt(squares + OWN_SPREAD**2))

    def draws(
        self, works: Sequence[Work], observed: Sequence[Observation], residuals: Floats,
        rng: np.random.Generator,
    ) -> Floats:  # fmt: skip
        """Return draws of the effects of some steps, costs left out: an effect has one value in
        each draw. `residuals` are logarithms of measured over fitted, a row for each draw."""
        names: dict[Effect, int] = {}
        for work in [*(one.work for one in observed), *works]:
            for name in self._effects(work):
                names.setdefault(name, len(names))
        spreads = np.array([_spread_of(name) for name in names])
        for one, off in zip(observed, residuals.mean(axis=0).tolist(), strict=True):
            # What no smooth cost explains is believed as it was measured.
            if abs(off) > SURPRISE * np.hypot(one.spread_fraction, OWN_SPREAD):
                spreads[names[self._own(one.work)]] = abs(off)
        effects = rng.standard_normal((len(residuals), len(names))) * spreads
        if observed:
            seen = self._table([one.work for one in observed], names)
            noise = np.array([one.spread_fraction**2 for one in observed])
            covariance = (seen * spreads**2) @ seen.T + np.diag(noise)
            shaken = residuals + rng.standard_normal(residuals.shape) * np.sqrt(noise)
            missed = shaken - effects @ seen.T
            effects = effects + np.linalg.solve(covariance, missed.T).T @ (seen * spreads**2)
        return np.asarray(effects @ self._table(works, names).T)

    def _table(self, works: Sequence[Work], names: dict[Effect, int]) -> Floats:
        table = np.zeros((len(works), len(names)))
        for row, work in enumerate(works):
            for name in self._effects(work):
                table[row, names[name]] = 1.0
        return table

    def _effects(self, work: Work) -> list[Effect]:
        return [self._own(work), *self._changes(work)]

    def _own(self, work: Work) -> Effect:
        return ("own", work.algorithm, work.width, work.batch, self.bold(work.serving))

    def _changes(self, work: Work) -> list[tuple[str, object]]:
        bold = self.bold(work.serving)
        return [(n, v) for n, v in work.serving.items() if bold.get(n) != v]


def _spread_of(effect: Effect) -> float:
    return OWN_SPREAD if effect[0] == "own" else trait_of(str(effect[0])).spread
