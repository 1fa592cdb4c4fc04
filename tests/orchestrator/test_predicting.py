"""`predict` from the command line: a recorded log, a profile, and what is refused."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli import app

SPACE = """
from sweeps import Choice, IntRange, Model, Sweep

NGRAM = {"speculative_algorithm": "NGRAM"}
sweep = Sweep(
    name="small",
    model=Model("org/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        Choice("speculative_num_draft_tokens", [2, 4, 8], NGRAM),
    ],
    fixed={"tp_size": 8},
)
"""
LINE = {"prompt_ids": [9, 8], "output_ids": [*range(10, 40), *range(10, 40), *range(50, 90)]}


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "small.py"
    path.write_text(SPACE)
    return path


def run(*arguments: object) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["predict", *map(str, arguments), "--engine", "emulated"])
    return found.exit_code, found.output


def test_a_log_and_a_profile_give_a_prior_before_any_trial(space: Path, tmp_path: Path) -> None:
    log, profile = tmp_path / "log.jsonl", tmp_path / "host.toml"
    log.write_text("\n".join([json.dumps(LINE)] * 3))
    profile.write_text("plain_tok_s = 82\n[verify]\n8 = 2.6\n")
    state = tmp_path / "state"
    options = (space, "--recording", log, "--profile", profile, "--state-dir", state)
    code, text = run(*options)
    assert code == 0, text
    assert "EMULATED host, a prior, before any trial" in text
    assert "NGRAM with 8 draft tokens" in text
    code, text = run(*options, "--json")
    data = json.loads(text)
    assert data["prior"] is True
    widths = {row["config"].get("speculative_num_draft_tokens") for row in data["rows"]}
    assert {2, 4, 8} <= widths
    assert not (state / "sweeps").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no completion"),
        ("{", "line 1"),
        ("[1]", "no completion has two tokens"),
        ('{"prompt": "x"}', "neither"),
    ],
)
def test_a_log_that_cannot_be_read_is_refused(
    space: Path, tmp_path: Path, content: str, said: str
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(content)
    code, text = run(space, "--recording", log, "--state-dir", tmp_path / "state")
    assert code == 2
    assert said in text


def test_a_profile_that_cannot_be_read_is_refused(space: Path, tmp_path: Path) -> None:
    profile = tmp_path / "host.toml"
    profile.write_text("plain_step_ms = -3\n")
    code, text = run(space, "--profile", profile, "--state-dir", tmp_path / "state")
    assert code == 2
    assert "plain_step_ms" in text
    code, text = run(space, "--profile", tmp_path / "none.toml")
    assert code == 2


def test_texts_count_where_there_are_no_ids(space: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    text = "the quick brown fox jumps over the lazy dog. " * 30
    log.write_text(json.dumps({"prompt": "say it", "completion": text}))
    code, said = run(space, "--recording", log, "--state-dir", tmp_path / "state", "--json")
    assert code == 0, said
    accepts = [row["accept"]["value"] for row in json.loads(said)["rows"]]
    assert max(accepts) > 3
