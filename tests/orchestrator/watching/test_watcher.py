"""What somebody sees of a sweep who reads its folder and nothing else."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.exit_codes import DONE, INTERRUPTED, NO_TRIAL, NOT_READY, of_status
from orchestrator.files import Spool, write_json
from orchestrator.spool import (
    PHASE,
    SAMPLE,
    START_PHASE,
    TRIAL,
    SpooledSample,
    SpooledTrial,
    sample_record,
    trial_record,
)
from orchestrator.state import State
from orchestrator.watching import wording
from orchestrator.watching.spool_tail import MOST_POINTS, SpoolTail
from orchestrator.watching.sweep_status import SweepStatus
from orchestrator.watching.watcher import Watcher, what_counts
from sweeps.results import Outcome, TrialResult
from tests.sweeps.makers import SMALL, ngram, plain, result


def _write_card(state: State, **more: object) -> None:
    began = datetime.now(UTC) - timedelta(seconds=100)
    host = {"name": "local", "engine": "emulated", "time_scale": 50.0}
    card = {
        "name": "small", "status": "running", "began_at": began.isoformat(), "trials": 8,
        "emulated": True, "hosts": [host], "driver": "simulated",
        "plain": dict(SMALL.space.plain()),
    }  # fmt: skip
    state.write_card("s", {**card, **more})


def _end(state: State, ended: TrialResult) -> None:
    write_json(state.trial_folder("s", ended.number) / "result.json", ended.as_data())


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    """Return a folder with a sweep of two trials that this process drives."""
    made = State(tmp_path)
    with made.lock("a sweep of small.py"):
        _write_card(made)
        _end(made, result(0, plain(), 50.0))
        _end(made, result(1, ngram(4, NCCL_PROTO="LL"), 60.0))
        yield made


@pytest.fixture
def spool(state: State) -> Iterator[Spool]:
    """Return the spool of a third trial, which is starting."""
    made = Spool(state.trial_folder("s", 2) / "spool.jsonl")
    head = SpooledTrial("s-0002", 2, ngram(3), "search", "local", emulated=True, why="to see")
    made.append(TRIAL, trial_record(head))
    made.append(PHASE, {"phase": "starting", "at_s": 1.0})
    yield made
    made.close()


def _sample(at_s: float, tok_s: float | None = None, tokens: int = 0) -> dict[str, object]:
    made = SpooledSample(at_s, 0, tok_s, None, None, 1.5, "measuring", 40.0, tokens)
    return sample_record(made)


def test_a_sweep_is_summed_up_as_its_driver_does(state: State) -> None:
    seen = Watcher(state, "s").look()
    assert (seen.status, seen.is_running, seen.word) == ("running", True, "EMULATED ")
    assert (seen.done, seen.planned, seen.outcomes) == (2, 8, {"measured": 2})
    assert seen.leader is not None and seen.leader.name == "ngram n4 · LL"
    assert (seen.leader.value, seen.leader.low, seen.leader.high) == (60.0, 59.0, 61.0)
    assert seen.plain is not None and seen.plain.number == 0
    assert seen.gpu_hours == sum(seen.spent_gpu_hours.values()) == 1.0
    assert seen.left_s is not None and 290 < seen.left_s < 400  # 100 s for two of eight


def test_a_running_trial_is_followed_from_look_to_look(state: State, spool: Spool) -> None:
    watcher = Watcher(state, "s")
    (one,) = watcher.look().running
    assert (one.name, one.why, one.phase, one.detail) == ("ngram n3", "to see", "starting", "")
    spool.append(START_PHASE, {"phase": "weights", "at_s": 20.0})
    (one,) = watcher.look().running
    assert (one.phase, one.detail, one.elapsed_s) == ("starting", "weights", 20.0)
    spool.append(PHASE, {"phase": "measuring", "at_s": 200.0})
    spool.append(SAMPLE, _sample(210.0, 55.0, tokens=700))
    (one,) = watcher.look().running
    assert (one.phase, one.tok_s, one.tokens, one.elapsed_s) == ("measuring", 55.0, 700, 210.0)
    assert [point.tok_s for point in one.curve] == [55.0]
    _end(state, result(2, ngram(3), 55.0))
    seen = watcher.look()
    assert (seen.running, seen.done) == ((), 3)


def test_a_line_that_is_half_written_is_read_when_it_is_whole(state: State, spool: Spool) -> None:
    path = state.trial_folder("s", 2) / "spool.jsonl"
    tail = SpoolTail(path)
    tail.look()
    spool.append(SAMPLE, _sample(5.0, 10.0))
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    tail.look()
    assert tail.curve == []
    path.write_bytes(whole)
    tail.look()
    tail.look()
    assert [point.elapsed_s for point in tail.curve] == [5.0]


def test_a_long_curve_keeps_its_end_and_its_shape(state: State, spool: Spool) -> None:
    tail = SpoolTail(state.trial_folder("s", 2) / "spool.jsonl")
    for second in range(3 * MOST_POINTS):
        spool.append(SAMPLE, _sample(float(second), 10.0))
        tail.look()
    times_s = [point.elapsed_s for point in tail.curve]
    assert times_s == sorted(times_s) and len(times_s) <= MOST_POINTS
    assert times_s[0] == 0.0 and times_s[-10:] == [float(s) for s in range(710, 720)]


def test_the_clock_of_the_host_goes_on_between_two_words(state: State, spool: Spool) -> None:
    _write_card(state, driver="serial")
    path = state.trial_folder("s", 2) / "spool.jsonl"
    an_age_ago_s = path.stat().st_mtime - 10
    os.utime(path, (an_age_ago_s, an_age_ago_s))
    (one,) = Watcher(state, "s").look().running
    assert one.silent_s >= 10
    assert one.elapsed_s == pytest.approx(1.0 + 50 * one.silent_s, rel=0.01)


def test_a_sweep_whose_driver_is_gone_says_so(state: State) -> None:
    (state.root / "lock").write_text("a sweep of small.py, process 4194304\n")
    seen = Watcher(state, "s").look()
    assert (seen.status, seen.left_s) == ("died", None)


def test_looking_writes_nothing(state: State, spool: Spool) -> None:
    def stamps() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in state.root.rglob("*")}

    before = stamps()
    watcher = Watcher(state, "s")
    watcher.look()
    watcher.look()
    assert stamps() == before


def test_a_result_that_is_judged_later_is_read_again(state: State) -> None:
    watcher = Watcher(state, "s")
    watcher.look()
    _end(state, replace(result(1, ngram(4), 60.0), outcome=Outcome.FAILED, reason="broken"))
    assert [one.outcome for one in watcher.look().ended] == ["measured", "failed"]


def test_trials_that_were_set_aside_do_not_count(state: State) -> None:
    _write_card(state, aside=[1])
    seen = Watcher(state, "s").look()
    assert (seen.done, len(seen.ended), seen.gpu_hours) == (1, 1, 1.0)


def test_the_last_warnings_of_the_driver_are_shown(state: State) -> None:
    lines = [f"2026-01-01 00:00:00 {level} orchestrator.x said {n}"
             for n, level in enumerate(["INFO", "WARNING", "ERROR"] * 4)]  # fmt: skip
    (state.sweep_folder("s") / "driver.log").write_text("\n".join(lines))
    warnings = Watcher(state, "s").look().warnings
    assert len(warnings) == 5
    assert warnings[-1].endswith("ERROR orchestrator.x said 11")


def test_it_goes_through_json_and_back(state: State, spool: Spool) -> None:
    spool.append(SAMPLE, _sample(210.0, 55.0))
    seen = Watcher(state, "s").look()
    data = json.loads(json.dumps(seen.as_data(), allow_nan=False))
    assert SweepStatus.from_data(data) == seen
    with pytest.raises(ValueError, match="version 7"):
        SweepStatus.from_data({**data, "version": 7})


def test_time_alone_is_no_news(state: State, spool: Spool) -> None:
    _write_card(state, driver="serial")
    watcher = Watcher(state, "s")
    first = watcher.look()
    assert what_counts(watcher.look()) == what_counts(first)
    spool.append(PHASE, {"phase": "measuring", "at_s": 2.0})
    assert what_counts(watcher.look()) != what_counts(first)


def test_news_are_told_once(state: State, spool: Spool) -> None:
    watcher = Watcher(state, "s")
    first = watcher.look()
    told = list(wording.news(None, first))
    assert told[0] == "EMULATED sweep s on local: running"
    assert "trial   1 measured: ngram n4 · LL  60.0 ±1.0 tok/s" in told
    assert any(line.startswith("trial   2 starting, 1 s: ngram n3  (to see)") for line in told)
    assert list(wording.news(first, watcher.look())) == []
    spool.append(PHASE, {"phase": "measuring", "at_s": 2.0})
    (line,) = wording.news(first, watcher.look())
    assert line.startswith("trial   2 measuring, 2 s")


@pytest.mark.parametrize(
    ("status", "has_leader", "code"),
    [
        ("running", False, DONE), ("finished", True, DONE), ("finished", False, NO_TRIAL),
        ("interrupted", True, INTERRUPTED), ("ended early", True, NOT_READY),
        ("died", True, NOT_READY),
    ],
)  # fmt: skip
def test_the_exit_code_says_how_the_sweep_stands(status: str, has_leader: bool, code: int) -> None:
    assert of_status(status, has_leader=has_leader) == code
