"""How files are written: whole or not at all, or appended line by line."""

import json
import logging
import os
from functools import lru_cache
from pathlib import Path, PurePosixPath

from infra.redaction import Redactor
from infra.remote import TransferError
from infra.whole_file import replacing
from orchestrator.journal import DiskError, Journal, sync_folder
from sweeps.results import TrialResult

logger = logging.getLogger(__name__)

SPOOL = "spool"
_LONGEST_NAME_CHARS = 1000
MOST_BYTES = 1 << 26
"""Of a file of JSON that is read whole."""


def place_below(folder: Path, name: object) -> Path:
    """Return where a file goes that a host names. Raises TransferError.

    A host cannot make us write elsewhere: not by its name, nor through a link in the folder.
    """
    if not isinstance(name, str) or len(name) > _LONGEST_NAME_CHARS or not name.isprintable():
        raise TransferError(f"the host names a file {str(name)[:80]!r}, which no file is called")
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts or not parts.parts:
        raise TransferError(f"the host names a file {name!r}, which leads out of the folder")
    path = folder / parts
    for above in path.parents:
        if above == folder:
            return path
        if above.is_symlink():
            raise TransferError(f"the host names a file {name!r}, and {above} is a link")
    return path


def write_json(path: Path, data: object) -> None:
    """Write beside, then rename, so that a reader never sees half a file; secrets are masked.

    Raises DiskError, and then leaves what was there before.
    """
    masked = Redactor.from_environment().data(data)
    write_text(path, json.dumps(masked, indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str, mode: int | None = None) -> None:
    """Write a text as it is; see `write_bytes`."""
    write_bytes(path, text.encode(), mode)


def write_bytes(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write data as they are, whole or not at all; `mode` are the rights of the file.

    Raises DiskError, and then leaves what was there before.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, mode) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except OSError as error:
        raise DiskError.on(path, error) from error


def read_json(path: Path) -> dict[str, object] | None:
    """Read an object; None where there is no file, or it holds no object that can be read.

    Files of a folder that was copied, fetched or shared may be anything: large, deep, no file.
    """
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > MOST_BYTES:
            name_once(path, f"it has more than {MOST_BYTES} bytes")
            return None
        data = json.loads(path.read_text())
    except (ValueError, RecursionError, OSError) as error:
        name_once(path, str(error))
        return None
    return data if isinstance(data, dict) else None


def read_result(path: Path) -> TrialResult | None:
    """Read how a trial ended; None where that is not told, or what tells it is spoilt."""
    data = read_json(path)
    if data is None:
        return None
    try:
        return TrialResult.from_data(data)
    except ValueError as error:
        name_once(path, str(error))
        return None


@lru_cache(maxsize=1024)
def name_once(path: Path, why: str) -> None:
    """Name a file that is passed over, once: some are looked at every second."""
    shown = "".join(char if char.isprintable() else "?" for char in f"{path}: {why[:200]}")
    logger.warning("passed over: %s", shown)


class Spool:
    """An append-only file of JSON lines: everything that a trial measured, as it came.

    Raises DiskError where writing fails; the file then still holds whole lines only.
    """

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path, SPOOL)

    def append(self, kind: str, data: dict[str, object]) -> None:
        """Append one line."""
        self._journal.append({"kind": kind, **data})

    def sync(self) -> None:
        """Make sure that what was appended survives a power cut."""
        self._journal.sync()

    def close(self) -> None:
        """Sync and close. Safe to call twice."""
        if not self._journal.is_open:
            return
        try:
            self._journal.sync()
        finally:
            self._journal.close()
