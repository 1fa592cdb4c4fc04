"""The equivalence test: how often it errs over simulated starts, and what it can decide."""

import math
import random
from collections.abc import Callable

import pytest

from sweeps.equivalence import (
    Comparison,
    Likeness,
    Side,
    Spread,
    compare,
    detectable,
    side_of,
    starts_needed,
)
from sweeps.search.evidence import Reading

RUNS = 1000
ZONE = 0.02
MEASURING = 0.004
"""Deviation of one start's measuring, as a fraction."""


def _simulate(
    true_ratio: float, starts: int, launch: float, judge: Callable[[Comparison], bool]
) -> float:
    """Return in which share of verifications a judgement holds; the export has two starts too."""
    rng = random.Random(f"{true_ratio}{starts}{launch}")

    def readings(value: float) -> list[Reading]:
        return [
            Reading(value + rng.gauss(0, launch) + rng.gauss(0, MEASURING), MEASURING**2)
            for _ in range(starts)
        ]

    held = 0
    for _ in range(RUNS):
        old, new = readings(0.0), readings(math.log(true_ratio))
        reference = side_of(old)
        held += judge(compare([side_of(new)], [reference], [new], Spread()))
    return held / RUNS


@pytest.mark.parametrize("starts", [2, 4, 12])
@pytest.mark.parametrize("edge", [1 + ZONE, 1 / (1 + ZONE)])
def test_a_rate_at_the_edge_is_seldom_called_alike_and_seldom_different(
    starts: int, edge: float
) -> None:
    """The error of each side is 5 %; three deviations of 1,000 runs are 2.1 %."""
    alike = _simulate(edge, starts, 0.015, lambda c: c.likeness(ZONE) is Likeness.ALIKE)
    assert alike <= 0.071
    different = _simulate(edge, starts, 0.015, lambda c: c.likeness(ZONE) is Likeness.DIFFERENT)
    assert different <= 0.071


@pytest.mark.parametrize("starts", [2, 4, 12])
def test_the_interval_holds_the_ratio(starts: int) -> None:
    covered = _simulate(1.3, starts, 0.015, lambda c: c.interval[0] < 1.3 < c.interval[1])
    assert 0.93 <= covered <= 0.99


def test_a_host_with_twice_the_usual_spread_errs_more_until_its_own_starts_tell() -> None:
    wrong = [
        _simulate(1.05, starts, 0.03, lambda c: c.likeness(0.05) is Likeness.ALIKE)
        for starts in (2, 12)
    ]
    assert wrong[0] <= 0.16
    assert wrong[1] <= 0.1
    assert wrong[1] < wrong[0]


def test_as_many_starts_as_are_said_to_be_needed_decide_mostly() -> None:
    reference = Side(0.0, MEASURING**2, 8)
    needed = starts_needed(0.03, Spread(), MEASURING**2, [reference], 1)
    assert needed is not None
    rng = random.Random(5)
    alike = 0
    for _ in range(RUNS):
        old = rng.gauss(0, math.sqrt(0.015**2 / 8 + MEASURING**2))
        new = [Reading(rng.gauss(0, 0.015) + rng.gauss(0, MEASURING), MEASURING**2)
               for _ in range(needed)]  # fmt: skip
        side = Side(old, MEASURING**2, 8)
        comparison = compare([side_of(new)], [side], [new], Spread())
        alike += comparison.likeness(0.03) is Likeness.ALIKE
    assert 0.72 <= alike / RUNS <= 0.95


def test_says_where_no_number_of_starts_decides() -> None:
    assert starts_needed(0.01, Spread(), 0.0, [Side(0.0, 0.0, 1)], 1) is None
    wide = detectable(Spread(), 0.0, [Side(0.0, 0.0, 1)], 1, 2)
    assert 0.03 < wide < 0.08


def test_a_gain_is_compared_by_both_of_its_rates() -> None:
    fast, plain = [Reading(math.log(120), 0.0)] * 4, [Reading(math.log(80), 0.0)] * 4
    export = [Side(math.log(150), 0.0, 4)], [Side(math.log(100), 0.0, 4)]
    made = compare([side_of(fast), *export[1]], [side_of(plain), *export[0]], [fast, plain],
                   Spread())  # fmt: skip
    assert made.ratio == pytest.approx(1.0)
    assert made.likeness(0.05) is Likeness.ALIKE


def test_a_side_needs_a_start() -> None:
    with pytest.raises(ValueError, match="needs a start"):
        side_of([])
