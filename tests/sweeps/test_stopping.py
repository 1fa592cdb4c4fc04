"""Stopping early: how seldom it is wrong, and how soon it is right."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.stopping import LEAST_BLOCKS, decide, upper_bound

RUNS, BLOCKS = 500, 24


def stop_share(ratio: float, cv: float, *, margin: float = 0.0) -> tuple[float, float]:
    """Return how many of the simulated trials stop, and after how many blocks at the median."""
    rng = np.random.default_rng(20261129)
    noise = rng.standard_normal((RUNS, BLOCKS))
    for i in range(1, BLOCKS):  # neighbouring blocks are a little alike
        noise[:, i] = 0.05 * noise[:, i - 1] + np.sqrt(1 - 0.05**2) * noise[:, i]
    trials = ratio * (1 + cv * noise)
    looks = [_stopped_at([float(x) for x in trial], cv, margin) for trial in trials]
    return sum(n < inf for n in looks) / RUNS, float(np.median(looks))


def _stopped_at(blocks: list[float], cv: float, margin: float) -> float:
    for n in range(1, len(blocks) + 1):
        if decide(blocks[:n], 1.0, prior_cv=cv, margin=margin):
            return n
    return inf


@pytest.mark.parametrize(("cv", "most"), [(0.045, 0.05), (0.22, 0.085)])
def test_an_equal_candidate_is_seldom_stopped_at_any_look(cv: float, most: float) -> None:
    share, _ = stop_share(1.0, cv)
    assert 0 < share <= most
    with_margin, _ = stop_share(1.0, cv, margin=0.02)
    assert with_margin < share


@pytest.mark.parametrize(
    ("ratio", "cv", "least_share", "most_blocks"), [(0.9, 0.045, 0.99, 4), (0.6, 0.22, 0.99, 5)]
)
def test_a_worse_candidate_is_stopped_soon(
    ratio: float, cv: float, least_share: float, most_blocks: float
) -> None:
    share, blocks = stop_share(ratio, cv)
    assert share >= least_share
    assert blocks <= most_blocks


def test_few_blocks_decide_nothing() -> None:
    assert decide([0.0] * (LEAST_BLOCKS - 1), 100.0, prior_cv=0.1) is None
    assert decide([0.0] * LEAST_BLOCKS, 100.0, prior_cv=0.1) is not None


def test_a_decision_says_what_it_rests_on() -> None:
    decision = decide([10.0, 11.0, 9.0, 10.0], 20.0, prior_cv=0.1, alpha=0.01)
    assert decision is not None
    assert decision.mean == pytest.approx(10)
    assert 10 < decision.upper_bound < decision.bar == 20
    assert (decision.blocks, decision.alpha) == (4, 0.01)


@settings(deadline=None, max_examples=50)
@given(
    blocks=st.lists(st.floats(0.1, 1e3), min_size=2, max_size=40),
    cv=st.floats(0.01, 1), alpha=st.floats(0.001, 0.2), scale=st.floats(0.01, 100),
)  # fmt: skip
def test_the_bound_is_above_the_mean_and_in_the_same_unit(
    blocks: list[float], cv: float, alpha: float, scale: float
) -> None:
    bound = upper_bound(blocks, cv, alpha)
    assert bound > float(np.mean(blocks))
    assert upper_bound([scale * x for x in blocks], cv, alpha) == pytest.approx(scale * bound)
    assert upper_bound(blocks, cv, alpha / 2) > bound


def test_one_lucky_draw_of_equal_blocks_does_not_shrink_the_bound_to_them() -> None:
    assert upper_bound([10.0] * 3, 0.2, 0.05) > 11


def test_the_bound_is_the_published_one() -> None:
    # By hand, from the formula, at six blocks that are all 10: the spread is the pooled
    # one alone, sqrt(20 / 25); rho^2 = (4.60517 + log(4.60517) + 1) / 6 = 1.188725; the width is
    # sqrt(2 x 8.132349 / (36 x 1.188725) x log(1 + sqrt(8.132349) / 0.1)) = 1.134251.
    assert upper_bound([10.0] * 6, 0.1, 0.05) == pytest.approx(11.014505, abs=2e-6)
    # Two blocks of 8 and 12: squares 8, and 20 x 1 of earlier trials, over 21.
    spread = (28 / 21) ** 0.5
    width = (upper_bound([8.0, 12.0], 0.1, 0.05) - 10) / spread
    assert width == pytest.approx((upper_bound([10.0] * 2, 0.1, 0.05) - 10) / (20 / 21) ** 0.5)


def test_the_bound_tightens_with_blocks() -> None:
    bounds = [upper_bound([9.0, 11.0] * n, 0.1, 0.05) for n in range(2, 30)]
    assert bounds == sorted(bounds, reverse=True)


@pytest.mark.parametrize(
    ("blocks", "alpha"),
    [([1.0], 0.05), ([1.0, 2.0], 0.0), ([1.0, 2.0], -0.1), ([1.0, 2.0], 0.5), ([1.0, 2.0], 0.6)],
)
def test_a_bound_from_nothing_is_refused(blocks: list[float], alpha: float) -> None:
    with pytest.raises(ValueError, match="no bound"):
        upper_bound(blocks, 0.1, alpha)
