"""The files of a trial's run that suffice to start its server again."""

import shlex
from pathlib import Path

from sweeps.results import TrialResult

FOLDER = "launch"
PLAN_FILE = "plan.json"
SCRIPT_FILE = "serve.sh"


def launch_script(result: TrialResult) -> str:
    """Write the command of a trial as a script; further arguments are passed on."""
    word = "This host was EMULATED: no model and no GPU took part." if result.emulated else ""
    lines = [
        "#!/bin/sh",
        f"# The server of trial {result.trial}, SGLang {result.engine_version}, as it was started.",
        *([f"# {word}"] if word else []),
        "set -eu",
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted(result.env.items())),
        f'exec {shlex.join(result.argv)} "$@"',
    ]
    return "\n".join(lines) + "\n"


def launch_texts(result: TrialResult, folder: Path) -> dict[str, str]:
    """Return plan and script of a trial by their paths; empty where no server was started.

    Raises OSError for a plan that cannot be read.
    """
    if not result.argv:
        return {}
    found = {f"{FOLDER}/{SCRIPT_FILE}": launch_script(result)}
    plan = folder / PLAN_FILE
    if plan.is_file():
        found[f"{FOLDER}/{PLAN_FILE}"] = plan.read_text()
    return found
