"""The recommendation as variables: for `. FILE`, and for systemd's EnvironmentFile."""

import shlex

from sweeps.exporters.launches import MODULE, Launch, Reading, UnreadableExportError
from sweeps.exporters.recommendation import Recommendation, comments
from sweeps.exporters.sealed import as_comments, record
from sweeps.exporters.server_command import read_command
from sweeps.exporters.shell import Shell, assignments
from sweeps.exporters.shell_words import statements, value_of

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


def read(text: str) -> Reading:
    """Read what the variables start. Raises UnreadableExportError."""
    found = read_variables(text)
    if not found.launch.options and not found.unknown:
        raise UnreadableExportError(f"{ARGUMENTS} is not set in it")
    return found


def read_variables(text: str) -> Reading:
    """Read variables, with or without options among them. Raises UnreadableExportError."""
    # For systemd too, which replaces nothing and runs nothing.
    shell = Shell(exports_all=True, expands=False)
    for statement in statements(text):
        if statement.words or statement.redirections:
            raise UnreadableExportError(f"`{statement.text}` is no variable")
        shell.run(statement)
    env = shell.environment
    options = env.pop(ARGUMENTS, "")
    if not isinstance(options, str):
        raise UnreadableExportError(f"{ARGUMENTS} is {options.text}: only its place knows that")
    read = read_command(["python3", "-m", MODULE, *_words(options)], env, *shell.beyond)
    return Reading(read.launch, "", None, read.unknown, read.beyond)


def _words(text: str) -> list[str]:
    """Split options as the shell does that starts the server with them."""
    found = list(statements(text))
    if not found:
        return []
    words = [value_of(word, {}, splits=True) for word in found[0].words]
    known = [word for word in words if isinstance(word, str)]
    if len(found) > 1 or found[0].redirections or found[0].assignments or len(known) < len(words):
        raise UnreadableExportError(f"{ARGUMENTS} holds more than options")
    return known
