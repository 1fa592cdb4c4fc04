"""The commands as a user types them: what they print, and how they exit."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.state import State

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

TINY = """
from sweeps import *

sweep = Sweep(
    name="tiny",
    model=Model("some/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 4, {"speculative_algorithm": "NGRAM"}),
    ],
    fixed={"tp_size": 8},
    workload=Workload(max_tokens=256, measured_prompts=4, cold_prompts=1, measure_s=900.0),
    budget=Budget(trials=2),
    hosts=[HostSpec(time_scale=200.0)],
    early_stopping=False,
)
"""


def _orchestrator(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", *words],
        cwd=cwd, capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a space file and the state of a sweep of it."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "tiny.py").write_text(TINY)
    done = _orchestrator("sweep", "tiny.py", "--driver", "serial", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "EMULATED" in done.stdout.splitlines()[0]
    assert "orchestrator export" in done.stdout
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a good and a bad space file."""
    (tmp_path / "tiny.py").write_text(TINY)
    (tmp_path / "bad.py").write_text(TINY.replace("draft_tokens", "draft_tokenz"))
    return tmp_path


def test_help_names_every_command() -> None:
    text = _orchestrator("--help").stdout
    commands = (
        "sweep",
        "check",
        "plan",
        "trials",
        "explain",
        "export",
        "verify",
        "compare",
        "ui",
        "emulate",
        "clean",
    )
    for command in commands:
        assert re.search(rf"\b{command}\b", text)


def test_light_commands_import_nothing_heavy() -> None:
    program = (
        "import sys; from orchestrator.cli import app\n"
        "try: app(['plan', 'search_spaces/ngram.py', '--json'])\n"
        "except SystemExit as e: assert not e.code, e.code\n"
        "heavy = {'ray', 'mlflow', 'optuna', 'pandas', 'scipy', 'starlette'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60,
                   stdout=subprocess.DEVNULL)  # fmt: skip


def test_check_shows_axes_and_size() -> None:
    shown = _orchestrator("check", "search_spaces/ngram.py")
    assert shown.returncode == 0
    assert "speculative_num_draft_tokens" in shown.stdout
    assert "21,960,432 configurations" in shown.stdout
    data = json.loads(_orchestrator("check", "search_spaces/ngram.py", "--json").stdout)
    assert data["configurations"] == 21_960_432
    assert data["key"] in shown.stdout


def test_plan_starts_nothing_and_shows_commands() -> None:
    made = json.loads(_orchestrator("plan", "search_spaces/ngram.py", "--json").stdout)
    assert len(made) == 4
    assert made[0]["config"]["speculative_algorithm"] is None
    assert all(plan["argv"][1:3] == ["-m", "infra.emulated"] for plan in made)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("sweep", "no-such-file.py"), ("no-such-file.py", "no such file")),
        (("check", "bad.py"), ("bad.py", "speculative_num_draft_tokenz", "Did you mean")),
        (("sweep", "bad.py"), ("bad.py", "speculative_num_draft_tokenz")),
        (("sweep", "tiny.py", "--engine", "sglang"), ("hosts.local.gpus", "emulated")),
        (("sweep", "tiny.py", "--engine", "vllm"), ("--engine", "vllm")),
        (("sweep", "tiny.py", "--resume", "--state-dir", "new"), ("--resume", "never run")),
        (("trials", "--sweep", "tiny-x"), ("--sweep", "tiny-x")),
        (("explain", "best", "--state-dir", "empty"), ("--state-dir", "no sweep")),
        (("export", "--format", "yml"), ("--format", "yml")),
        (("verify", "no-such.sh"), ("no-such.sh", "no such file")),
        (("verify", "tiny.py"), ("tiny.py", "cannot be read back")),
        (("compare", "tiny.py", "no-such.sh"), ("tiny.py", "cannot be read back")),
        (("export", "--state-dir", "empty"), ("--state-dir", "no sweep")),
        (("sweep", "tiny.py", "--state-dir", "tiny.py/x"), ("--state-dir", "cannot be written")),
        (("ui", "--state-dir", "empty"), ("--state-dir", "no sweep")),
    ],
)
def test_bad_input_is_one_error_and_exit_2(
    folder: Path, words: tuple[str, ...], says: tuple[str, ...]
) -> None:
    done = _orchestrator(*words, cwd=folder)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    for word in says:
        assert word in done.stderr


def test_a_state_folder_in_use_is_refused(folder: Path) -> None:
    with State(folder / ".sweeps").lock("another-sweep"):
        for words in (("sweep", "tiny.py", "--driver", "serial"), ("clean",)):
            done = _orchestrator(*words, cwd=folder)
            assert done.returncode == 2
            assert "another-sweep" in done.stderr


def test_trials_lists_what_scripts_read(swept: Path) -> None:
    rows = json.loads(_orchestrator("trials", "--json", cwd=swept).stdout)
    assert len(rows) == 2
    for row in rows:
        assert {
            "trial", "variant", "outcome", "reason", "config", "effective", "decode_tok_s",
            "decode_tok_s_low", "decode_tok_s_high", "accept_length", "steps_per_s", "gpu_hours",
            "emulated",
        } <= row.keys()  # fmt: skip
        assert row["emulated"] is True
        assert row["outcome"] == "measured"
        assert row["decode_tok_s"] > 0
    assert "EMULATED sweep tiny-" in _orchestrator("trials", cwd=swept).stdout


def test_trials_as_csv_has_a_column_for_each_axis(swept: Path) -> None:
    lines = list(csv.DictReader(_orchestrator("trials", "--csv", cwd=swept).stdout.splitlines()))
    assert lines[0]["config.speculative_algorithm"] == ""
    assert [line["number"] for line in lines] == ["0", "1"]
    assert all(float(line["decode_tok_s"]) > 0 for line in lines)


def test_a_sweep_without_a_valid_trial_exits_3(folder: Path) -> None:
    tight = '"tp_size": 8, "mem_fraction_static": 0.1'
    (folder / "none.py").write_text(TINY.replace('"tp_size": 8', tight))
    done = _orchestrator("sweep", "none.py", "--driver", "serial", cwd=folder)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "ended early: 1 infeasible" in done.stdout
    assert "the baseline cannot run" in done.stdout
    nothing = _orchestrator("export", cwd=folder)
    assert nothing.returncode == 3
    assert "nothing to export" in nothing.stderr


def test_explain_says_what_a_trial_shows(swept: Path) -> None:
    shown = _orchestrator("explain", "1", cwd=swept)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("EMULATED trial tiny-")
    assert "What may not be concluded" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 100
    data = json.loads(_orchestrator("explain", "best", "--json", cwd=swept).stdout)
    assert data["emulated"] is True


def test_export_names_the_best_and_says_emulated(swept: Path) -> None:
    script = _orchestrator("export", "--allow-emulated", cwd=swept)
    assert script.returncode == 0
    assert script.stdout.splitlines()[1].startswith("# EMULATED")
    assert "sglang.launch_server" in script.stdout
    assert "warning: its interval is provisional" in script.stderr
    words = ("export", "--allow-emulated", "--format", "json", "--output", "best.json")
    _orchestrator(*words, cwd=swept)
    assert json.loads((swept / "best.json").read_text())["emulated"] is True


def test_clean_says_that_nothing_is_left(folder: Path) -> None:
    assert "Nothing was left" in _orchestrator("clean", cwd=folder).stdout


def test_emulate_answers_help_and_refuses_flags_as_sglang_does() -> None:
    refused = _orchestrator("emulate", "--model-path", "m", "--no-such-flag", "1")
    assert refused.returncode == 2
    assert "unrecognized arguments: --no-such-flag 1" in refused.stderr
