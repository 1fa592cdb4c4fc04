"""Setting values, and their one canonical text form for hashes and keys."""

import hashlib
import json
from collections.abc import Mapping

Value = str | int | float | bool | None
"""What a setting may hold. None means that the flag or variable is not given at all."""


def canonical_json(data: object) -> str:
    """Render plain data so that equal data give equal text, whatever the key order."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(data: object, *, length: int = 12) -> str:
    """Hash plain data to `length` hexadecimal digits."""
    return hashlib.sha256(canonical_json(data).encode()).hexdigest()[:length]


def show(value: Value) -> str:
    """Write a value as a person reads it in a table."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def show_all(values: Mapping[str, Value]) -> str:
    """Write settings on one line, `name=value` each."""
    return " ".join(f"{name}={show(value)}" for name, value in values.items())
