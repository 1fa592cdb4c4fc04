"""Secrets by reference: `env:NAME` is a variable of this machine, `file:PATH` a private file."""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

_FORM = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:(?:/|~/).+")
FORMS = "`env:NAME` or `file:/path`"
_MOST_BYTES = 1 << 16
_resolved: set[str] = set()


class SecretError(Exception):
    """A reference leads to nothing usable; the message names the reference, never a secret."""


def is_reference(text: str) -> bool:
    """Tell whether a text only says where a secret is."""
    return _FORM.fullmatch(text) is not None


def variable_of(reference: str) -> str:
    """Return the variable that a reference leads to; empty for a file."""
    kind, _, place = reference.partition(":")
    return place if is_reference(reference) and kind == "env" else ""


def resolve(reference: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the secret that is referred to, of one line. Raises SecretError."""
    kind, _, place = reference.partition(":")
    if not is_reference(reference):
        raise SecretError(f"a secret is given as {FORMS}")
    if kind == "env":
        value = (os.environ if environ is None else environ).get(place)
        if not value:
            raise SecretError(f"the variable {place} is not set")
    else:
        value = _private(Path(place).expanduser())
    _resolved.add(value)
    return value


def learn(values: Iterable[object]) -> None:
    """Resolve the references among some values, as far as they lead to anything here.

    Whoever masks with what was resolved must be made after that.
    """
    for value in values:
        if isinstance(value, str) and is_reference(value):
            with suppress(SecretError):
                resolve(value)


def resolved() -> frozenset[str]:
    """Return the secrets that references led to in this process, to be masked in what it writes."""
    return frozenset(_resolved)


def _private(path: Path) -> str:
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            if stat.S_IMODE(about.st_mode) & 0o077:
                raise SecretError(f"{path} can be read by others: chmod 600 it")
            text = file.read(_MOST_BYTES + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise SecretError(f"{path} cannot be read: {why}") from error
    lines = text.rstrip("\r\n").splitlines()
    if len(lines) != 1 or not lines[0] or len(text) > _MOST_BYTES:
        raise SecretError(f"{path} does not hold one line with a secret, but {len(lines)} lines")
    return lines[0]
