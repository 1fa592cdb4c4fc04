"""Whether accept lengths depend on communication after all: tested, not assumed."""

from sweeps.config import Config
from sweeps.search.evidence import Evidence, Reading, mean_of
from sweeps.search.roles import drafting_of

LEVEL = 0.002
"""Chance of a false alarm at each look."""
SAME_SPREAD = 0.004
"""Differences this small are none: batches end and requests are cut off at other places."""


def accepts_differ(evidence: Evidence) -> bool:
    """Tell whether starts with the same drafts and other communication accepted unlike lengths.

    Chi-square over the drafts that were measured under several settings. It happens where a kernel
    computes something else, or reads wrong data.
    """
    from scipy.special import chdtrc  # slow to import, and `check` needs none of it

    groups: dict[Config, list[Reading]] = {}
    for variant in evidence.variants.values():
        if variant.accept is not None:
            groups.setdefault(drafting_of(variant.config), []).append(variant.accept)
    statistic, degrees = 0.0, 0
    for group in groups.values():
        mean = mean_of(group, SAME_SPREAD**2)
        gaps = ((r.value - mean.value) ** 2 / (r.variance + SAME_SPREAD**2) for r in group)
        statistic += sum(gaps)
        degrees += len(group) - 1
    return degrees > 0 and float(chdtrc(degrees, statistic)) < LEVEL
