"""Formats in which a configuration is taken to production: one module each."""

from collections.abc import Callable
from dataclasses import dataclass

from sweeps.exporters import (
    compose,
    env_file,
    json_file,
    kubernetes,
    sglang_yaml,
    shell,
    systemd_unit,
)
from sweeps.exporters.launches import Launch, Reading
from sweeps.exporters.recommendation import Recommendation
from sweeps.problems import BadInputError


@dataclass(frozen=True, slots=True)
class Format:
    """How a recommendation is written, and how what a file starts is read back from its text."""

    write: Callable[[Recommendation], str]
    read: Callable[[str], Reading]
    """Raises UnreadableExportError. It reads as the program does that the file is for."""
    write_beside: Callable[[Recommendation], str] | None = None
    """Writes what the format cannot hold, for a file beside it; empty if that is nothing."""
    executable: bool = False


EXPORTERS: dict[str, Format] = {
    "json": Format(json_file.write, json_file.read),
    "sh": Format(shell.write, shell.read, executable=True),
    "yaml": Format(sglang_yaml.write, sglang_yaml.read, sglang_yaml.write_beside),
    "env": Format(env_file.write, env_file.read),
    "systemd": Format(systemd_unit.write, systemd_unit.read),
    "docker-compose": Format(compose.write, compose.read),
    "kubernetes": Format(kubernetes.write, kubernetes.read),
}
"""Format name to what writes and reads it."""


def written(what: Recommendation, form: str) -> tuple[str, str]:
    """Write a recommendation in a format; return its text, and that of the file beside it.

    Raises: BadInputError, where anything in it could become a command or a line of its own.
    """
    if problems := list(what.problems()):
        raise BadInputError(f"trial {ascii(what.trial.trial)[1:-1]}", problems)
    row = EXPORTERS[form]
    return row.write(what), row.write_beside(what) if row.write_beside else ""


__all__ = ["EXPORTERS", "Format", "Launch", "Reading", "Recommendation", "written"]
