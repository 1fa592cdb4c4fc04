"""The recommendation as variables: for `. FILE`, and for systemd's EnvironmentFile."""

import re
import shlex
from collections.abc import Iterator

from sweeps.exporters.launches import MODULE, Launch, Reading, UnreadableExportError
from sweeps.exporters.recommendation import Recommendation, comments
from sweeps.exporters.sealed import as_comments, record
from sweeps.exporters.server_command import read_command
from sweeps.exporters.shell import Shell, assignments
from sweeps.exporters.shell_words import statements, value_of

_SPACE = " \t\n\r"
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\[\s\S])*\"")
_VALUE_BEGINS = re.compile(r"[^=]*=(?:\s|'[^']*'|\"(?:[^\"\\]|\\[\s\S])*\")*")
"""Where a quote is one: at the begin of a value, or behind another quoted part of it."""
_IN_DOUBLE = re.compile(r"\\(?:([\"\\`$])|\n)")
_ESCAPED = re.compile(r"\\(?:([^\n])|\n)")

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
    told = read_as_systemd(text)
    for name, value in env.items():
        if isinstance(value, str) and told.get(name) != value:
            raise UnreadableExportError(
                f"a shell and systemd do not read {name} alike: write one variable on a line, and"
                " put its whole value into quotes"
            )
    options = env.pop(ARGUMENTS, "")
    if not isinstance(options, str):
        raise UnreadableExportError(f"{ARGUMENTS} is {options.text}: only its place knows that")
    read = read_command(["python3", "-m", MODULE, *_words(options)], env, *shell.beyond)
    return Reading(read.launch, "", None, read.unknown, read.beyond)


def read_as_systemd(text: str) -> dict[str, str]:
    """Return the variables as systemd.exec(5) has an EnvironmentFile read: quotes stand at the
    begin of a value, and comments on lines of their own."""
    found: dict[str, str] = {}
    for line in _lines(text):
        name, equals, rest = line.partition("=")
        if equals and line.lstrip()[:1] not in ("#", ";"):
            found[name.strip()] = _systemd_value(rest)
    return found


def _lines(text: str) -> Iterator[str]:
    """Yield the lines; what stands in quotes, or behind a backslash, may hold their ends."""
    line, quote = "", ""
    chars = iter(text)
    for char in chars:
        comment = line.lstrip()[:1] in ("#", ";")
        if char == "\n" and not quote:
            yield line
            line = ""
            continue
        if char == "\\" and quote != "'" and not comment:
            char += next(chars, "")
        elif char == quote:
            quote = ""
        elif char in "'\"" and not quote and not comment and _VALUE_BEGINS.fullmatch(line):
            quote = char
        line += char
    yield line


def _systemd_value(text: str) -> str:
    """Return a value: quoted parts, then at the most one without quotes, to the end of the line."""
    value, rest = "", text.strip(_SPACE)
    while rest[:1] in ("'", '"') and (part := _QUOTED.match(rest)):
        escape = _IN_DOUBLE if rest[0] == '"' else None
        value += escape.sub(r"\1", part[0][1:-1]) if escape else part[0][1:-1]
        rest = rest[part.end() :].lstrip(_SPACE)
    return value + _ESCAPED.sub(r"\1", rest)


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
