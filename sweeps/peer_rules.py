"""Stopping by rank among trials of the same age, as most tuners do; here to compare with.

Neither knows how sure it is: a good trial with a slow start or bad luck is stopped like a bad one.
"""

from collections.abc import Sequence
from statistics import fmean, median

RUNGS = (3, 9, 27)
"""Blocks of 5 s after which ASHA looks (Li et al. 2020, arXiv 1810.05934), a factor of 3 apart."""
REDUCTION = 3
"""One trial in so many passes a rung."""
LEAST_PEERS = 3
"""Fewer say nothing about the median."""


def asha_bar(blocks: Sequence[float], peers: Sequence[Sequence[float]]) -> float | None:
    """Return the mean rate that a trial had to have at its last rung, if it fell short of it.

    `peers` are the blocks of all other trials. None: it passes, or is at no rung yet.
    """
    rung = max((rung for rung in RUNGS if rung <= len(blocks)), default=None)
    if rung is None:
        return None
    reached = sorted((fmean(p[:rung]) for p in peers if len(p) >= rung), reverse=True)
    mine = fmean(blocks[:rung])
    kept = (len(reached) + 1) // REDUCTION
    if not kept:
        return None
    bar = reached[kept - 1]
    return bar if mine < bar else None


def median_bar(blocks: Sequence[float], peers: Sequence[Sequence[float]]) -> float | None:
    """Return the median of the others' mean rates at the same age, if a trial's is below it."""
    age = len(blocks)
    means = [fmean(p[:age]) for p in peers if len(p) >= age]
    if age < RUNGS[0] or len(means) < LEAST_PEERS:
        return None
    bar = median(means)
    return bar if fmean(blocks) < bar else None


PEER_RULES = {"asha": asha_bar, "median": median_bar}
"""Rule name, as a space file gives it."""
