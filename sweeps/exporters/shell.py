"""The recommendation as a shell script that starts the server."""

import shlex
from collections.abc import Iterator

from sweeps.exporters.recommendation import Recommendation
from sweeps.phrases import sentence
from sweeps.values import show


def as_shell(what: Recommendation) -> str:
    """Write a script. PYTHON, HOST and PORT in its environment replace the defaults."""
    python, *module = what.program
    lines = [
        "#!/bin/sh",
        f"# {what.best.config}",
        f"# {what.evidence}",
        f"# Trial {what.trial.trial} of sweep {what.trial.sweep},",
        f"# measured with SGLang {what.trial.engine_version}.",
        *_remarks(what),
        "# Arguments are passed on to the server.",
        "set -eu",
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted(what.env.items())),
        f'exec "${{PYTHON:-{shlex.quote(python)}}}" {shlex.join(module)} \\',
        *(f"    {line} \\" for line in _grouped(what.options)),
        '    --host "${HOST:-127.0.0.1}" --port "${PORT:-30000}" "$@"',
    ]
    return "\n".join(lines) + "\n"


def _remarks(what: Recommendation) -> Iterator[str]:
    """Write what must be known of the trial, and what the server chose, as comments."""
    for warning in what.warnings:
        yield f"# {sentence('Note: ' + ' '.join(warning.split()))}"
    if what.chosen:
        yield "# Chosen by that server itself, and not given below:"
    for name, value in sorted(what.chosen.items()):
        yield f"#   {name}={shlex.quote(' '.join(show(value).split()))}"


def _grouped(options: tuple[str, ...]) -> list[str]:
    """Put each option on a line with its values."""
    lines: list[list[str]] = []
    for word in options:
        if word.startswith("--") or not lines:
            lines.append([])
        lines[-1].append(word)
    return [shlex.join(line) for line in lines]
