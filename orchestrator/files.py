"""How files are written: whole or not at all, or appended line by line."""

import json
import os
from pathlib import Path
from typing import IO


def write_json(path: Path, data: object) -> None:
    """Write beside, then rename, so that a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n")
    beside.replace(path)


def read_json(path: Path) -> dict[str, object] | None:
    """Read an object; None where there is no file or it holds no object."""
    try:
        data = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return data if isinstance(data, dict) else None


class Spool:
    """An append-only file of JSON lines: everything that a trial measured, as it came."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = path.open("a", buffering=1)

    def append(self, kind: str, data: dict[str, object]) -> None:
        """Append one line."""
        self._file.write(json.dumps({"kind": kind, **data}, allow_nan=False) + "\n")

    def sync(self) -> None:
        """Make sure that what was appended survives a power cut."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Sync and close. Safe to call twice."""
        if not self._file.closed:
            self.sync()
            self._file.close()
