"""The recommendation as a shell script that starts the server."""

import shlex
from collections.abc import Iterator

from sweeps.exporters.launches import PORT, Launch, UnreadableExportError, after_module
from sweeps.exporters.recommendation import Recommendation, comments
from sweeps.exporters.sealed import as_comments, record


def write(what: Recommendation) -> str:
    """Write a script. PYTHON, HOST and PORT in its environment replace the defaults."""
    python, *module = what.program
    lines = [
        "#!/bin/sh",
        *comments(what),
        "# Arguments are passed on to the server.",
        "set -eu",
        *assignments(what.launch, "export "),
        f"default_python={shlex.quote(python)}",
        f'exec "${{PYTHON:-$default_python}}" {shlex.join(module)} \\',
        *(f"    {shlex.join(group)} \\" for group in what.launch.grouped),
        f'    --host "${{HOST:-127.0.0.1}}" --port "${{PORT:-{PORT}}}" "$@"',
        *as_comments(record(what, "sh")),
    ]
    return "\n".join(lines) + "\n"


def read(text: str) -> Launch:
    """Read what a script starts. Raises UnreadableExportError."""
    env: dict[str, str] = {}
    options: tuple[str, ...] | None = None
    for words in statements(text):
        if words[0] == "export":
            env |= dict(word.split("=", 1) for word in words[1:] if "=" in word)
        elif words[0] == "exec":
            options = after_module([word for word in words if word != "$@"])
    if options is None:
        raise UnreadableExportError("no `exec` of a server stands in it")
    return Launch(options, env)


def assignments(launch: Launch, before: str = "") -> list[str]:
    """Write each variable on a line, quoted for a shell."""
    return [f"{before}{name}={shlex.quote(v)}" for name, v in sorted(launch.env.items())]


def statements(text: str) -> Iterator[list[str]]:
    """Yield the words of each statement, comments left out. Raises UnreadableExportError."""
    for line in text.replace(" \\\n", " ").split("\n"):
        if line.lstrip().startswith("#"):
            continue
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UnreadableExportError(f"{error}: {line.strip()[:60]}") from error
        if words:
            yield words
