"""The series of busy runs: what has ended is not run again, and what failed is counted."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.busy import ROOT, Notes, busy_loops, summary

TESTS = """
import pytest

@pytest.fixture
def breaks():
    yield
    raise RuntimeError("too late")

def test_good(): pass
def test_bad(): assert False
def test_late(breaks): pass
"""


def test_a_series_goes_on_until_the_sources_are_others(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "busy")
    first = notes.begin("v1", 2)
    assert first.seed_of(1) != first.seed_of(2)
    notes.news(1).write_text('\n{"test": "a", "failed": false}')
    notes.end(1)
    longer = notes.begin("v1", 5)
    assert (longer.seed, longer.runs) == (first.seed, 5)
    assert notes.is_over(1)
    assert not notes.is_over(2)
    assert notes.done_before(1).read_text() == "a"
    notes.begin("v2", 2)
    assert not notes.is_over(1)
    assert notes.outcomes(1) == {}


def test_a_note_that_was_cut_off_is_no_end_and_spoils_no_other(tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    notes.news(1).write_text('\n{"test": "a", "fai\n{"test": "b", "failed": true}')
    assert notes.outcomes(1) == {"b": True}
    (tmp_path / "series.json").write_text("{")
    assert notes.begin("v1", 1).version == "v1"


def test_what_failed_in_any_run_is_told_with_its_count() -> None:
    told = summary([{"a": True, "b": False}, {"a": True, "b": True, "c": False}])
    assert told.splitlines() == [
        "failed in 2 of 2 runs: a", "failed in 1 of 2 runs: b",
        "2 runs of 2, 3 tests: 2 tests failed",
    ]  # fmt: skip


def test_the_loops_are_busy_and_end_with_the_block() -> None:
    with busy_loops(2) as pids:
        loops = [psutil.Process(pid) for pid in pids]
        assert len(loops) == 2
        while not all(loop.cpu_times().user for loop in loops):
            pass
    assert not any(loop.is_running() for loop in loops)


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "busy")
    notes.begin("v1", 1)
    (tmp_path / "test_it.py").write_text(TESTS)

    def run(*more: str) -> tuple[int, str]:
        words = [
            "-p", "tests.busy", f"--note-ends={notes.news(1)}", "-n", "2",
            f"--ended-before={notes.done_before(1)}", "-q", str(tmp_path), *more,
        ]  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    code, text = run("-k", "good or bad")
    assert code == 1, text
    code, text = run()
    assert code == 1, text
    assert "1 passed" in text  # its fixture fails after it
    ended = {test.rpartition(":")[2]: failed for test, failed in notes.outcomes(1).items()}
    assert ended == {"test_good": False, "test_bad": True, "test_late": True}
    assert run()[0] == 5
