"""The programs in bench/, run once each by whoever reads their figures."""

import json
import math
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(path.stem for path in (ROOT / "bench").glob("*.py"))
OF_FAULTS = ("faults", "kill_matrix", "launches")
"""Those that end or cut something again and again; they are dear, and a file of their own."""

DEAR = ("cluster", "exhaustive", "overhead", "remote", "replay")
"""Those that only say here what they would measure: tests of their own run the same parts, several
hosts and both drivers in tests/e2e, cut links in tests/orchestrator/remote, the real drafter in
tests/contracts and tests/sweeps/drafting, a sweep of the real SGLang in tests/e2e."""


@cache
def report_of(name: str) -> dict[str, Any]:
    """Return what a program prints."""
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


def help_of(name: str) -> str:
    """Return what a program says of itself."""
    done = subprocess.run(
        [sys.executable, f"bench/{name}.py", "--help"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
