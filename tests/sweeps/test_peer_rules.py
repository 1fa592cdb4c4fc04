"""Stopping by rank among trials of the same age."""

import pytest

from sweeps.peer_rules import RUNGS, asha_bar, median_bar


def test_asha_keeps_the_best_third_at_each_rung() -> None:
    peers = [[100.0] * 30, [90.0] * 30, [80.0] * 30, [70.0] * 30, [60.0] * 30]
    assert asha_bar([95.0] * 3, peers) is None
    assert asha_bar([85.0] * 3, peers) == 90.0
    assert asha_bar([50.0] * 2, peers) is None


def test_asha_lets_the_first_trials_pass() -> None:
    assert asha_bar([1.0] * 3, []) is None
    assert asha_bar([1.0] * 3, [[100.0] * 3]) is None
    assert asha_bar([1.0] * 3, [[100.0] * 3, [50.0] * 3]) == 100.0


@pytest.mark.parametrize("rung", RUNGS)
def test_asha_compares_at_the_rung_and_not_later(rung: int) -> None:
    slow_start = [10.0] * rung + [200.0]
    peers = [[100.0] * 30, [100.0] * 30]
    assert asha_bar(slow_start, peers) == 100.0


def test_the_median_rule_needs_some_others_of_its_age() -> None:
    peers = [[100.0] * 5, [80.0] * 5, [60.0] * 5]
    assert median_bar([70.0] * 5, peers) == 80.0
    assert median_bar([85.0] * 5, peers) is None
    assert median_bar([70.0] * 6, peers) is None
    assert median_bar([70.0] * 2, peers) is None
