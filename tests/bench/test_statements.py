"""A program of bench/ whose figures cannot be right fails, and says what does not hold."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.programs import ROOT

pytestmark = pytest.mark.slow

PROGRAM = """
from reporting.program import run
run(".", lambda quick: {figures}, lambda figures: {{"a is small": figures["a_s"] < 2}})
"""


def ran(folder: Path, figures: str) -> "subprocess.CompletedProcess[str]":
    """Run a program that has these figures."""
    (folder / "made.py").write_text(PROGRAM.format(figures=figures))
    paths = os.pathsep.join([str(ROOT / "bench"), str(ROOT)])
    return subprocess.run(
        [sys.executable, str(folder / "made.py"), "--json"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": paths}, timeout=60, check=False,
    )  # fmt: skip


def test_figures_of_which_all_statements_hold_are_printed(tmp_path: Path) -> None:
    done = ran(tmp_path, '{"a_s": 1, "tokens_per_step": 2.5, "b_per_s": 3}')
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["figures"] == {"a_s": 1, "tokens_per_step": 2.5, "b_per_s": 3}


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ('{"a_s": 3}', "it does not hold that a is small"),
        ('{"a_s": float("nan")}', "a_s = nan"),
        ('{"a_s": 1, "b": 2}', "b = 2"),
        ("{}", "none at all"),
    ],
)
def test_figures_that_cannot_be_right_end_a_program(
    tmp_path: Path, figures: str, told: str
) -> None:
    done = ran(tmp_path, figures)
    assert done.returncode == 1
    assert told in done.stderr
