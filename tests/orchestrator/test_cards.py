"""What is kept of a sweep as a whole: what a space writes is read back, the rest is not lost."""

import importlib
import json
import pkgutil
from pathlib import Path

import pytest

import search_spaces
from orchestrator.cards import checked_card
from orchestrator.state import State
from sweeps.sweep import Sweep
from sweeps.workloads import Workload

SPACES = [
    module.sweep
    for found in pkgutil.iter_modules(search_spaces.__path__)
    if isinstance(
        getattr(module := importlib.import_module(f"search_spaces.{found.name}"), "sweep", None),
        Sweep,
    )
]


@pytest.mark.parametrize("sweep", SPACES, ids=lambda sweep: str(sweep.name))
def test_the_workload_of_each_space_is_read_back(sweep: Sweep) -> None:
    card = json.loads(json.dumps({"workload": sweep.workload.as_data()}))
    assert checked_card(Path("sweep.json"), card) == card
    named = Workload(prompts="code", dialect="generate", requests_per_s=0.5, concurrencies=(2, 4))
    card = json.loads(json.dumps({"workload": named.as_data()}))
    assert checked_card(Path("sweep.json"), card) == card


def test_what_is_passed_over_stays_in_the_file(tmp_path: Path) -> None:
    state = State(tmp_path)
    path = state.sweep_folder("s") / "sweep.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"workload": {"dialect": 7}, "status": "running"}))
    card = state.card("s")
    assert "workload" not in card
    state.write_card("s", {**card, "status": "finished"})
    written = json.loads(path.read_text())
    assert written["workload"] == {"dialect": 7}
    assert written["status"] == "finished"
