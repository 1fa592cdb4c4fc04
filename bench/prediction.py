"""How far predictions of cells that were not started miss, after plain decode and four starts.

Emulated hosts S, M and G, with and without a working PCIe-IPC all-reduce, space ngram, three kinds
of text. The starts, whole trials of the product: plain decode, and NGRAM with 2, 4, 12 and 32 draft
tokens, nothing else changed. Predictions are those of `predict`: accept lengths from a replay of
what plain decode wrote, step times from what the starts measured.

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

from infra.sglang.flags import NEWEST
from orchestrator.predicting import planner_of
from orchestrator.recorder import accept_source
from orchestrator.screening import timed_all_reduces
from orchestrator.search.given import GivenSearch, GivenTrial
from orchestrator.simulation import drive
from orchestrator.sweep_run import SweepRun
from reporting.program import Figures, run
from search_worlds.hosts import main_settings, random_setting
from search_worlds.product import SWEPT, Open, attendants, opened, screen
from search_worlds.truth import World
from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.sampling import valid_samples
from sweeps.search.brief import Foresight
from sweeps.search.planner import Planner
from sweeps.search.roles import DRAFT_TOKENS, drafting_of, serving_of
from sweeps.search.steps import Purpose
from sweeps.values import Value

LADDER = (2, 4, 12, 32)
SEEDS, QUICK_SEEDS = 10, 1
QUICK_PROMPTS = "code"
QUICK_WORLDS = ("M+ipc/ngram/code", "S/ngram/code", "G+ipc/ngram/code")
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
    here: dict[str, list[Miss]] = {}
    elsewhere: list[Miss] = []
    after_screening: list[Miss] = []
    for setting in main_settings():
        if setting.name in QUICK_WORLDS if quick else setting.space == "ngram":
            for seed in range(QUICK_SEEDS if quick else SEEDS):
                missed = misses(World(setting), seed)
                here.setdefault(setting.name.partition("/")[0], []).extend(missed.here)
                elsewhere += missed.elsewhere
                after_screening += missed.screened
    figures = {**_figures("", [miss for found in here.values() for miss in found])}
    for name, found in here.items():
        figures |= _figures(f"truth_{name.replace('+', '_')}_", found)
    figures |= _figures("elsewhere_", elsewhere)
    figures |= _figures("screened_", after_screening)
    return {**figures, **_figures("random_", list(_at_random(quick)))}


@dataclass(frozen=True, slots=True)
class Misses:
    """At the settings of communication that were started, at others, and at these once more after
    a screening."""

    here: list[Miss]
    elsewhere: list[Miss]
    screened: list[Miss]


def misses(world: World, seed: int) -> Misses:
    """Start the ladder, and predict cells at its settings of communication, and at others."""
    with opened(world, seed) as place:
        history = started(place)
        blind = _planner(place)
        screen(place)
        told = _planner(place)
        plain = place.sweep.space.plain()
        drawn = [c for c in islice(valid_samples(world.space, seed), 6 * CELLS) if not c.is_plain]
        near = [Config.of({**plain, **drafting_of(config)}) for config in drawn[:CELLS]]
        far = [c for c in drawn if serving_of(c) != serving_of(plain)][:CELLS]
        return Misses(
            _missed(world, blind, history, near),
            _missed(world, blind, history, far),
            _missed(world, told, history, far),
        )


def started(place: Open) -> Sequence[TrialResult]:
    """Make the starts of the ladder, and return what they measured."""
    plain = place.sweep.space.plain()
    ladder = [Config.of({**plain, **_DRAFT, DRAFT_TOKENS: width}) for width in LADDER]
    starts = [GivenTrial("", plain, Purpose.BASELINE)]
    starts += [GivenTrial("", config, Purpose.SEARCH) for config in ladder]
    sweep = replace(place.sweep, early_stopping=False)
    made = SweepRun(SWEPT, sweep, place.state, GivenSearch(starts), attendants(place))
    made.start()
    drive(made)
    made.end("finished")
    return made.results


def _planner(place: Open) -> Planner:
    (host,) = place.sweep.hosts
    fingerprints = {name: found.fingerprint for name, found in place.facts.items()}
    source = accept_source(place.state, place.sweep, NEWEST, emulated=True)
    assert source is not None, "plain decode was recorded"
    known = timed_all_reduces(place.state, fingerprints)
    return planner_of(place.sweep, host, Foresight(source, all_reduces=known))


def _missed(
    world: World, planner: Planner, history: Sequence[TrialResult], cells: Iterable[Config]
) -> list[Miss]:
    asked = list(dict.fromkeys(cells))
    world.prepare(asked)
    mean, covariance = planner.expected(history, asked)
    spreads = np.sqrt(np.diag(covariance))
    return [
        Miss(float(value) - math.log(world.tok_s(config)), float(spread))
        for config, value, spread in zip(asked, mean, spreads, strict=True)
    ]


def _at_random(quick: bool) -> Iterator[Miss]:
    for seed in islice(HELD_SEEDS, 1 if quick else None):
        setting = replace(random_setting(seed), space="ngram")
        setting = replace(setting, prompts=QUICK_PROMPTS) if quick else setting
        yield from misses(World(setting), seed).here


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
