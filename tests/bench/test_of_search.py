"""The programs in bench/ that search and predict on hosts whose truth is known."""

import pytest

from tests.bench.programs import OF_SEARCH, check_report, figures_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", OF_SEARCH)
def test_a_program_checks_and_prints_its_figures(name: str) -> None:
    check_report(name)


def test_predictions_say_how_far_they_may_miss() -> None:
    figures = figures_of("prediction")
    assert figures["coverage_ratio"] > 0.9
    assert figures["random_coverage_ratio"] > 0.9
    assert figures["error_median_ratio"] < 0.03 < figures["elsewhere_error_median_ratio"]
    assert figures["screened_error_median_ratio"] < figures["elsewhere_error_median_ratio"]


def test_the_default_search_costs_less_than_tpe_on_the_same_path() -> None:
    figures = figures_of("search")
    assert figures["default_all_good_ratio"] >= 0.75
    assert figures["default_all_whole_gpu_hours"] < figures["tpe_all_whole_gpu_hours"]
    assert figures["default_good_stopped_ratio"] <= 0.1
    assert abs(figures["default_gain_error_ratio"]) < 0.1
    assert 0 < figures["default_all_hold_gpu_hours"] <= figures["default_all_whole_gpu_hours"]
