"""Reads a scenario from a TOML file, again whenever the file has changed."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from infra.emulated.scenario import HEALTHY, Scenario

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


class ScenarioError(ValueError):
    """A scenario file cannot be used; the text names file, field, value and mend."""


def read_scenario(path: Path) -> Scenario:
    """Read and check a file. Raises ScenarioError."""
    # Only a server with a scenario pays for this import.
    from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

    strict = with_config(ConfigDict(extra="forbid"))
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}; name a file that exists") from error
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path}: no TOML: {error}") from error
    try:
        return TypeAdapter(strict(Scenario)).validate_python(data)
    except ValidationError as error:
        raise ScenarioError(f"{path}: {_first(error.errors())}") from error


class ScenarioSource:
    """The scenario that holds now. A file that becomes unreadable leaves the last one in force."""

    def __init__(self, path: Path | None) -> None:
        """Read the file. Raises ScenarioError."""
        self._path = path
        self._changed_ns = _changed_ns(path)
        self._now = read_scenario(path) if path else HEALTHY

    @property
    def now(self) -> Scenario:
        """Return what the file says at this moment; costs one look at its date."""
        changed_ns = _changed_ns(self._path)
        if self._path and changed_ns and changed_ns != self._changed_ns:
            self._changed_ns = changed_ns
            try:
                self._now = read_scenario(self._path)
            except ScenarioError:
                return self._now
        return self._now


def _changed_ns(path: Path | None) -> int:
    try:
        return path.stat().st_mtime_ns if path else 0
    except OSError:
        return 0


def _first(errors: "list[ErrorDetails]") -> str:
    """Say what is wrong with the first field that is wrong."""
    error = errors[0]
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden" or error["type"] == "unexpected_keyword_argument":
        return f"{where}={error['input']!r}: there is no such field; see infra.emulated.scenario"
    return f"{where}={error['input']!r}: {error['msg']}"
