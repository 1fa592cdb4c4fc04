"""What multiplies a step time by a little: settings that are not bold, and what is unexplained."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.config import Config
from sweeps.prediction.all_reduces import NOT_TIMED, AllReduces
from sweeps.prediction.observations import Observation, Work
from sweeps.search.gaussian import Floats
from sweeps.search.roles import cost_of, trait_of

OWN_SPREAD = 0.007
"""What each kind of step may have of its own, as a fraction."""
TIMED_SPREAD = 0.01
"""What a change of communication may do besides what its all-reduces, timed alone, say."""
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
    all_reduces: AllReduces = NOT_TIMED

    def cost(self, work: Work) -> float:
        """Return what the settings of a step are expected to cost."""
        changes = self._changes(work)
        return sum(cost_of(*change) for change in changes if not self._is_timed(*change))

    def spread(self, work: Work) -> float:
        """Return how far from that they may be."""
        return math.hypot(OWN_SPREAD, *(self._spread_of(change) for change in self._changes(work)))

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
        spreads = np.array([self._spread_of(name) for name in names])
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

    def _spread_of(self, effect: Effect) -> float:
        if effect[0] == "own":
            return OWN_SPREAD
        name, value = effect
        return TIMED_SPREAD if self._is_timed(str(name), value) else trait_of(str(name)).spread

    def _is_timed(self, name: str, value: object) -> bool:
        """Tell whether a change is known by its all-reduces, so that it costs nothing besides."""
        return self.all_reduces.knows_each(frozenset([(name, value)]))
