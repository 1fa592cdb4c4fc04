"""The report by the command a user types, from state folders of all kinds."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import orchestrator
from orchestrator.cli import app
from orchestrator.clocks import clock_scales
from orchestrator.files import Spool, write_json
from orchestrator.state import State
from sweeps.problems import BadInputError
from sweeps.results import Outcome, TrialResult
from sweeps.workloads import Workload
from tests.sweeps.makers import estimate, ngram, plain, result

RESULTS = [
    result(0, plain(NCCL_MIN_NCHANNELS=None), 80, purpose="baseline"),
    result(1, ngram(3, NCCL_MIN_NCHANNELS=4), 100),
]


def _state(tmp_path: Path, results: list[TrialResult]) -> Path:
    state = State(tmp_path / "state")
    for each in results:
        write_json(state.trial_folder("t", each.number) / "result.json", each.as_data())
    hosts = [{"name": "local", "engine": "emulated", "time_scale": 50.0}]
    card = {"workload": Workload().as_data(), "status": "finished", "hosts": hosts}
    state.write_card("t", {"objective": "decode_tok_s", **card})
    return state.root


def _run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_report_is_one_file_and_its_place_is_told(tmp_path: Path) -> None:
    made = tmp_path / "page.html"
    ended = _run("report", "--state-dir", _state(tmp_path, RESULTS), "--output", made)
    assert ended.exit_code == 0
    assert str(made) in ended.stdout
    assert made.read_text().startswith("<!DOCTYPE html>")
    assert {path.name for path in tmp_path.iterdir()} == {"state", "page.html"}


def test_markdown_goes_to_the_screen(tmp_path: Path) -> None:
    ended = _run("report", "--state-dir", _state(tmp_path, RESULTS), "--format", "markdown")
    assert ended.exit_code == 0
    assert ended.stdout.startswith("# EMULATED Sweep t")


def test_curves_come_from_the_requests_of_the_spool(tmp_path: Path) -> None:
    warm = {"accept_length": estimate(1.5), "accept_length_cold": estimate(1.3)}
    best = replace(RESULTS[1], estimates={**RESULTS[1].estimates, **warm})
    root = _state(tmp_path, [RESULTS[0], best])
    spool = Spool(State(root).trial_folder("t", 1) / "spool.jsonl")
    for phase, end, steps in [
        ("cold pass", "finished", 80),
        ("measuring", "finished", 60),
        ("measuring", "deadline", None),
        ("step probe", "finished", 50),
    ]:
        told: dict[str, object] = {
            "phase": phase,
            "end": end,
            "verify_steps": steps,
            "output_tokens": 101,
        }
        spool.append("request", told)
    spool.close()
    made = tmp_path / "page.html"
    assert _run("report", "--state-dir", root, "--output", made).exit_code == 0
    text = made.read_text()
    assert "trial 1, cold pass: 1.25 after 101" in text
    assert "trial 1, measuring: 1.67 after 202" in text
    assert "after 303" not in text


def test_an_unknown_sweep_is_bad_input_with_the_nearest(tmp_path: Path) -> None:
    ended = _run("report", "--state-dir", _state(tmp_path, RESULTS), "--sweep", "tt")
    assert ended.exit_code == 2
    assert "no such sweep" in ended.stderr


def test_an_unknown_format_is_bad_input(tmp_path: Path) -> None:
    root = _state(tmp_path, RESULTS)
    ended = _run("report", "--state-dir", root, "--format", "markdow", "--output", tmp_path / "x")
    assert ended.exit_code == 2
    assert "markdown" in ended.stderr
    assert not (tmp_path / "x").exists()


def test_a_place_that_cannot_be_written_is_bad_input(tmp_path: Path) -> None:
    root = _state(tmp_path, RESULTS)
    (tmp_path / "file").touch()
    for option, command in (("--output", "report"), ("--parquet", "trials")):
        ended = _run(command, "--state-dir", root, option, tmp_path / "file" / "x")
        assert ended.exit_code == 2
        assert "cannot be written" in ended.stderr


def test_without_a_valid_trial_the_page_is_made_and_the_exit_code_says_so(tmp_path: Path) -> None:
    failed = replace(
        result(0, plain(), outcome=Outcome.INFEASIBLE), signature="oom_load", reason="no room"
    )
    made = tmp_path / "page.html"
    ended = _run("report", "--state-dir", _state(tmp_path, [failed]), "--output", made)
    assert ended.exit_code == 3
    assert "nothing is recommended" in ended.stderr
    assert 'id="failures"' in made.read_text()


def test_a_simulated_clock_says_nothing_of_idle_time() -> None:
    hosts = [{"name": "a", "engine": "emulated", "time_scale": 50}, {"name": "b"}]
    assert clock_scales({"hosts": hosts, "driver": "ray"}) == {"a": 50.0, "b": 1.0}
    assert clock_scales({"hosts": hosts, "driver": "simulated"}) == {"a": None, "b": None}


def test_a_notebook_gets_typed_columns_with_units(tmp_path: Path) -> None:
    frame = orchestrator.load("t", _state(tmp_path, RESULTS))
    assert list(frame["decode_tok_s"]) == [80, 100]
    assert frame.attrs["units"]["decode_tok_s_low"] == "tok/s"
    assert frame["config.NCCL_MIN_NCHANNELS"].isna().tolist() == [True, False]
    assert str(frame.dtypes["config.NCCL_MIN_NCHANNELS"]) == "Int64"
    assert frame["emulated"].all()
    assert str(frame.dtypes["started_at"]).startswith("datetime64")


def test_loading_twice_still_works_after_the_load_client_is_imported(tmp_path: Path) -> None:
    import orchestrator.load_client.client  # a module of the same name would hide it

    assert len(orchestrator.load(state_dir=_state(tmp_path, RESULTS))) == 2


def test_a_notebook_is_told_of_an_unknown_sweep(tmp_path: Path) -> None:
    with pytest.raises(BadInputError):
        orchestrator.load("nothing", _state(tmp_path, RESULTS))


def test_parquet_keeps_settings_of_several_types_and_an_empty_sweep(tmp_path: Path) -> None:
    import pandas as pd  # slow to import, and one worker's tests need it

    one, other = RESULTS
    mixed = [
        replace(one, effective={"page_size": 1}),
        replace(other, effective={"page_size": "auto"}),
    ]
    made = tmp_path / "trials.parquet"
    assert _run("trials", "--state-dir", _state(tmp_path, mixed), "--parquet", made).exit_code == 0
    frame = pd.read_parquet(made)
    assert list(frame["effective.page_size"]) == ["1", "auto"]
    none = _run("trials", "--state-dir", tmp_path / "empty", "--parquet", made)
    assert none.exit_code == 0
    assert pd.read_parquet(made).empty
