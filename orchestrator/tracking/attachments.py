"""The files of a trial that are worth keeping beside its numbers, cut to a size."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from infra.redaction import Redactor

MAX_FILE_BYTES = 5 * 1024 * 1024


def attachments(
    folder: Path, scratch: Path, max_bytes: int = MAX_FILE_BYTES, redactor: Redactor | None = None
) -> Iterator[Path]:
    """Yield the regular files right in a folder; a longer one as a copy of its end in `scratch`.

    A file that holds a secret is yielded as a copy without it. Nothing is yielded for a folder that
    is not there. Raises OSError for one that cannot be read.
    """
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_file() or path.name.startswith("."):
            continue
        cut = path if path.stat().st_size <= max_bytes else _tail(path, scratch, max_bytes)
        yield cut if redactor is None else _masked(cut, scratch, redactor)


def _masked(path: Path, scratch: Path, redactor: Redactor) -> Path:
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    masked = redactor.text(text)
    if masked == text:
        return path
    copy = scratch / path.name
    copy.write_text(masked, encoding="utf-8", errors="surrogateescape")
    return copy


def _tail(path: Path, scratch: Path, max_bytes: int) -> Path:
    """Copy the last whole lines that fit, under a line that says what is missing."""
    copy = scratch / path.name
    with path.open("rb") as source, copy.open("wb") as target:
        source.seek(-max_bytes, 2)
        source.readline()
        target.write(f"[the first {source.tell()} bytes are left out]\n".encode())
        shutil.copyfileobj(source, target)
    return copy
