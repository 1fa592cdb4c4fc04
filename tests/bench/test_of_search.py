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


def test_the_planner_holds_a_good_configuration_sooner_than_random_draws() -> None:
    figures = figures_of("search")
    for strategy in ("ours", "random", "floor"):
        held = [figures[f"{strategy}_all_hold{which}_gpu_hours"] for which in ("_q25", "", "_q75")]
        assert 0 < held[0] <= held[1] <= held[2] <= 104
    means = [figures[f"{s}_speculation_hold_mean_gpu_hours"] for s in ("floor", "ours", "random")]
    assert means[0] < means[1] < means[2]
    assert figures["ours_plain_named_ratio"] == 1
    assert figures["ours_good_stopped_ratio"] < 0.1
    assert abs(figures["ours_gain_error_ratio"]) < 0.1
    assert figures["suggestion_after_200_trials_s"] > 0
