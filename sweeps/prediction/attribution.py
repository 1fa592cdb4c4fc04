"""Why a verify costs what it costs: which explanations are left, and what would tell them apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeps.config import Config
from sweeps.intervals import Interval
from sweeps.prediction.cost_fit import CostFit, interval_of_draws
from sweeps.prediction.observations import Work
from sweeps.search.evidence import LAUNCH_SPREAD

REFERENCE_TOKENS = 8
"""Whose verify is explained: the wider one that people start with."""
LEAST_ODDS = 0.04
TELLS = 1.0
"""How far apart explanations must put a step, in standard deviations of what one start shows."""
WIDTHS = (2, 3, 4, 6, 8, 12, 16, 32)


@dataclass(frozen=True, slots=True)
class Telling:
    """A measurement on which the explanations disagree."""

    work: Work
    cycles_ms: Mapping[str, float]
    """What each explanation expects."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """What a verify of REFERENCE_TOKENS owes its cost to, as far as the trials tell."""

    odds: Mapping[str, float]
    """How likely each part is the largest; likeliest first."""
    telling: Telling | None
    """None where nothing that may be started would tell."""
    communication: Interval | None
    """Share of the cycle at the default that is all-reduces, where these were timed; else what
    other settings of communication were seen to save: at least so much of it is communication.
    None: unattributed, no contrast was measured."""
    timed: bool = False
    """Whether all-reduces were timed."""

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        telling, share = self.telling, self.communication
        return {
            "odds": dict(self.odds),
            "telling": telling and {
                "algorithm": telling.work.algorithm, "width": telling.work.width,
                "serving": dict(telling.work.serving), "cycle_ms": dict(telling.cycles_ms),
            },
            "communication_share": share and {
                "value": share.value, "low": share.low, "high": share.high,
            },
            "all_reduces_timed": self.timed,
        }  # fmt: skip


def attribute(fit: CostFit, algorithm: str, servings: Sequence[Config]) -> Attribution:
    """Explain by the draws of a fit; `servings` are those that may be started."""
    reference = Work(algorithm, REFERENCE_TOKENS, fit.default)
    shares = fit.shares(reference)
    names = list(shares)
    largest = np.argmax(np.stack([shares[name] for name in names]), axis=0)
    odds = {name: float((largest == place).mean()) for place, name in enumerate(names)}
    ranked = dict(sorted(odds.items(), key=lambda item: -item[1]))
    telling = _telling(fit, algorithm, servings, largest, names)
    reduced = fit.reduced_share(reference)
    if reduced is not None:
        return Attribution(ranked, telling, interval_of_draws(reduced), timed=True)
    return Attribution(ranked, telling, _communication(fit))


def _telling(
    fit: CostFit, algorithm: str, servings: Sequence[Config], largest: NDArray[np.intp],
    names: Sequence[str],
) -> Telling | None:  # fmt: skip
    """Return the step whose times the explanations put farthest apart."""
    works = [Work(algorithm, width, serving) for serving in servings for width in WIDTHS]
    known = {one.work for one in fit.observed}
    works = [work for work in works if work not in known]
    alive = [p for p in range(len(names)) if (largest == p).mean() >= LEAST_ODDS]
    if len(alive) < 2 or not works:
        return None
    draws = fit.log_cycles(works)
    means = np.stack([draws[largest == place].mean(axis=0) for place in alive])
    inside = np.stack([draws[largest == place].var(axis=0) for place in alive]).mean(axis=0)
    apart = means.std(axis=0) / np.sqrt(inside + LAUNCH_SPREAD**2)
    at = int(np.argmax(apart))
    if apart[at] < TELLS:
        return None
    expected = {names[p]: float(np.exp(means[row, at])) for row, p in enumerate(alive)}
    return Telling(works[at], expected)


def _communication(fit: CostFit) -> Interval | None:
    """Return what the best other settings save of a verify at the default, where both were
    measured: the rest of a cycle may be communication too, or not."""
    verifies = {one.work for one in fit.observed if one.work.algorithm is not None}
    pairs = [
        (here, there)
        for here in verifies
        for there in verifies
        if fit.bold(here.serving) == fit.default != fit.bold(there.serving)
        and (here.algorithm, here.tokens) == (there.algorithm, there.tokens)
    ]
    saved = []
    for here, there in pairs:
        draws = fit.log_cycles([here, there])
        saved.append(interval_of_draws(1 - np.exp(draws[:, 1] - draws[:, 0])))
    return max(saved, key=lambda share: share.value, default=None)
