"""Files that only grow: one JSON object a line, each with its checksum, so that damage shows.

The last member of a line is `crc`, CRC-32 of all that stands before it. The first line names the
form of the file and its version; files of version 0 have neither that line nor checksums.
"""

import contextlib
import errno
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from infra.redaction import Redactor
from sweeps.problems import BadInputError, Problem

VERSION = 1

_MARK = b', "crc": "'
_END = b'"}'
_SEAL_BYTES = len(_MARK) + 8 + len(_END)


class DiskError(OSError):
    """A file cannot be written; the message names it and the reason. What it held stays whole."""

    @classmethod
    def on(cls, path: Path, error: OSError) -> "DiskError":
        """Say which file met which error."""
        told = cls(f"{path} cannot be written: {error.strerror or error}")
        told.errno = error.errno
        return told


@dataclass(frozen=True, slots=True)
class Line:
    """One object and the number of its line, from 1."""

    number: int
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file holds, and what of it is damaged."""

    version: int
    lines: tuple[Line, ...]
    bad_lines: tuple[int, ...]
    """Numbers of whole lines that do not hold what was written; they are passed over."""
    is_torn: bool
    """The last line was cut off, as when its writer was killed."""


class Journal:
    """Appends whole lines to a file, or nothing. Used by one thread at a time.

    A torn end that an earlier writer left is cut off. Secrets are masked. Raises BadInputError for
    a file of a newer version, and DiskError where writing fails.
    """

    def __init__(self, path: Path, form: str) -> None:
        self.path = path
        self._redactor = Redactor.from_environment()
        self._is_new = not path.exists()
        with self._telling():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._end_bytes = self._repair()
            if not self._end_bytes:
                self.append({"kind": form, "version": VERSION})
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def end_bytes(self) -> int:
        """Return where the next line will begin."""
        return self._end_bytes

    def append(self, data: Mapping[str, object]) -> None:
        """Append one line, whole or not at all. Raises ValueError for what JSON cannot say."""
        masked = self._redactor.data(data)
        line = memoryview(seal(masked))
        written = 0
        with self._telling():
            try:
                while written < len(line):
                    written += os.write(self._fd, line[written:])
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, self._end_bytes)
                raise
        self._end_bytes += len(line)

    def reader(self) -> IO[bytes]:
        """Open the file again from its begin, also where its name is gone."""
        file = os.fdopen(os.dup(self._fd), "rb")
        file.seek(0)
        return file

    def sync(self) -> None:
        """Make sure that what was appended survives a power cut."""
        with self._telling():
            os.fsync(self._fd)
            if self._is_new:
                sync_folder(self.path.parent)
                self._is_new = False

    def clear(self) -> None:
        """Forget all lines but the first."""
        with self._telling():
            with self.reader() as file:
                header = len(file.readline())
            os.ftruncate(self._fd, header)
            self._end_bytes = header

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def is_open(self) -> bool:
        """Tell whether it was not closed yet."""
        return self._fd >= 0

    def _read(self) -> bytes:
        return self.path.read_bytes()

    def _repair(self) -> int:
        """Cut off a torn end; return the length of what stays."""
        with self._telling():
            content = self._read()
            _require_known(self.path, content)
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                os.ftruncate(self._fd, whole)
        return whole

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except DiskError:
            raise
        except OSError as error:
            raise DiskError.on(self.path, error) from error


def read_journal(path: Path) -> Reading:
    """Read all whole lines; a file that is not there holds none. Raises BadInputError if newer."""
    # What is no file, such as a pipe that nobody writes to, holds none either.
    content = b""
    with contextlib.suppress(FileNotFoundError):
        content = path.read_bytes() if path.is_file() else b""
    version = _require_known(path, content)
    *whole, rest = content.split(b"\n")
    lines, bad = [], []
    for number, line in enumerate(whole, 1):
        data = unseal(line) if version or _MARK in line[-_SEAL_BYTES:] else _parsed(line)
        if data is None:
            bad.append(number)
        elif not (version and number == 1):
            lines.append(Line(number, data))
    return Reading(version, tuple(lines), tuple(bad), bool(rest))


def seal(data: object) -> bytes:
    """Write an object that is not empty as a line under its checksum."""
    body = json.dumps(data, allow_nan=False).encode()[:-1]
    return body + _MARK + f"{zlib.crc32(body):08x}".encode() + _END + b"\n"


def unseal(line: bytes) -> dict[str, object] | None:
    """Read a line without its end; None where the checksum does not fit."""
    body, mark = line[:-_SEAL_BYTES], line[-_SEAL_BYTES:]
    if mark != _MARK + f"{zlib.crc32(body):08x}".encode() + _END:
        return None
    return _parsed(body + b"}")


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder survive a power cut, where the system can do that."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)


def _require_known(path: Path, content: bytes) -> int:
    """Return the version of a file; one that is empty or torn at once is of the current one."""
    head, newline, _ = content.partition(b"\n")
    if not newline:
        return VERSION
    first = _parsed(head) or {}
    version = first.get("version") if len(first) == 3 and "crc" in first else 0
    if not isinstance(version, int):
        return 0
    if version > VERSION:
        why = f"a newer release wrote {path.name}; this one reads versions up to {VERSION}"
        mend = "Use that release, or another state folder."
        raise BadInputError(str(path), [Problem("version", str(version), why, mend)])
    return version


def _parsed(line: bytes) -> dict[str, object] | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
