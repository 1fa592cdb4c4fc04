"""The confirm stage on made-up standings: who is confirmed, in which order, for how long."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from sweeps.config import Config
from sweeps.search.beliefs import expected_gain
from sweeps.search.confirming import (
    RIVAL_GAIN,
    Field,
    chosen_of,
    field_of,
    next_of,
    settling,
    unsettled,
)
from sweeps.search.standings import Standings
from sweeps.search.steps import Taste
from tests.sweeps.makers import ngram, plain

TASTE = Taste(indifference_fraction=0.01, confirm_rounds=2, most_confirm_rounds=4, rivals=2)
A, B, C, D = ngram(2), ngram(3), ngram(4), ngram(5)


def standing(rates: dict[Config, tuple[float, float]]) -> Standings:
    """Make standings of rates, each with its own relative spread."""
    spreads = [spread for _, spread in rates.values()]
    mean = np.log([rate for rate, _ in rates.values()])
    return Standings(list(rates), mean, np.diag(np.square(spreads)))


def order(members: Sequence[Config], standings: Standings, taste: Taste = TASTE) -> list[Config]:
    """Start one after the other, until nobody is asked for."""
    field = Field(members[0], tuple(members[1:]), None)
    counts: dict[Config, int] = {}
    asked: list[Config] = []
    while (config := settling(field, counts, standings, taste)) is not None:
        asked.append(config)
        counts[config] = counts.get(config, 0) + 1
        assert len(asked) < 50
    return asked


def test_contenders_go_forth_and_back_and_longer_where_they_are_alike() -> None:
    apart = standing({A: (100.0, 0.001), B: (90.0, 0.001)})
    assert order([A, B], apart) == [A, B, B, A]
    alike = standing({A: (100.0, 0.02), B: (99.0, 0.02)})
    assert order([A, B], alike) == [A, B, B, A, A, B]
    one_open = standing({A: (100.0, 0.02), B: (99.0, 0.02), C: (50.0, 0.001)})
    assert order([A, B, C], one_open) == [A, B, C, C, B, A, A, B]
    assert order([A], alike) == []


def test_what_is_surely_behind_or_surely_a_tie_is_settled() -> None:
    def open_(rate: float, spread: float) -> bool:
        return bool(unsettled([A, B], standing({A: (100.0, spread), B: (rate, spread)}), TASTE))

    assert not open_(90.0, 0.001), "surely behind"
    assert not open_(99.99, 0.0001), "surely a tie"
    assert open_(99.0, 0.02)
    assert open_(97.9, 0.02), "behind by 1 deviation of their difference is no 90 %"
    # 90 % is 1.2816 deviations of the difference.
    spread = 0.02
    for deviations, is_open in ((1.25, True), (1.31, False)):
        gap = deviations * spread * math.sqrt(2)
        assert open_(100.0 * math.exp(-gap), spread) is is_open
    three = standing({A: (100.0, 0.02), B: (99.0, 0.02), C: (98.9, 0.02), D: (50.0, 0.001)})
    assert unsettled([D, A, B, C], three, TASTE) == [A, B, C]
    assert unsettled([ngram(6)], three, TASTE) == ()


def test_of_what_ties_with_the_best_the_least_changed_is_chosen() -> None:
    simple, changed = ngram(2), ngram(3, NCCL_PROTO="LL")
    field = Field(changed, (simple,), plain())
    near = standing({changed: (100.0, 0.001), simple: (99.2, 0.001)})
    assert chosen_of(field, near, plain(), TASTE) == simple
    for spread in (0.001, 0.9):
        far = standing({changed: (100.0, spread), simple: (98.5, spread)})
        assert chosen_of(field, far, plain(), TASTE) == changed
    # As simple as each other: the faster.
    twins = standing({A: (100.0, 0.01), B: (100.5, 0.01)})
    assert chosen_of(Field(A, (B,), None), twins, plain(), TASTE) == B
    assert chosen_of(Field(A, (ngram(9),), None), twins, plain(), TASTE) == A


def test_a_rival_is_worth_a_start_where_choosing_it_may_gain() -> None:
    rates = {A: (100.0, 0.02), B: (99.0, 0.02), C: (98.0, 0.03), D: (60.0, 0.001),
             plain(): (50.0, 0.001), ngram(6): (97.0, 0.05)}  # fmt: skip
    standings = standing(rates)
    field = field_of(standings, plain(), TASTE)
    assert field.leader == A
    assert field.beside == plain()
    gains = {}
    for place, config in enumerate(standings.configs):
        ahead, spread = standings.ahead(place, 0)
        gains[config] = float(expected_gain(np.array(ahead - 0.01), np.array(spread)))
    best = sorted((B, C, ngram(6)), key=lambda c: -gains[c])[:2]
    assert list(field.rivals) == best
    assert gains[D] < RIVAL_GAIN < gains[best[1]]
    assert field_of(standings, plain(), Taste(rivals=0)).rivals == ()
    assert field.contenders == (A, *best)


def test_a_gain_is_over_the_best_plain_decode_and_among_equals_the_least_changed() -> None:
    tuned, other = plain(NCCL_PROTO="LL"), plain(NCCL_PROTO="LL", NCCL_ALGO="Ring")
    rates = {A: (100.0, 0.01), plain(): (80.0, 0.01), tuned: (81.0, 0.01), other: (81.2, 0.01)}
    assert field_of(standing(rates), plain(), TASTE).beside == plain(), "within 2 %"
    faster = {**rates, tuned: (90.0, 0.01), other: (91.0, 0.01)}
    assert field_of(standing(faster), plain(), TASTE).beside == tuned
    ring = plain(NCCL_ALGO="Ring")
    twins = {A: (100.0, 0.01), tuned: (90.0, 0.01), ring: (91.0, 0.01), plain(): (50.0, 0.01)}
    assert field_of(standing(twins), plain(), TASTE).beside == ring, (
        "of the same changes the faster"
    )
    assert field_of(standing({A: (100.0, 0.01)}), plain(), TASTE).beside is None
    led = {plain(): (100.0, 0.01), A: (80.0, 0.01)}
    assert field_of(standing(led), plain(), TASTE).beside is None
    tuned_leads = {tuned: (100.0, 0.01), plain(): (90.0, 0.01)}
    assert field_of(standing(tuned_leads), plain(), TASTE).beside == plain()


def test_rounds_go_forth_and_back() -> None:
    counts: dict[Config, int] = {}
    asked = []
    for number in range(3):
        while (config := next_of((plain(), A), counts, number)) is not None:
            asked.append(config)
            counts[config] = counts.get(config, 0) + 1
    assert asked == [plain(), A, A, plain(), plain(), A]


def test_a_choice_between_two_gains_by_the_textbook() -> None:
    gains = expected_gain(np.array([0.0, 0.02, -0.02]), np.array([0.01, 0.01, 0.01]))
    assert gains[0] == pytest.approx(0.01 / math.sqrt(2 * math.pi))
    # E[max(x, 0)] of a normal with mean 2 and spread 1 is 2.0085, with mean -2 it is 0.0085.
    assert gains[1] == pytest.approx(0.0200849, rel=1e-4)
    assert gains[2] == pytest.approx(0.0000849, rel=1e-3)
