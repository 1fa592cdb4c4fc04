"""The programs in bench/ run, and print figures that a script can read."""

import pytest

from tests.bench.programs import DEAR, OF_FAULTS, PROGRAMS, check_report, figures_of, help_of

MOST_CHECK_TO_HELP = 5.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in (*OF_FAULTS, *DEAR)])
def test_a_program_prints_finite_figures_with_their_units(name: str) -> None:
    check_report(name)


@pytest.mark.parametrize("name", DEAR)
def test_a_dear_program_says_what_it_would_measure(name: str) -> None:
    assert "--quick" in help_of(name)


def test_check_answers_nearly_as_fast_as_help() -> None:
    figures = figures_of("startup")
    assert 1 < figures["check_s"] / figures["help_s"] < MOST_CHECK_TO_HELP
    for command in ("help", "check", "plan"):
        assert figures[f"{command}_min_s"] <= figures[f"{command}_s"]
        assert figures[f"{command}_ratio"] > 1


def test_the_emulated_host_tells_the_founding_story() -> None:
    figures = figures_of("emulator")
    told = {n: v for n, v in figures.items() if n.endswith("_over_published_ratio")}
    assert len(told) == 8
    assert all(0.97 < ratio < 1.03 for ratio in told.values()), told
    code = {n: figures[f"ll_code_n{n}_over_plain_ratio"] for n in (2, 3, 4, 8)}
    assert max(code, key=lambda n: code[n]) == 3
    assert code[3] > 1 > code[8]
    assert max(figures[f"ll_think_n{n}_over_plain_ratio"] for n in (2, 3, 4, 8)) < 1
    assert figures["cached_token_bytes"] < 5000


def test_intervals_hold_and_a_deadline_does_not_bend_a_rate() -> None:
    figures = figures_of("intervals")
    assert 0.93 <= figures["coverage_60s_blocks_ratio"] <= 0.97
    assert figures["coverage_60s_chunks_iid_ratio"] < 0.6
    assert figures["coverage_60s_tokens_iid_ratio"] < 0.6
    assert figures["width_60s_steps_ratio"] < figures["width_60s_blocks_ratio"] / 3
    assert abs(figures["bias_at_half_ours_ratio"]) < 0.01
    assert figures["bias_at_quarter_completed_only_ratio"] > 0.15
    assert figures["drift_alarm_none_ratio"] < 0.06


def test_our_client_says_what_was_sent() -> None:
    figures = figures_of("client")
    cpu_ms = [figures[f"ours_cpu_per_1000_chunks{which}_ms"] for which in ("_min", "", "_max")]
    assert 0 < cpu_ms[0] <= cpu_ms[1] <= cpu_ms[2]
    assert 0.5 < figures["ours_token_over_truth_ratio"] < 2
    assert figures["fast_rate_error_ratio"] < 1
    assert 0 < figures["fast_lag_p50_ms"] <= figures["fast_lag_p99_ms"]
    several = {name: ratio for name, ratio in figures.items() if name.startswith("several_")}
    assert len(several) == 4
    assert all(ratio < 0.05 for ratio in several.values()), several  # 0.2 % on a free machine
    assert 1 < figures["speculating_chunk_tokens"] < 8
    assert figures["speculating_accept_length_error_ratio"] < 0.03
    for what in ("rate", "tpot"):  # they are as good as the machine is free
        assert figures[f"speculating_{what}_error_ratio"] < 0.5


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


def test_decisions_do_not_grow_with_trials_and_hosts() -> None:
    figures = figures_of("scheduling")
    assert figures["random_trials_count"] >= 400
    for what in ("decide", "progress", "take"):
        assert figures[f"random_{what}_late_ms"] < 4 * figures[f"random_{what}_ms"] + 1
        assert figures[f"random_{what}_ms"] < 50
    assert figures["memory_peak_bytes"] < 2e9


def test_a_load_is_alike_in_both_orders_of_a_ladder_or_the_trial_tells() -> None:
    figures = figures_of("ladder")
    loads = [name.removesuffix("_told_count") for name in figures if name.endswith("_told_count")]
    assert len(loads) == 2
    for load in loads:
        told = figures[f"{load}_told_count"]
        assert told or figures[f"{load}_accept_order_ratio"] < 0.02
        assert told or figures[f"{load}_order_ratio"] < 0.04  # a step differs from the next
