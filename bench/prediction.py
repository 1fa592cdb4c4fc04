"""How far predictions of cells that were not started miss, after plain decode and four starts.

Emulated hosts S, M and G, with and without a working PCIe-IPC all-reduce, space ngram, three kinds
of text. The starts: plain decode, and NGRAM with 2, 4, 12 and 32 draft tokens, nothing else
changed. Step times come from the emulated host's cost model, with 1.5 % between starts and 4.5 %
between blocks of 5 s; accept lengths from a replay that misses the truth by 0.5 % in common and by
0.3 % of each setting.

- `error_…`: of tok/s, over draft settings drawn from the space, at the settings of communication
  that were started. `coverage_ratio`: share of cells whose 95 % interval holds the truth.
- `elsewhere_…`: the same with settings of communication that no start had: what is not known of
  them must be in the interval. `screened_…`: these, after a screening of the host's all-reduces.
- `truth_…`: each host by itself. `random_…`: hosts drawn at random, by HELD_SEEDS.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from reporting.program import Figures, run
from search_worlds.accept import FULL, QUICK, Grid
from search_worlds.hosts import main_settings, random_setting
from search_worlds.recorded import Recorded
from search_worlds.screened import screened
from search_worlds.trials import draw
from search_worlds.world import World
from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.sampling import valid_samples
from sweeps.search.brief import Foresight
from sweeps.search.planner import Planner
from sweeps.search.roles import DRAFT_TOKENS, drafting_of, serving_of
from sweeps.values import Value

LADDER = (2, 4, 12, 32)
SEEDS, QUICK_SEEDS = 10, 1
CELLS = 60
HELD_SEEDS = range(7000, 7030)
_Z = 1.96
_DRAFT: dict[str, Value] = {
    "speculative_algorithm": "NGRAM", "speculative_ngram_max_bfs_breadth": 1,
    "ngram_match_depth": 18, "speculative_ngram_match_type": "BFS",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Miss:
    """Of one cell: predicted over true rate, as a logarithm, and the spread that was stated."""

    error: float
    spread: float

    @property
    def covered(self) -> bool:
        """Tell whether the 95 % interval holds the truth."""
        return abs(self.error) <= _Z * self.spread


def measure(quick: bool) -> Figures:
    """Predict on all hosts and return the figures."""
    grid, seeds = (QUICK, QUICK_SEEDS) if quick else (FULL, SEEDS)
    here: dict[str, list[Miss]] = {}
    elsewhere: list[Miss] = []
    after_screening: list[Miss] = []
    for setting in main_settings():
        if setting.space == "ngram":
            for seed in range(seeds):
                missed = misses(World(setting, grid), seed)
                here.setdefault(setting.name.partition("/")[0], []).extend(missed.here)
                elsewhere += missed.elsewhere
                after_screening += missed.screened
    figures = {**_figures("", [miss for found in here.values() for miss in found])}
    for name, found in here.items():
        figures |= _figures(f"truth_{name.replace('+', '_')}_", found)
    figures |= _figures("elsewhere_", elsewhere)
    figures |= _figures("screened_", after_screening)
    return {**figures, **_figures("random_", list(_at_random(grid, 3 if quick else None)))}


@dataclass(frozen=True, slots=True)
class Misses:
    """At the settings of communication that were started, at others, and at these once more after
    a screening."""

    here: list[Miss]
    elsewhere: list[Miss]
    screened: list[Miss]


def misses(world: World, seed: int) -> Misses:
    """Start the ladder, and predict cells at its settings of communication, and at others."""
    rng = np.random.default_rng([seed, *world.setting.name.encode()])
    plain = world.space.plain()
    ladder = [Config.of({**plain, **_DRAFT, DRAFT_TOKENS: width}) for width in LADDER]
    history: list[TrialResult] = []
    for config in [plain, *ladder]:
        purpose = "search" if history else "baseline"
        history.append(draw(world, config, len(history), rng, purpose=purpose).result)
    recorded = Recorded(world, seed)
    blind, told = (
        Planner(world.space, canonical=world.canonical, foresight=foresight)
        for foresight in (
            Foresight(recorded),
            Foresight(recorded, all_reduces=screened(world, seed)),
        )
    )
    drawn = [c for c in islice(valid_samples(world.space, seed), 6 * CELLS) if not c.is_plain]
    near = [Config.of({**plain, **drafting_of(config)}) for config in drawn[:CELLS]]
    far = [c for c in map(world.canonical, drawn) if serving_of(c) != serving_of(plain)][:CELLS]
    return Misses(
        _missed(world, blind, history, near),
        _missed(world, blind, history, far),
        _missed(world, told, history, far),
    )


def _missed(
    world: World, planner: Planner, history: Sequence[TrialResult], cells: Iterable[Config]
) -> list[Miss]:
    asked = list(dict.fromkeys(map(world.canonical, cells)))
    mean, covariance = planner.expected(history, asked)
    spreads = np.sqrt(np.diag(covariance))
    return [
        Miss(float(value) - math.log(world.tok_s(config)), float(spread))
        for config, value, spread in zip(asked, mean, spreads, strict=True)
    ]


def _at_random(grid: Grid, most: int | None) -> Iterator[Miss]:
    for seed in islice(HELD_SEEDS, most):
        setting = replace(random_setting(seed), space="ngram")
        yield from misses(World(setting, grid), seed).here


def _figures(head: str, found: Sequence[Miss]) -> dict[str, float]:
    errors = [abs(math.expm1(miss.error)) for miss in found]
    return {
        f"{head}error_median_ratio": float(np.median(errors)),
        f"{head}error_p95_ratio": float(np.quantile(errors, 0.95)),
        f"{head}coverage_ratio": float(np.mean([miss.covered for miss in found])),
        f"{head}cells_count": len(found),
    }


if __name__ == "__main__":
    run(__doc__ or "", measure)
