"""Results with numbers that are none, as older versions wrote them, and files without a result."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import files
from orchestrator.state import State
from sweeps.results import TrialResult
from tests.orchestrator.test_cli import Type, _orchestrator, typed

__all__ = ["typed"]

pytestmark = pytest.mark.slow

SPACE = """
from sweeps import *

NGRAM = {"speculative_algorithm": "NGRAM"}
sweep = Sweep(
    name="damaged",
    model=Model("some/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 4, NGRAM),
    ],
    fixed={"tp_size": 8},
    workload=Workload(prompts="code", max_tokens=128),
    budget=Budget(trials=2),
    early_stopping=False,
)
"""
ODD = [float("nan"), float("inf"), float("-inf"), None, "fast", True]
Damage = Callable[[dict[str, Any], object], None]


def _values(data: dict[str, Any], odd: object) -> None:
    for estimate in data["estimates"].values():
        estimate["value"] = odd


def _ends(data: dict[str, Any], odd: object) -> None:
    for estimate in data["estimates"].values():
        estimate["low"] = estimate["high"] = estimate["duration_s"] = odd


def _hours(data: dict[str, Any], odd: object) -> None:
    data["gpu_hours"] = data["bound"] = data["log_accept_length"] = odd
    data["phase_s"] = dict.fromkeys(data["phase_s"], odd)
    data["start_phase_s"] = {"weights": odd}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "space.py").write_text(SPACE)
    words = ("sweep", "space.py", "--driver", "simulated", "--engine", "emulated")
    done = _orchestrator(*words, "--state-dir", "state", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def _copy(swept: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Return a state folder, and the result of its first trial."""
    state = tmp_path / "state"
    shutil.copytree(swept / "state", state)
    return state, next(state.glob("sweeps/*/trials/0000/result.json"))


@pytest.mark.parametrize("damage", [_values, _ends, _hours])
@pytest.mark.parametrize("odd", ODD, ids=str)
def test_a_number_that_is_none_is_unknown_to_every_reader(
    typed: Type, swept: Path, tmp_path: Path, damage: Damage, odd: object
) -> None:
    state, path = _copy(swept, tmp_path)
    data = json.loads(path.read_text())
    damage(data, odd)
    path.write_text(json.dumps(data))
    of_state = ("--state-dir", str(state))
    output = ("--output", str(tmp_path / "report.html"))
    assert typed("trials", "--json", *of_state).code == 0
    assert typed("explain", "0", *of_state).code == 0
    assert typed("explain", "best", *of_state).code in (0, 2)
    assert typed("report", *output, *of_state).code == 0
    assert typed("export", "--allow-emulated", *of_state).code in (0, 2)
    assert typed("status", *of_state).code in (0, 3, 4)


def test_what_is_left_out_is_said_and_costs_no_other_trial(
    typed: Type, swept: Path, tmp_path: Path
) -> None:
    state, path = _copy(swept, tmp_path)
    data = json.loads(path.read_text())
    data["estimates"]["decode_tok_s"]["value"] = float("nan")
    path.write_text(json.dumps(data))
    words = " ".join(typed("explain", "0", "--state-dir", str(state)).out.split())
    assert "no finite number for decode_tok_s: left out as unknown" in words
    done = typed("export", "--allow-emulated", "--state-dir", str(state))
    assert done.code == 0
    assert "NGRAM" in done.out  # the other trial, which has a rate


@pytest.mark.parametrize("change", [
    {"outcome": "unheard of"}, {"estimates": 7}, {"config": None}, {"estimates": {"x": {}}},
    {"gpu_hours": 10**400},
])  # fmt: skip
def test_a_file_without_a_result_is_named_and_its_spool_counts(
    typed: Type, swept: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    change: dict[str, object],
) -> None:  # fmt: skip
    state, path = _copy(swept, tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    readers = ("trials", "status", "explain best", "report", "export --allow-emulated")
    for words in map(str.split, readers):
        done = typed(*words, "--state-dir", str(state), cwd=tmp_path)
        assert done.code == 0, done.err
    (sweep_id,) = State(state).sweep_ids()
    files.name_once.cache_clear()  # it is named once in a process
    assert [type(one) for one in State(state).results(sweep_id)] == [TrialResult, TrialResult]
    assert [record.getMessage().count(str(path)) for record in caplog.records][-1:] == [1]


def test_a_sampler_without_its_package_is_refused_before_anything_starts(
    typed: Type, tmp_path: Path
) -> None:
    space = tmp_path / "space.py"
    space.write_text(SPACE.replace("early_stopping=False", 'sampler="gp"'))
    for command in ("check", "plan", "sweep"):
        done = typed(command, str(space), cwd=tmp_path)
        assert done.code == 2
        assert "sampler = gp" in done.err
        assert "torch" in done.err
    assert not (tmp_path / ".sweeps" / "sweeps").exists()
