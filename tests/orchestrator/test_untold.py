"""Ends of trials that a killed driver knew of and had told nobody."""

from pathlib import Path

import pytest

from orchestrator.files import write_json
from orchestrator.state import RESULT_FILE, State
from orchestrator.sweeping import _close_dead
from orchestrator.tracking.mlflow_writer import CARD_FILE, TOLD_FILE
from tests.orchestrator.tracking import stores
from tests.sweeps.makers import ngram, plain, result


def _ended(state: State, sweep: str) -> None:
    """Leave two results, of which the first was told."""
    state.write_card(sweep, {"name": sweep, "status": "running"})
    for number, config in enumerate((plain(), ngram(4))):
        folder = state.trial_folder(sweep, number)
        write_json(folder / RESULT_FILE, result(number, config, 80.0).as_data())
    (state.trial_folder(sweep, 0) / TOLD_FILE).touch()


def test_of_a_dead_sweep_those_are_told_that_were_not(tmp_path: Path) -> None:
    state = State(tmp_path)
    _ended(state, "dead")
    write_json(state.outbox_path("dead").with_name(CARD_FILE), {})
    _ended(state, "proof")  # the tracker is told nothing of it
    untold = _close_dead(state).untold
    assert [r.number for r in untold["dead"]] == [1]
    assert not untold["proof"]


@pytest.mark.slow
def test_a_run_that_was_closed_with_its_sweep_gets_the_end_that_it_had(tmp_path: Path) -> None:
    uri = stores.new_store(tmp_path)
    writer = stores.writer(uri, tmp_path, tmp_path / "outbox.jsonl")
    writer.sweep_started(stores.SWEEP)
    writer.trial_started(stores.card(1))
    writer.close_stale(["s1"])
    folder = tmp_path / "1"
    folder.mkdir()
    writer.trial_ended(stores.result(1, estimates={"decode_tok_s": stores.estimate(70.0)}), folder)
    assert writer.close(60.0)
    (run,) = stores.runs(uri)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["decode_tok_s"] == 70.0
    assert (folder / TOLD_FILE).exists()
