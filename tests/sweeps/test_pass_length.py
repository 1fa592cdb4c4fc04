"""How long a measured pass pays: the optimum of two-stage sampling, by its own cost."""

from collections.abc import Sequence
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.pass_length import START_SPREAD, pays

BLOCK_S = 5.0


def rates(spread: float, blocks: int) -> Sequence[float]:
    """Return blocks whose sample spread is just so, around 100 tok/s."""
    raw = np.array([1.0 if place % 2 else -1.0 for place in range(blocks)])
    raw -= raw.mean()
    return list(100 * (1 + spread * raw / raw.std(ddof=1)))


def length_s(spread: float, start_s: float, most_s: float = 5_000.0) -> float:
    """Return how long a pass goes on whose blocks have that spread."""
    blocks = 2
    while blocks * BLOCK_S < most_s and pays(rates(spread, blocks), blocks * BLOCK_S, start_s):
        blocks += 1
    return blocks * BLOCK_S


@given(st.floats(0.03, 0.4), st.floats(30, 600))
def test_a_pass_ends_where_hours_buy_the_most(spread: float, start_s: float) -> None:
    chosen_s = length_s(spread, start_s)

    def cost(pass_s: float) -> float:
        """Return variance of a mean times the time it takes, whatever the number of starts."""
        return (START_SPREAD**2 + spread**2 * BLOCK_S / pass_s) * (start_s + pass_s)

    best_s = sqrt(start_s * spread**2 * BLOCK_S) / START_SPREAD
    assert cost(chosen_s) <= 1.05 * min(cost(max(best_s, 30.0)), cost(chosen_s + 60))


def test_a_provisional_interval_goes_on_however_narrow() -> None:
    assert pays(rates(0.001, 4), 60.0, 100.0)
    assert pays(rates(0.001, 10), 29.0, 100.0)
    assert not pays(rates(0.001, 10), 50.0, 100.0)


@pytest.mark.parametrize("start_s", [0.0, 100.0])
def test_nothing_that_can_be_timed_ends_the_pass(start_s: float) -> None:
    assert not pays([0.0] * 8, 40.0, start_s)
