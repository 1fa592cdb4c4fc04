"""Secrets by reference: `env:NAME` is a variable of this machine, `file:PATH` a private file."""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

_FORM = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:(?:/|~/).+")
FORMS = "`env:NAME` or `file:/path`"


class SecretError(Exception):
    """A reference leads to nothing usable; the message names the reference, never a secret."""


def is_reference(text: str) -> bool:
    """Tell whether a text only says where a secret is."""
    return _FORM.fullmatch(text) is not None


def resolve(reference: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the secret that is referred to. Raises SecretError."""
    kind, _, place = reference.partition(":")
    if not is_reference(reference):
        raise SecretError(f"a secret is given as {FORMS}")
    if kind == "env":
        value = (os.environ if environ is None else environ).get(place)
        if not value:
            raise SecretError(f"the variable {place} is not set")
        return value
    return _private(Path(place).expanduser())


def _private(path: Path) -> str:
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise SecretError(f"{path} can be read by others: chmod 600 it")
        return path.read_text().rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SecretError(f"{path} cannot be read: {error}") from error
