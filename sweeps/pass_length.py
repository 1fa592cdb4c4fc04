"""How long a measured pass pays: until a further start would teach more than further measuring."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

from sweeps.intervals import FIRM_AFTER_S, LEAST_BLOCKS

START_SPREAD = 0.015
"""Usual spread of a rate between starts of one configuration, as a fraction."""


def pays(blocks_per_s: Sequence[float], measured_s: float, start_s: float) -> bool:
    """Tell whether a pass of `measured_s` goes on, after a start that took `start_s`.

    `blocks_per_s` are the rates of its equal blocks of time. The variance of a mean over starts is
    (b + w / t) / n for a budget of n x (s + t) seconds, where b is the variance between starts and
    w / t that of a pass of t seconds after a start of s. It is least at t = sqrt(s x w / b), that
    is where the variance of the pass over that between starts equals t / s: the optimum of
    two-stage sampling (Cochran, Sampling Techniques, 3rd edition, 10.6). A pass whose interval is
    still provisional goes on.
    """
    if len(blocks_per_s) < LEAST_BLOCKS or measured_s < FIRM_AFTER_S:
        return True
    mean = fmean(blocks_per_s)
    if mean <= 0 or start_s <= 0:
        return False
    spread = stdev(blocks_per_s) / sqrt(len(blocks_per_s)) / mean
    return (spread / START_SPREAD) ** 2 > measured_s / start_s
