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
from sweeps.exporters.launches import Launch
from sweeps.exporters.recommendation import Recommendation


@dataclass(frozen=True, slots=True)
class Format:
    """How a recommendation is written, and how what a file starts is read back from its text."""

    write: Callable[[Recommendation], str]
    read: Callable[[str], Launch]
    """Raises UnreadableExportError. It reads what is written, and not all that may be."""
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

__all__ = ["EXPORTERS", "Format", "Launch", "Recommendation"]
