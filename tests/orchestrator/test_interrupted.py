"""Trials that were cut off: what their spools say of them, to the last number."""

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.files import Spool, write_json
from orchestrator.interrupted import STOPPED, close_interrupted, close_open, interrupted_result
from orchestrator.spool import (
    PHASE,
    SAMPLE,
    TRIAL,
    SpooledSample,
    SpooledTrial,
    read_spool,
    sample_record,
    trial_record,
)
from orchestrator.state import State
from sweeps.hosts import HostSpec
from sweeps.results import Outcome, Phase, TrialResult
from tests.orchestrator.running import sweep_run
from tests.sweeps.makers import SMALL, ngram, plain, result

WHO = SpooledTrial("s1-0002", 2, ngram(4), "confirm", "gpu1", emulated=False)


def cut(
    folder: Path, phases: list[tuple[str, float]], samples: list[SpooledSample], gpus: object = 4
) -> TrialResult:
    """Return the end of a trial whose spool holds these phases and samples."""
    state = State(folder)
    hosts = [{"name": "other", "gpus": 2}, {"name": "gpu1", "gpus": gpus}]
    state.write_card("s1", {"hosts": hosts})
    place = state.trial_folder("s1", 2)
    spool = Spool(place / "spool.jsonl")
    spool.append(TRIAL, trial_record(WHO))
    for name, at_s in phases:
        spool.append(PHASE, {"phase": name, "at_s": at_s})
    for sample in samples:
        spool.append(SAMPLE, sample_record(sample))
    spool.close()
    found = interrupted_result(state, "s1", place)
    assert found is not None
    return found


def at(elapsed_s: float, tok_s: float | None, accept_length: float | None = 1.5) -> SpooledSample:
    low, high = (None, None) if tok_s is None else (tok_s - 2, tok_s + 3)
    return SpooledSample(elapsed_s, 0, tok_s, low, high, accept_length)


def test_a_trial_that_was_cut_off_has_the_rate_so_far_and_its_hours(tmp_path: Path) -> None:
    phases = [("starting", 10.0), ("warming", 60.0), ("measuring", 100.0)]
    # The last word is of no rate: the one before it stands.
    end = cut(tmp_path, phases, [at(110.0, 20.0), at(400.0, 21.0), at(450.0, None, None)])
    assert (end.outcome, end.phase, end.purpose) == (Outcome.CANCELLED, Phase.MEASURING, "confirm")
    assert (end.emulated, end.host, end.config) == (False, "gpu1", ngram(4))
    assert end.phase_s == {"admitted": 10, "starting": 50, "warming": 40, "measuring": 350}
    assert end.gpu_hours == pytest.approx(4 * 450 / 3600)
    rate, length = end.estimates["decode_tok_s"], end.estimates["accept_length"]
    assert (rate.value, rate.low, rate.high) == (21.0, 19.0, 24.0)
    assert (length.value, length.low, length.high) == (1.5, None, None)
    assert rate.duration_s == length.duration_s == 300.0
    assert rate.provisional
    assert length.provisional


def test_a_phase_that_comes_twice_is_summed_up_and_may_be_the_last_word(tmp_path: Path) -> None:
    phases = [("starting", 10.0), ("loaded pass", 30.0), ("measuring", 40.0), ("loaded pass", 70.0)]
    end = cut(tmp_path, phases, [at(50.0, None)])
    assert end.phase_s == {"admitted": 10, "starting": 20, "loaded pass": 10, "measuring": 30}
    assert (end.phase, end.estimates) == (Phase.LOADED, {})
    assert end.gpu_hours == pytest.approx(4 * 70 / 3600)


def test_a_trial_that_was_cut_off_before_its_first_phase_has_spent_nothing(tmp_path: Path) -> None:
    end = cut(tmp_path, [], [])
    assert (end.phase, end.phase_s, end.gpu_hours) == (Phase.ADMITTED, {"admitted": 0.0}, 0.0)
    assert end.estimates == {}


def test_a_rate_without_an_accept_length_and_before_its_phase_was_told(tmp_path: Path) -> None:
    end = cut(tmp_path, [("starting", 10.0)], [at(30.0, 20.0, None)])
    assert end.estimates.keys() == {"decode_tok_s"}
    assert end.estimates["decode_tok_s"].duration_s == 30.0


def test_a_host_that_no_card_names_costs_its_own_hours(tmp_path: Path) -> None:
    end = cut(tmp_path, [("starting", 3600.0)], [])
    assert end.gpu_hours == 4.0
    State(tmp_path).write_card("s1", {"hosts": "none"})
    again = interrupted_result(State(tmp_path), "s1", State(tmp_path).trial_folder("s1", 2))
    assert again is not None
    assert again.gpu_hours == 1.0


def test_open_trials_are_told_as_their_folders_have_them(tmp_path: Path) -> None:
    run, state = sweep_run(SMALL, tmp_path), State(tmp_path)
    hosts = [HostSpec(name=name) for name in ("one", "two", "three")]
    jobs = [run.next_job(host) for host in hosts]
    ended, begun, never = (job for job in jobs if job is not None)
    made_up = result(ended.number, ended.config, 50.0)
    whole = replace(made_up, trial=ended.trial, sweep=run.sweep_id)
    write_json(ended.result_path, whole.as_data())
    spool = Spool(begun.spool_path)
    who = SpooledTrial(begun.trial, begun.number, begun.config, "search", "two", True)
    spool.append(TRIAL, trial_record(who))
    spool.append(PHASE, {"phase": "starting", "at_s": 5.0})
    spool.close()
    close_open(run, state)
    assert run.open_jobs == []
    by_number = {one.number: one for one in run.results}
    assert by_number[ended.number] == whole
    for job, phase in ((begun, Phase.STARTING), (never, Phase.ADMITTED)):
        made = by_number[job.number]
        assert (made.outcome, made.reason, made.phase) == (Outcome.CANCELLED, STOPPED, phase)
        assert made.config == job.config
    assert {one.number: one for one in state.results(run.sweep_id)} == by_number
    assert close_interrupted(state, run.sweep_id) == []


@pytest.mark.parametrize(
    ("record", "wrong", "read"),
    [
        ("number", True, 0), ("number", "2", 0), ("number", 2.5, 0),
        ("retry_of", True, None), ("retry_of", "1", None), ("retry_of", 0, 0),
        ("emulated", 1, False), ("emulated", "yes", False), ("why", 5, "5"),
    ],
)  # fmt: skip
def test_a_field_of_another_kind_is_read_as_none_at_all(
    tmp_path: Path, record: str, wrong: object, read: object
) -> None:
    spool = Spool(tmp_path / "spool.jsonl")
    spool.append(TRIAL, {**trial_record(WHO), record: wrong})
    spool.append(TRIAL, trial_record(SpooledTrial("later", 9, plain(), "search", "x", True)))
    spool.append(SAMPLE, {"elapsed_s": "soon", "at_ms": "now", "tokens": 0, "low": 1, "high": "x"})
    spool.append("request", {"phase": "measuring", "end": "finished", "output_tokens": 7.5})
    spool.close()
    reading = read_spool(tmp_path / "spool.jsonl")
    assert reading.trial is not None
    assert reading.trial.trial == WHO.trial, "the first says who it is"
    assert getattr(reading.trial, record) == read
    assert type(getattr(reading.trial, record)) is type(read)
    (sample,) = reading.samples()
    assert sample == SpooledSample(0.0, 0, None, 1.0, None, None, tokens=0)
    (request,) = reading.requests()
    assert (request.output_tokens, request.detail) == (0, "")


def test_a_host_whose_card_says_no_gpus_costs_its_own_hours(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert cut(tmp_path, [("starting", 3600.0)], []).gpu_hours == 4.0
    state.write_card("s1", {"hosts": [{"name": "gpu1"}]})
    again = interrupted_result(state, "s1", state.trial_folder("s1", 2))
    assert again is not None
    assert again.gpu_hours == 1.0
