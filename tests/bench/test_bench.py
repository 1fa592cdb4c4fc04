"""The programs in bench/ that no other file of tests runs; each checks its figures itself."""

import pytest

from tests.bench.programs import OTHERS, check_report, figures_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", OTHERS)
def test_a_program_checks_and_prints_its_figures(name: str) -> None:
    check_report(name)


def test_a_load_is_alike_in_both_orders_of_a_ladder_or_the_trial_tells() -> None:
    figures = figures_of("ladder")
    loads = [name.removesuffix("_told_count") for name in figures if name.endswith("_told_count")]
    assert len(loads) == 2
    for load in loads:
        told = figures[f"{load}_told_count"]
        assert told or figures[f"{load}_accept_order_ratio"] < 0.02
        assert told or figures[f"{load}_order_ratio"] < 0.04  # a step differs from the next
