"""Exports: each format names the winner and its command, and says when it is emulated."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.exporters import EXPORTERS
from sweeps.exporters.recommendation import Recommendation, recommend
from sweeps.ranking import rank
from sweeps.results import TrialResult
from tests.sweeps.makers import ngram, plain, result, with_argv

EMULATED = ("/venv/bin/python", "-m", "infra.emulated")
REAL = ("/other venv/bin/python", "-m", "sglang.launch_server")
OPTIONS = ("--model-path", "it's/a model", "--trust-remote-code", "--host", "127.0.0.1",
           "--port", "31007", "--tp-size", "8")  # fmt: skip


def _recommendation(*, emulated: bool) -> Recommendation:
    program = EMULATED if emulated else REAL
    winner = with_argv(result(1, ngram(4), 120), *program, *OPTIONS,
                       NCCL_PROTO="LL", EMULATED_TRUTH="M")  # fmt: skip
    results = [
        replace(result(0, plain(), 80, purpose="baseline"), emulated=emulated),
        replace(winner, emulated=emulated),
    ]
    return recommend(rank(results, "decode_tok_s", higher_is_better=True), results,
                     "decode_tok_s", "tok/s")  # fmt: skip


@pytest.mark.parametrize("form", EXPORTERS)
@pytest.mark.parametrize("emulated", [True, False])
def test_names_the_winner_and_only_then_emulated(form: str, emulated: bool) -> None:
    text = EXPORTERS[form](_recommendation(emulated=emulated))
    assert "NGRAM" in text
    assert "t-0001" in text
    assert "120.0" in text
    assert "1.50 x" in text
    assert ("EMULATED" in text) == emulated
    assert "31007" not in text
    assert "EMULATED_TRUTH" not in text
    assert "infra.emulated" not in text


def test_json_holds_a_command_that_can_be_run() -> None:
    data = json.loads(EXPORTERS["json"](_recommendation(emulated=False)))
    assert data["argv"] == [*REAL, "--model-path", "it's/a model", "--trust-remote-code",
                            "--tp-size", "8"]  # fmt: skip
    assert data["env"] == {"NCCL_PROTO": "LL"}
    assert data["value"] == 120


def test_the_script_passes_words_and_environment_on_unharmed(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(EXPORTERS["sh"](_recommendation(emulated=False)))
    show = tmp_path / "show"
    show.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\necho "$NCCL_PROTO"\n')
    show.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "PYTHON": str(show), "PORT": "40000"}
    done = subprocess.run(
        ["/bin/sh", str(script), "--extra", "two words"],
        env=env, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "-m", "sglang.launch_server", "--model-path", "it's/a model", "--trust-remote-code",
        "--tp-size", "8", "--host", "127.0.0.1", "--port", "40000", "--extra", "two words", "LL",
    ]  # fmt: skip


def test_nothing_measured_cannot_be_recommended() -> None:
    nothing: list[TrialResult] = []
    with pytest.raises(LookupError):
        recommend(rank(nothing, "decode_tok_s", higher_is_better=True), nothing,
                  "decode_tok_s", "tok/s")  # fmt: skip


def test_a_result_survives_its_file_form() -> None:
    made = with_argv(result(1, ngram(4), 120), "python", "-m", "x", A="b")
    assert TrialResult.from_data(json.loads(json.dumps(made.as_data()))) == made
