"""The programs in bench/, run once each by whoever reads their figures."""

import json
import math
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(path.stem for path in (ROOT / "bench").glob("*.py"))
OF_FAULTS = ("faults", "kill_matrix", "launches", "remote")
"""Those that end or cut something again and again; they are dear, and a file of their own."""

NEED_ROOT = ("cluster",)
"""Those that make network namespaces."""


@cache
def report_of(name: str) -> dict[str, Any]:
    """Return what a program prints."""
    if name in NEED_ROOT and os.getuid() != 0:
        pytest.skip("network namespaces need root")
    done = subprocess.run(
        [sys.executable, f"bench/{name}.py", "--quick", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=550, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def figures_of(name: str) -> dict[str, Any]:
    """Return the figures that a program prints."""
    figures: dict[str, Any] = report_of(name)["figures"]
    return figures


def check_report(name: str) -> None:
    """Check that a script can read what a program prints."""
    report = report_of(name)
    assert report.keys() == {"bench", "command", "figures", "machine"}
    assert report["bench"] == name
    assert report["command"] == f"python bench/{name}.py --quick --json"
    assert report["machine"]["cpus"] >= 1
    assert report["figures"]
    for figure, value in report["figures"].items():
        assert isinstance(value, int | float), figure
        assert math.isfinite(value), figure
        assert "_" in figure, "a figure's name ends in its unit"
