"""The commands as a user types them: what they print, and how they exit."""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.cli import app
from orchestrator.state import State
from tests.attacks import attack
from tests.infra.runtime import runtime, shm
from tests.patience import GIVE_UP_S

__all__ = ["runtime", "shm"]

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
    workload=Workload(max_tokens=256, measured_prompts=4, most_measured_prompts=4,
                      cold_prompts=1, measure_s=1e6),
    # A busy machine is slow to start a server, and host seconds are short here.
    budget=Budget(trials=2, trial_s=1e6, start_s=1e6, phase_s=1e6, silence_s=1e6),
    hosts=[HostSpec(time_scale=200.0)],
    early_stopping=False,
)
"""


def _orchestrator(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", *words],
        cwd=cwd, capture_output=True, text=True, timeout=GIVE_UP_S, check=False,
        env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Typed:
    """What a command printed, and how it exited."""

    code: object
    out: str
    err: str


Type = Callable[..., Typed]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """Type commands without the second that a process takes; only `_orchestrator` starts one."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*words: str, cwd: Path = ROOT) -> Typed:
        monkeypatch.chdir(cwd)
        with pytest.raises(SystemExit) as ended:
            app(words)
        return Typed(ended.value.code, *capsys.readouterr())

    return run


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


def test_check_shows_axes_and_size(typed: Type) -> None:
    shown = typed("check", "search_spaces/ngram.py")
    assert shown.code == 0
    assert "speculative_num_draft_tokens" in shown.out
    assert "21,960,432 configurations" in shown.out
    data = json.loads(typed("check", "search_spaces/ngram.py", "--json").out)
    assert data["configurations"] == 21_960_432
    assert data["key"] in shown.out


def test_plan_starts_nothing_and_shows_commands(typed: Type) -> None:
    made = json.loads(typed("plan", "search_spaces/ngram.py", "--json").out)
    assert len(made) == 4
    assert made[0]["config"]["speculative_algorithm"] is None
    assert all(plan["argv"][1:3] == ["-m", "infra.emulated"] for plan in made)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("sweep", "no-such-file.py"), ("no-such-file.py", "no such file")),
        (("check", "bad.py"), ("bad.py", "speculative_num_draft_tokenz", "Did you mean")),
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
    typed: Type, folder: Path, words: tuple[str, ...], says: tuple[str, ...]
) -> None:
    done = typed(*words, cwd=folder)
    assert done.code == 2, done.out + done.err
    for word in says:
        assert word in done.err


def test_bad_input_ends_a_process_without_a_traceback(folder: Path) -> None:
    done = _orchestrator("sweep", "bad.py", cwd=folder)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "speculative_num_draft_tokenz" in done.stderr


def test_a_state_folder_in_use_is_refused(folder: Path) -> None:
    with State(folder / ".sweeps").lock("another-sweep"):
        for words in (("sweep", "tiny.py", "--driver", "serial"), ("clean",)):
            done = _orchestrator(*words, cwd=folder)
            assert done.returncode == 2
            assert "another-sweep" in done.stderr


def test_trials_lists_what_scripts_read(typed: Type, swept: Path) -> None:
    rows = json.loads(typed("trials", "--json", cwd=swept).out)
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
    assert "EMULATED sweep tiny-" in typed("trials", cwd=swept).out


def test_trials_as_csv_has_a_column_for_each_axis(typed: Type, swept: Path) -> None:
    lines = list(csv.DictReader(typed("trials", "--csv", cwd=swept).out.splitlines()))
    assert lines[0]["config.speculative_algorithm"] == ""
    assert [line["number"] for line in lines] == ["0", "1"]
    assert all(float(line["decode_tok_s"]) > 0 for line in lines)


def test_a_sweep_without_a_valid_trial_exits_3(typed: Type, folder: Path) -> None:
    tight = '"tp_size": 8, "mem_fraction_static": 0.1'
    (folder / "none.py").write_text(TINY.replace('"tp_size": 8', tight))
    done = _orchestrator("sweep", "none.py", "--driver", "serial", cwd=folder)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "ended early: 1 infeasible" in done.stdout
    assert "the baseline cannot run" in done.stdout
    nothing = typed("export", cwd=folder)
    assert nothing.code == 3
    assert "nothing to export" in nothing.err


def test_explain_says_what_a_trial_shows(typed: Type, swept: Path) -> None:
    shown = typed("explain", "1", cwd=swept)
    assert shown.code == 0, shown.err
    assert shown.out.startswith("EMULATED trial tiny-")
    assert "What may not be concluded" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 100
    data = json.loads(typed("explain", "best", "--json", cwd=swept).out)
    assert data["emulated"] is True


def test_export_names_the_best_and_says_emulated(typed: Type, swept: Path) -> None:
    script = typed("export", "--allow-emulated", cwd=swept)
    assert script.code == 0
    assert script.out.splitlines()[1].startswith("# EMULATED")
    assert "sglang.launch_server" in script.out
    assert "warning: its interval is provisional" in script.err
    words = ("export", "--allow-emulated", "--format", "json", "--output", "best.json")
    typed(*words, cwd=swept)
    assert json.loads((swept / "best.json").read_text())["emulated"] is True


@pytest.mark.usefixtures("runtime", "shm")
def test_clean_says_that_nothing_is_left(typed: Type, folder: Path) -> None:
    assert "Nothing was left" in typed("clean", cwd=folder).out


def test_a_trial_that_no_host_can_take_is_refused_before_anything_starts(
    typed: Type, folder: Path
) -> None:
    small = TINY.replace("HostSpec(", "HostSpec(gpus=2, ")
    assert small != TINY
    (folder / "small.py").write_text(small)
    done = typed("sweep", "small.py", "--engine", "emulated", cwd=folder)
    assert done.code == 2
    assert "more ranks than GPUs" in done.err
    assert not list(folder.glob(".sweeps/sweeps/*"))


def test_emulate_answers_help_and_refuses_flags_as_sglang_does() -> None:
    refused = _orchestrator("emulate", "--model-path", "m", "--no-such-flag", "1")
    assert refused.returncode == 2
    assert "unrecognized arguments: --no-such-flag 1" in refused.stderr


def test_check_reads_a_public_file_and_tells_what_of_it_is_not_sent(
    typed: Type, tmp_path: Path
) -> None:
    entries = [
        {"id": number, "system": "In Latin.",
         "conversations": [{"role": "user", "content": f"Say {number}."}]}
        for number in range(60)
    ]  # fmt: skip
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(one) + "\n" for one in entries))
    space = tmp_path / "space.py"
    asked = f"file:{tmp_path / 'asked.jsonl'}"
    space.write_text(TINY.replace("Workload(", f"Workload(prompts={asked!r}, "))
    shown = typed("check", str(space), "--engine", "emulated")
    assert shown.code == 0, shown.err
    assert "not sent from its file: 'id'" in shown.out
    data = json.loads(typed("check", str(space), "--engine", "emulated", "--json").out)
    assert data["unsent"] == ["id"]
    (tmp_path / "asked.jsonl").write_text(json.dumps({**entries[0], "tools": ["x"]}))
    refused = typed("check", str(space), "--engine", "emulated")
    assert refused.code == 2
    assert "`tools` changes what the model reads" in " ".join(refused.err.split())


@attack("15: what no number or text can be, in a space file")
@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ("trials=2", "trials=2, gpu_hours=float('nan')", "budget.gpu_hours = nan"),
        ("trials=2", "trials=2, stop_grace_s=-1", "budget.stop_grace_s = -1"),
        ("start_s=1e6", "start_s=float('inf')", "budget.start_s = inf"),
        ("HostSpec(", "HostSpec(gpus=-1, ", "hosts.local.gpus = -1"),
        ("some/model", "some\\0model", "model.path = 'some\\x00model'"),
    ],
)
def test_check_refuses_what_no_number_or_text_can_be(
    typed: Type, tmp_path: Path, before: str, after: str, field: str
) -> None:
    space = tmp_path / "space.py"
    assert before in TINY
    space.write_text(TINY.replace(before, after))
    for command in ("check", "plan", "sweep"):
        refused = typed(command, str(space), "--engine", "emulated")
        assert refused.code == 2
        assert field in " ".join(refused.err.split())


@attack("15: NaN and infinity as an option")
@pytest.mark.parametrize(
    "words",
    [("verify", "x.sh", "--within", "nan"), ("verify", "x.sh", "--within", "inf"),
     ("compare", "a", "b", "--within", "inf"),
     ("emulate", "--time-scale", "nan"), ("status", "--follow", "--period", "nan"),
     ("attach", "--host", "a", "--patience", "nan"), ("replay", "x", "--plain-tok-s", "nan")],
)  # fmt: skip
def test_an_option_is_a_finite_number(typed: Type, words: tuple[str, ...]) -> None:
    refused = typed(*words)
    assert refused.code == 2
    assert words[-2] in refused.err
    assert refused.out == ""
