"""The recommendation as a shell script that starts the server."""

import shlex

from sweeps.exporters.recommendation import Recommendation


def as_shell(what: Recommendation) -> str:
    """Write a script. PYTHON, HOST and PORT in its environment replace the defaults."""
    python, *module = what.program
    lines = [
        "#!/bin/sh",
        f"# {what.best.config}",
        f"# {what.evidence}",
        f"# Trial {what.trial.trial} of sweep {what.trial.sweep},",
        f"# measured with SGLang {what.trial.engine_version}.",
        "# Arguments are passed on to the server.",
        "set -eu",
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted(what.env.items())),
        f'exec "${{PYTHON:-{shlex.quote(python)}}}" {shlex.join(module)} \\',
        *(f"    {line} \\" for line in _grouped(what.options)),
        '    --host "${HOST:-127.0.0.1}" --port "${PORT:-30000}" "$@"',
    ]
    return "\n".join(lines) + "\n"


def _grouped(options: tuple[str, ...]) -> list[str]:
    """Put each option on a line with its values."""
    lines: list[list[str]] = []
    for word in options:
        if word.startswith("--") or not lines:
            lines.append([])
        lines[-1].append(word)
    return [shlex.join(line) for line in lines]
