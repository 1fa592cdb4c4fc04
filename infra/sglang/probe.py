"""Looks at an interpreter that is to run SGLang, without importing SGLang into this one."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from infra.probing.facts import Software
from infra.probing.reading import ReadError, ask

PROBE_S = 30.0
INTERPRETER_PROGRAM = Path(__file__).parents[1] / "probing/interpreter.py"
HELP_S = 120.0
"""Help imports all of SGLang, which takes minutes from a cold disk."""

_ASK = "import importlib.util as u; raise SystemExit(u.find_spec('sglang') is None)"
_INVOCATION = re.compile(r"  (-\S.*)")
_OPTION = re.compile(r"(?:^|, )--([\w-]+)")
_GAP = re.compile(r"\s{2,}")


def missing_sglang(python: str) -> str:
    """Say why an interpreter cannot start SGLang; empty if it can. Imports nothing of SGLang."""
    if not Path(python).is_file():
        return "there is no such program"
    try:
        found = subprocess.run([python, "-c", _ASK], capture_output=True, timeout=PROBE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it cannot be run: {error}"
    return "" if found.returncode == 0 else "SGLang is not installed for it"


def read_interpreter(
    python: str, env: Mapping[str, str], cwd: Path
) -> tuple[Software, tuple[str, ...]]:
    """Return what is installed, and the files that are touched when that changes.

    Raises:
        ReadError: the interpreter does not answer.
        ValueError: its answer cannot be read.
    """
    program = INTERPRETER_PROGRAM.read_text()
    answer = json.loads(ask([python, "-c", program], env, PROBE_S, cwd))
    packages = {str(name): str(version) for name, version in answer["packages"].items()}
    software = Software(
        interpreter=python,
        python_version=str(answer["python"]),
        sglang_version=packages.get("sglang", "") if answer["importable"] else "",
        packages=tuple(sorted(packages.items())),
        nccl_version=str(answer["nccl"]),
    )
    return software, tuple(str(file) for file in answer["files"])


def read_flags(python: str, module: str, env: Mapping[str, str], cwd: Path) -> tuple[str, ...]:
    """Ask a server for its help and return the flags that it lists. Raises ReadError."""
    found = flags_in(ask([python, "-m", module, "--help"], env, HELP_S, cwd))
    if not found:
        raise ReadError("its help lists no flag")
    return found


def flags_in(help_text: str) -> tuple[str, ...]:
    """Return the options of a help page of argparse, as the flag table spells them.

    Only the lines that define one count: descriptions name other options.
    """
    lines = (_INVOCATION.match(line) for line in help_text.splitlines())
    heads = [_GAP.split(line.group(1))[0] for line in lines if line]
    names = {name.replace("-", "_") for head in heads for name in _OPTION.findall(head)}
    return tuple(sorted(names - {"help"}))
