"""The programs in bench/ that end, kill and cut: nothing is left, lost, or learnt wrong."""

import pytest

from tests.bench.programs import OF_FAULTS, check_report, figures_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", OF_FAULTS)
def test_a_program_prints_finite_figures_with_their_units(name: str) -> None:
    check_report(name)


def test_nothing_is_left_whoever_dies() -> None:
    figures = figures_of("kill_matrix")
    left = {n: v for n, v in figures.items() if n.endswith(("_survivors_count", "_held_count"))}
    assert len(left) == 7 * 2 * 2
    assert set(left.values()) == {0}


def test_random_faults_lose_nothing_and_teach_nothing_wrong() -> None:
    figures = figures_of("faults")
    assert figures["faults_count"] >= 15
    assert figures["power_cuts_count"] >= 2
    wrong = ("unended", "lost", "unnamed_repeats", "wrong_states", "processes_left",
             "tracker_differences")  # fmt: skip
    assert {name: figures[f"{name}_count"] for name in wrong} == dict.fromkeys(wrong, 0)
    assert {n: figures[f"power_cut_{n}_count"] for n in wrong} == dict.fromkeys(wrong, 0)


def test_launches_leave_the_driver_as_it_was() -> None:
    figures = figures_of("launches")
    assert figures["growth_fds_count"] == figures["growth_threads_count"] == 0
    assert figures["end_runtime_entries_count"] == 0
    assert figures["growth_rss_bytes"] < 0.1 * figures["early_rss_bytes"]
    assert figures["proof_s"] < figures["launch_s"]
