"""Intervals of ratios and quotients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps import intervals
from sweeps.intervals import Interval


def test_a_ratio_over_prompts_holds_for_prompts_like_these() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        lengths_s = rng.uniform(5, 15, 16)
        rates = 100 * np.exp(rng.normal(0, 0.3, 16))
        interval = intervals.cluster_ratio(list(rates * lengths_s), list(lengths_s))
        assert interval is not None
        assert interval.low is not None
        assert interval.high is not None
        held += interval.low <= 100 * np.exp(0.3**2 / 2) <= interval.high
    assert 0.89 <= held / 400 <= 0.98


def test_a_ratio_needs_something_to_divide_by_and_two_for_an_interval() -> None:
    assert intervals.cluster_ratio([], []) is None
    assert intervals.cluster_ratio([1.0], [0.0]) is None
    assert intervals.cluster_ratio([6.0], [2.0]) == intervals.Interval(3.0, None, None)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(0.1, 1e3), min_size=2, max_size=20), st.floats(0.1, 10))
def test_over_equal_blocks_a_ratio_is_the_interval_of_the_mean(
    values: list[float], block_s: float
) -> None:
    counts = [value * block_s for value in values]
    interval = intervals.cluster_ratio(counts, [block_s] * len(counts))
    assert interval is not None
    assert interval.high is not None
    assert interval.value == pytest.approx(float(np.mean(values)))
    half = intervals.mean_half_width(values)
    assert interval.high - interval.value == pytest.approx(half, abs=1e-9 * interval.value)


def in_blocks(values: list[float]) -> tuple[Interval, int, str]:
    """Return the interval of a rate that has these values in its blocks of a second."""

    def parts(blocks: int) -> list[tuple[float, float]]:
        each = len(values) // blocks
        return [(sum(values[i * each : (i + 1) * each]), each) for i in range(blocks)]

    found = intervals.block_ratio(parts, len(values))
    assert found is not None
    return found


def test_only_neighbours_that_move_together_widen_an_interval() -> None:
    _, blocks, method = in_blocks([1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    assert blocks == 5
    assert "halved for autocorrelation 0." in method
    _, blocks, method = in_blocks([1.0, 2.0] * 5)
    assert (blocks, method) == (10, "10 time blocks")


def test_no_interval_of_a_rate_reaches_below_zero() -> None:
    interval, _, _ = in_blocks([0.0, 0.0, 9.0, 0.0])
    assert interval.low == 0


def test_nothing_to_divide_by_is_no_ratio() -> None:
    assert intervals.block_ratio(lambda blocks: [(0.0, 0.0)] * blocks, 4) is None
    assert intervals.block_ratio(lambda blocks: [(0.0, 0.0)] * blocks, 1) is None


@settings(deadline=None, max_examples=40)
@given(
    above=st.floats(0.1, 1e3), below=st.floats(0.1, 1e3),
    wide=st.floats(1.001, 2), narrow=st.floats(1.0, 1.001),
)  # fmt: skip
def test_a_quotient_is_no_surer_than_its_parts(
    above: float, below: float, wide: float, narrow: float
) -> None:
    a = Interval(above, above / wide, above * wide)
    b = Interval(below, below / narrow, below * narrow)
    ratio = intervals.quotient(a, b)
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low <= ratio.value <= ratio.high
    assert wide**2 <= ratio.high / ratio.low * (1 + 1e-9) <= (wide * narrow) ** 2 * (1 + 1e-6)


def test_a_quotient_without_one_of_its_intervals_has_none() -> None:
    whole, point = Interval(4.0, 3.0, 5.0), Interval(2.0, None, None)
    assert intervals.quotient(whole, point) == Interval(2.0, None, None)
    assert intervals.quotient(Interval(4.0, 0.0, 5.0), whole).low is None


def test_an_inverse_turns_its_interval_round() -> None:
    assert intervals.inverse(Interval(10.0, 5.0, 20.0), 1000.0) == Interval(100.0, 50.0, 200.0)
    assert intervals.inverse(Interval(10.0, 0.0, 20.0), 1000.0) == Interval(100.0, 50.0, None)
