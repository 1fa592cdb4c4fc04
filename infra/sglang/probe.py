"""Looks at an interpreter that is to run SGLang."""

import subprocess
from pathlib import Path

PROBE_S = 30.0

_ASK = "import importlib.util as u; raise SystemExit(u.find_spec('sglang') is None)"


def missing_sglang(python: str) -> str:
    """Say why an interpreter cannot start SGLang; empty if it can. Imports nothing of SGLang."""
    if not Path(python).is_file():
        return "there is no such program"
    try:
        found = subprocess.run([python, "-c", _ASK], capture_output=True, timeout=PROBE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it cannot be run: {error}"
    return "" if found.returncode == 0 else "SGLang is not installed for it"
