"""The programs in bench/, run once each by whoever reads their figures.

Each is in one file of tests, so that files run beside each other. One that is in no table here is
run by `test_bench.py`: a new program cannot be forgotten.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from infra.sglang_cpu.build import build
from infra.sglang_cpu.layout import DEFAULT_ENV, DEFAULT_MODEL, EnvLayout

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(path.stem for path in (ROOT / "bench").glob("*.py"))

OF_FAULTS = ("faults", "kill_matrix", "launches")
"""Those that end or cut something again and again."""
OF_HOSTS = ("cluster", "remote")
"""Those that make network namespaces, which needs root."""
OF_SGLANG = ("exhaustive", "replay")
"""Those that start the real SGLang on a CPU, or its C++ trie."""
OF_SEARCH = ("prediction", "search")
"""Those that compute all the time."""
OTHERS = tuple(
    name for name in PROGRAMS if name not in OF_FAULTS + OF_HOSTS + OF_SGLANG + OF_SEARCH
)

LIMIT_S = 550


@cache
def report_of(name: str) -> dict[str, Any]:
    """Return what a program prints, once its own statements about its figures hold."""
    if name in OF_HOSTS and os.getuid() != 0:
        pytest.skip("network namespaces need root")
    if name in OF_SGLANG:
        build(EnvLayout(ROOT / DEFAULT_ENV), ROOT / DEFAULT_MODEL, print)
    done = subprocess.run(
        [sys.executable, f"bench/{name}.py", "--quick", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def figures_of(name: str) -> dict[str, float]:
    """Return the figures that a program prints."""
    figures: dict[str, float] = report_of(name)["figures"]
    return figures


def check_report(name: str) -> None:
    """Check that a script can read what a program prints: it checks its figures itself."""
    report = report_of(name)
    assert report.keys() == {"bench", "command", "figures", "machine"}
    assert report["bench"] == name
    assert report["command"] == f"python bench/{name}.py --quick --json"
    assert report["machine"]["cpus"] >= 1
