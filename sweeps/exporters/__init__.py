"""Formats in which the best configuration is taken to production: one module each."""

from collections.abc import Callable

from sweeps.exporters.json_file import as_json
from sweeps.exporters.recommendation import Recommendation
from sweeps.exporters.shell import as_shell

EXPORTERS: dict[str, Callable[[Recommendation], str]] = {
    "json": as_json,
    "sh": as_shell,
}
"""Format name to what writes a recommendation in it."""

__all__ = ["EXPORTERS", "Recommendation"]
