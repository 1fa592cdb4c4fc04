"""One spoilt file of a state folder costs what it held, and stops no command."""

import contextlib
import json
import os
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestrator import files, simulation
from orchestrator.cli import app
from orchestrator.search.given import GivenSearch, GivenTrial
from orchestrator.state import State
from orchestrator.sweep_run import Attendants, SweepRun
from orchestrator.tracking.jsonl import JsonlTracker
from sweeps.hosts import EngineName, HostSpec
from sweeps.search.steps import Purpose
from sweeps.workloads import Workload
from tests.attacks import attack
from tests.sweeps.makers import SMALL, ngram, plain

pytestmark = pytest.mark.slow

HOST = HostSpec(engine=EngineName.EMULATED, version="0.5.23")
LOAD = Workload(measured_prompts=4, most_measured_prompts=4,
                cold_prompts=1, max_tokens=48, probe_s=5.0, probe_tokens=256,
                warming_prompts=2, warming_passes=1)  # fmt: skip
SWEEP = replace(SMALL, workload=LOAD, hosts=[HOST], early_stopping=False, fixed={"tp_size": 8})
COMMANDS = (["trials"], ["trials", "--json"], ["status"], ["report"], ["explain", "best"],
            ["export", "--allow-emulated"])  # fmt: skip
DEEP = ("[" * 100_000, '{"a":' * 100_000)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the state folder of two simulated sweeps."""
    state = State(tmp_path_factory.mktemp("bad-files") / "state")
    for name in ("first", "second"):
        trials = [GivenTrial("", plain(), Purpose.BASELINE), GivenTrial("", ngram(4))]
        tracker = Attendants(JsonlTracker(state.root / "events.jsonl"), [])
        simulation.drive(SweepRun(name, SWEEP, state, GivenSearch(trials), tracker))
        state.write_card(name, {
            "name": "small", "objective": "decode_tok_s", "workload": LOAD.as_data(),
            "hosts": [HOST.as_data()], "budget": asdict(SWEEP.budget), "zone_fraction": 0.01,
            "limits": [], "also": [], "trials": 2, "done_before": 0, "aside": [],
            "status": "finished", "created_at": "2026-01-01", "emulated": True, "trouble": "",
            "collapsed": 0, "claim": None, "configurations": 4,
        })  # fmt: skip
    return state.root


@pytest.fixture
def state(swept: Path, tmp_path: Path) -> State:
    shutil.copytree(swept, tmp_path / "state")
    files.name_once.cache_clear()
    return State(tmp_path / "state")


def _newest(state: State) -> Path:
    return state.sweep_folder(state.sweep_ids()[-1])


def _all_commands_end(state: State, *some: list[str]) -> None:
    for words in some or COMMANDS:
        with contextlib.chdir(state.root.parent):  # a report is written where the command is typed
            done = CliRunner().invoke(app, [*words, "--state-dir", str(state.root)])
        fault = done.exception
        assert fault is None or isinstance(fault, SystemExit), (words, done.output, fault)


def _spoil(path: Path, **changes: Any) -> None:
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, **changes}))


RESULTS: list[Any] = [
    "{}", "[]", "3", "", "no JSON", *DEEP, b"\xff\xfe\x00", 0,
    {"outcome": "splendid"}, {"phase": "lunch"}, {"quality": "fine"}, {"number": "x"},
    {"estimates": []}, {"estimates": {"decode_tok_s": {}}}, {"config": [1]},
    {"estimates": {"decode_tok_s": {"value": "x", "low": 1, "high": 2, "duration_s": 1,
                                    "method": "m", "provisional": False}}},
    {"config": {"a": {"b": 1}}}, {"gpu_hours": "many"},
    {"gpu_hours": 10**400}, {"phase_s": {"starting": "x"}}, {"phase_s": []}, {"env": {"A": 1}},
    {"argv": [1]}, {"notes": [1]}, {"host": 5}, {"emulated": "yes"}, {"effective": 3},
]  # fmt: skip


@attack("14: a result file that is empty, deep, or of unknown outcomes")
@pytest.mark.parametrize("spoilt", RESULTS, ids=lambda one: str(one)[:30])
def test_a_spoilt_result_is_passed_over_for_its_spool(
    state: State, spoilt: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path = _newest(state) / "trials/0001/result.json"
    before = state.results(state.sweep_ids()[-1])
    if isinstance(spoilt, dict):
        _spoil(path, **spoilt)
    elif spoilt == 0:
        path.unlink()
        os.mkfifo(path)
    else:
        path.write_bytes(spoilt if isinstance(spoilt, bytes) else spoilt.encode())
    files.name_once.cache_clear()
    found = state.results(state.sweep_ids()[-1])
    told = [[(result.trial, result.estimates) for result in each] for each in (found, before)]
    assert told[0] == told[1]  # by its spool
    named = [record for record in caplog.records if str(path) in record.getMessage()]
    assert len(named) <= 1
    assert named or not isinstance(spoilt, dict)
    _all_commands_end(state, ["trials"], ["status"])


def test_without_a_spool_only_that_trial_is_lost(state: State) -> None:
    sweep, folder = state.sweep_ids()[-1], _newest(state) / "trials/0001"
    before = state.results(sweep)
    (folder / "result.json").write_text("{}")
    (folder / "spool.jsonl").write_bytes(b"\xff" * 100 + b"\n" + b'{"kind": "result"}\n')
    assert state.results(sweep) == [result for result in before if result.number != 1]
    assert state.results(state.sweep_ids()[0])
    _all_commands_end(state)


CARDS: list[Any] = [
    "{}", *DEEP, {"objective": 5}, {"objective": "no_metric"}, {"limits": [{}]}, {"limits": [3]},
    {"limits": [{"metric": "ttft_p90_ms", "most": "y"}]}, {"workload": []},
    {"workload": {"concurrencies": 5}}, {"hosts": {}}, {"hosts": [3]}, {"hosts": [{"name": "a"}]},
    {"budget": 3}, {"zone_fraction": "x"}, {"claim": {"a": 1}}, {"claim": [1]}, {"collapsed": "x"},
    {"place": "x"}, {"aside": [[1]]}, {"trials": "x"}, {"also": ["zz"]}, {"created_at": 5},
    {"status": [1]}, {"emulated": "x"}, {"done_before": "x"}, {"name": {}}, {"trouble": 5},
]  # fmt: skip


@attack("14: a spoilt card of a sweep")
@pytest.mark.parametrize("spoilt", CARDS, ids=lambda one: str(one)[:40])
def test_a_spoilt_card_stops_no_command(state: State, spoilt: Any) -> None:
    path = _newest(state) / "sweep.json"
    if isinstance(spoilt, dict):
        _spoil(path, **spoilt)
    else:
        path.write_text(spoilt)
    _all_commands_end(state, ["status"], ["report"], ["export", "--allow-emulated"])


def test_a_card_that_is_sound_is_kept_whole(state: State) -> None:
    card = json.loads((_newest(state) / "sweep.json").read_text())
    assert state.card(state.sweep_ids()[-1]) == card


@attack("14: a file too large to read")
def test_a_large_file_is_named_and_not_read(
    state: State, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 10)
    path = _newest(state) / "sweep.json"
    assert files.read_json(path) is None
    assert f"{path}: it has more than 10 bytes" in caplog.text
