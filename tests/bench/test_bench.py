"""The programs in bench/ run, and print figures that a script can read."""

import json
import math
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(path.stem for path in (ROOT / "bench").glob("*.py"))
MOST_CHECK_TO_HELP = 5.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@cache
def _report(name: str) -> dict[str, Any]:
    """Return what a program prints; each runs once."""
    done = subprocess.run(
        [sys.executable, f"bench/{name}.py", "--quick", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=550, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_finite_figures_with_their_units(name: str) -> None:
    report = _report(name)
    assert report.keys() == {"bench", "command", "figures", "machine"}
    assert report["bench"] == name
    assert report["command"] == f"python bench/{name}.py --quick --json"
    assert report["machine"]["cpus"] >= 1
    assert report["figures"]
    for figure, value in report["figures"].items():
        assert isinstance(value, int | float), figure
        assert math.isfinite(value), figure
        assert "_" in figure, "a figure's name ends in its unit"


def test_check_answers_nearly_as_fast_as_help() -> None:
    figures = _report("startup")["figures"]
    assert 1 < figures["check_s"] / figures["help_s"] < MOST_CHECK_TO_HELP
    for command in ("help", "check", "plan"):
        assert figures[f"{command}_min_s"] <= figures[f"{command}_s"]
        assert figures[f"{command}_ratio"] > 1


def test_overhead_is_the_sum_of_parts_that_all_take_time() -> None:
    figures = _report("overhead")["figures"]
    for driver in ("serial", "ray"):
        parts = [figures[f"{driver}_{part}_min_s"] for part in ("start", "stop", "driver")]
        assert min(parts) > 0
        assert sum(parts) <= figures[f"{driver}_min_s"] * 1.001
    assert figures["ray_first_trial_s"] > figures["ray_s"]


def test_the_emulated_host_tells_the_founding_story() -> None:
    figures = _report("emulator")["figures"]
    told = {n: v for n, v in figures.items() if n.endswith("_over_published_ratio")}
    assert len(told) == 8
    assert all(0.97 < ratio < 1.03 for ratio in told.values()), told
    code = {n: figures[f"ll_code_n{n}_over_plain_ratio"] for n in (2, 3, 4, 8)}
    assert max(code, key=lambda n: code[n]) == 3
    assert code[3] > 1 > code[8]
    assert max(figures[f"ll_think_n{n}_over_plain_ratio"] for n in (2, 3, 4, 8)) < 1
    assert figures["cached_token_bytes"] < 5000


def test_intervals_hold_and_a_deadline_does_not_bend_a_rate() -> None:
    figures = _report("intervals")["figures"]
    assert 0.93 <= figures["coverage_60s_blocks_ratio"] <= 0.97
    assert figures["coverage_60s_chunks_iid_ratio"] < 0.6
    assert figures["coverage_60s_tokens_iid_ratio"] < 0.6
    assert figures["width_60s_steps_ratio"] < figures["width_60s_blocks_ratio"] / 3
    assert abs(figures["bias_at_half_ours_ratio"]) < 0.01
    assert figures["bias_at_quarter_completed_only_ratio"] > 0.15
    assert figures["drift_alarm_none_ratio"] < 0.06


def test_our_client_says_what_was_sent() -> None:
    figures = _report("client")["figures"]
    cpu_ms = [figures[f"ours_cpu_per_1000_chunks{which}_ms"] for which in ("_min", "", "_max")]
    assert 0 < cpu_ms[0] <= cpu_ms[1] <= cpu_ms[2]
    assert 0.5 < figures["ours_token_over_truth_ratio"] < 2
    assert figures["fast_rate_error_ratio"] < 1
    assert 0 < figures["fast_lag_p50_ms"] <= figures["fast_lag_p99_ms"]
    assert 1 < figures["speculating_chunk_tokens"] < 8
    assert figures["speculating_accept_length_error_ratio"] < 0.03
    for what in ("rate", "tpot"):  # they are as good as the machine is free
        assert figures[f"speculating_{what}_error_ratio"] < 0.5


def test_nothing_is_left_whoever_dies() -> None:
    figures = _report("kill_matrix")["figures"]
    left = {n: v for n, v in figures.items() if n.endswith(("_survivors_count", "_held_count"))}
    assert len(left) == 7 * 2 * 2
    assert set(left.values()) == {0}


def test_random_faults_lose_nothing_and_teach_nothing_wrong() -> None:
    figures = _report("faults")["figures"]
    assert figures["faults_count"] >= 15
    assert figures["power_cuts_count"] >= 2
    wrong = ("unended", "lost", "unnamed_repeats", "wrong_states", "processes_left",
             "tracker_differences")  # fmt: skip
    assert {name: figures[f"{name}_count"] for name in wrong} == dict.fromkeys(wrong, 0)
    assert {n: figures[f"power_cut_{n}_count"] for n in wrong} == dict.fromkeys(wrong, 0)


def test_launches_leave_the_driver_as_it_was() -> None:
    figures = _report("launches")["figures"]
    assert figures["growth_fds_count"] == figures["growth_threads_count"] == 0
    assert figures["end_runtime_entries_count"] == 0
    assert figures["growth_rss_bytes"] < 0.1 * figures["early_rss_bytes"]
    assert figures["proof_s"] < figures["launch_s"]


def test_the_planner_holds_a_good_configuration_sooner_than_random_draws() -> None:
    figures = _report("search")["figures"]
    for strategy in ("ours", "random", "floor"):
        held = [figures[f"{strategy}_all_hold{which}_gpu_hours"] for which in ("_q25", "", "_q75")]
        assert 0 < held[0] <= held[1] <= held[2] <= 104
    means = [figures[f"{s}_speculation_hold_mean_gpu_hours"] for s in ("floor", "ours", "random")]
    assert means[0] < means[1] < means[2]
    assert figures["ours_plain_named_ratio"] == 1
    assert figures["ours_good_stopped_ratio"] < 0.1
    assert abs(figures["ours_gain_error_ratio"]) < 0.1
    assert figures["suggestion_after_200_trials_s"] > 0
