"""The fitted time of a step over its width, drawn beside what was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.config import Config
from sweeps.prediction.cost_fit import CostFit
from sweeps.prediction.observations import Work, pooled
from sweeps.reporting.story import Story
from sweeps.search.evidence import gather
from sweeps.search.roles import serving_of

LEAST_OBSERVED = 4
"""Kinds of step below which a fit would only tell what it expected."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Times of steps over widths, with the ends of their 95 % intervals."""

    widths: tuple[int, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def cost_curves(
    story: Story, servings: Mapping[str, Config], widths: Sequence[int]
) -> dict[str, Curve]:
    """Fit all steps of a sweep at once; a curve for each named setting of communication.

    The curves are of the algorithm with the most trials. Empty where too little was measured.
    """
    baseline = next((r.config for r in story.results if r.purpose == "baseline"), None)
    streams = story.about.workload.concurrency if story.about.workload else 1
    evidence = gather(story.results, lambda config: config, "decode_tok_s")
    observed = pooled(evidence, streams=streams)
    plain = [one.cycle_ms for one in observed if one.work.algorithm is None]
    drafted = [one.work.algorithm for one in observed if one.work.algorithm is not None]
    if baseline is None or not plain or not drafted or len(observed) < LEAST_OBSERVED:
        return {}
    fit = CostFit(observed, serving_of(baseline), min(plain), tuple(servings.values()))
    most = max(dict.fromkeys(drafted), key=drafted.count)
    return {
        name: _curve(fit, most, serving, tuple(w for w in widths if w > 1), streams)
        for name, serving in servings.items()
    }


def _curve(
    fit: CostFit, algorithm: str, serving: Config, widths: tuple[int, ...], streams: int
) -> Curve:
    works = [Work(algorithm, width, serving, streams) for width in widths]
    ends = np.quantile(np.exp(fit.log_cycles(works)), (0.025, 0.5, 0.975), axis=0)
    low, middle, high = (tuple(map(float, row)) for row in ends)
    return Curve(widths, middle, low, high)
