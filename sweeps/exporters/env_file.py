"""The recommendation as variables: for `. FILE`, and for systemd's EnvironmentFile."""

import shlex

from sweeps.exporters.launches import Launch, UnreadableExportError
from sweeps.exporters.recommendation import Recommendation, comments
from sweeps.exporters.sealed import as_comments, record
from sweeps.exporters.shell import assignments, statements

ARGUMENTS = "SGLANG_ARGS"
"""The variable that holds the options, quoted for a shell."""


def write(what: Recommendation) -> str:
    """Write the environment, and the options in one variable."""
    lines = [
        *comments(what),
        f'# Start: set -a; . FILE; eval "exec python3 -m sglang.launch_server ${ARGUMENTS}"',
        *variables(what.launch),
        *as_comments(record(what, "env")),
    ]
    return "\n".join(lines) + "\n"


def variables(launch: Launch) -> list[str]:
    """Write each variable on a line; the options come last, if there are any."""
    lines = assignments(launch)
    if launch.options:
        lines.append(f"{ARGUMENTS}={shlex.quote(shlex.join(launch.options))}")
    return lines


def read(text: str) -> Launch:
    """Read what the variables start. Raises UnreadableExportError."""
    launch = read_variables(text)
    if not launch.options:
        raise UnreadableExportError(f"{ARGUMENTS} is not set in it")
    return launch


def read_variables(text: str) -> Launch:
    """Read variables, with or without options among them. Raises UnreadableExportError."""
    found = dict(word.split("=", 1) for words in statements(text) for word in words if "=" in word)
    return Launch(tuple(shlex.split(found.pop(ARGUMENTS, ""))), found)
