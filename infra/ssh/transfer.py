"""Files over SFTP: written beside their place, continued where they broke, checked, renamed."""

import os
import posixpath
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

import paramiko
from paramiko.ssh_exception import SSHException

from infra.own_wheel import file_hash
from infra.remote import DeadlineError, LinkLostError, Progress, RemoteFile, TransferError
from infra.whole_file import new_file

_CHUNK_BYTES = 1 << 15
_AT_ONCE = 64
"""Reads that are under way."""
_HASH_CHARS = 16
_MOST_BYTES = 64 << 30
"""Of one file. The library lists all reads of a file beforehand, so a false size costs memory."""

Hash = Callable[[str], str]
"""Returns the SHA-256 of a file there; raises TransferError."""


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn what the libraries raise into our errors; a missing file stays FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except TimeoutError as error:
        raise LinkLostError(f"{what}: the host does not answer") from error
    except (SSHException, EOFError) as error:
        raise LinkLostError(f"{what}: {error or 'the link ended'}") from error
    except OSError as error:
        # The library tells of a socket that was closed in the same class as of a full disk.
        if "closed" in str(error).lower():
            raise LinkLostError(f"{what}: {error}") from error
        raise TransferError(f"{what}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class Transfer:
    """One connection's file channel."""

    sftp: paramiko.SFTPClient
    hash_there: Hash

    def put(
        self, local: Path, path: str, *, mode: int, progress: Progress | None, deadline_s: float
    ) -> bool:
        """Send a file; False where the same content was there already."""
        wanted = file_hash(local)
        size = local.stat().st_size
        if self._size(path) == size and self.hash_there(path) == wanted:
            self.sftp.chmod(path, mode)
            return False
        # Named by its content: what is continued is surely the same file.
        part = self._part(path, wanted)
        self.make_folder(posixpath.dirname(path))
        done = self._begun(part, size)
        self._send(local, part, mode, done, size, _Limit(deadline_s, path, progress))
        found = self.hash_there(part)
        if found != wanted:
            self.sftp.remove(part)
            raise TransferError(f"{path} did not arrive as it was sent: it is sent anew next time")
        self.sftp.posix_rename(part, path)
        return True

    def get(self, path: str, local: Path, *, progress: Progress | None, deadline_s: float) -> None:
        """Fetch a file."""
        wanted = self.hash_there(path)
        size = self._size(path) or 0
        if size > _MOST_BYTES:
            raise TransferError(f"{path} has {size} bytes, and at most {_MOST_BYTES} are fetched")
        local.parent.mkdir(parents=True, exist_ok=True)
        part = local.with_name(f".{local.name}.{wanted[:_HASH_CHARS]}.part")
        limit = _Limit(deadline_s, path, progress)
        with self.sftp.open(path, "rb") as source, _part_here(part, size) as file:
            done = file.seek(0, os.SEEK_END)
            source.seek(done)
            source.prefetch(size, max_concurrent_requests=_AT_ONCE)
            while chunk := source.read(_CHUNK_BYTES):
                file.write(chunk)
                done += len(chunk)
                limit.step(done, size)
                if done > size:
                    break  # it grows, or somebody sends without end; the hash tells
        if file_hash(part) != wanted:
            part.unlink()
            raise TransferError(f"{path} changed while it was fetched")
        part.replace(local)

    def write(self, path: str, data: bytes, mode: int) -> None:
        """Write a small file, whole or not at all."""
        self.make_folder(posixpath.dirname(path))
        part = self._part(path, secrets.token_hex(_HASH_CHARS))
        try:
            with self.sftp.open(part, "wx") as file:
                file.chmod(mode)  # before there is anything to read
                file.write(data)
            self.sftp.posix_rename(part, path)
        except OSError:
            with suppress(OSError):
                self.sftp.remove(part)
            raise

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """Return some bytes of a file."""
        with self.sftp.open(path, "rb") as file:
            file.seek(offset)
            return file.read(limit)

    def files(self, folder: str) -> list[RemoteFile]:
        """List regular files below a folder; those that vanish meanwhile are left out."""
        found: list[RemoteFile] = []
        waiting = [PurePosixPath()]
        while waiting:
            at = waiting.pop()
            try:
                entries = self.sftp.listdir_attr(str(PurePosixPath(folder) / at))
            except FileNotFoundError:
                continue
            for entry in entries:
                if not _is_plain(entry.filename):
                    raise TransferError(f"{folder} holds a name {entry.filename[:80]!r}")
                mode = entry.st_mode or 0
                if stat.S_ISDIR(mode):
                    waiting.append(at / entry.filename)
                elif stat.S_ISREG(mode):
                    size, mtime_s = entry.st_size or 0, float(entry.st_mtime or 0)
                    found.append(RemoteFile(at / entry.filename, size, mtime_s))
        return sorted(found, key=lambda file: file.path)

    def make_folder(self, folder: str) -> None:
        """Make a folder and those above it."""
        if self._is_folder(folder):
            return
        above = posixpath.dirname(folder)
        if above != folder:
            self.make_folder(above)
        with suppress(OSError):  # another may have made it meanwhile
            self.sftp.mkdir(folder, 0o755)
        if not self._is_folder(folder):
            raise TransferError(f"the folder {folder} cannot be made")

    def _send(
        self, local: Path, part: str, mode: int, done: int, size: int, limit: "_Limit"
    ) -> None:
        with local.open("rb") as source, self.sftp.open(part, "r+b" if done else "wb") as file:
            file.chmod(mode)  # before there is anything to read
            source.seek(done)
            file.seek(done)
            # The library takes answers in by itself; nothing else may be asked meanwhile, as that
            # would take in what it then waits for.
            file.set_pipelined(True)
            while chunk := source.read(_CHUNK_BYTES):
                file.write(chunk)
                done += len(chunk)
                limit.step(done, size)

    def _size(self, path: str) -> int | None:
        try:
            return self.sftp.stat(path).st_size
        except FileNotFoundError:
            return None

    def _begun(self, part: str, size: int) -> int:
        """Return how much of a file is there already; what is no such part is removed."""
        try:
            found = self.sftp.lstat(part)
        except FileNotFoundError:
            return 0
        done = found.st_size or 0
        if stat.S_ISREG(found.st_mode or 0) and done <= size:
            return done
        self.sftp.remove(part)
        return 0

    def _is_folder(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(self.sftp.stat(path).st_mode or 0)
        except FileNotFoundError:
            return False

    def _part(self, path: str, digest: str) -> str:
        folder, name = posixpath.split(path)
        return posixpath.join(folder, f".{name}.{digest[:_HASH_CHARS]}.part")


def _is_plain(name: str) -> bool:
    """Tell whether a name that a host gives is that of a file in its folder."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _part_here(part: Path, size: int) -> IO[bytes]:
    """Open what has come of a file, or begin it; a link or a part that is too long is removed."""
    with suppress(FileNotFoundError):
        found = part.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_size <= size:
            return os.fdopen(os.open(part, os.O_RDWR | os.O_NOFOLLOW), "r+b")
        part.unlink()
    return new_file(part, 0o600)


class _Limit:
    """Ends a transfer at its deadline, and tells how far it is."""

    def __init__(self, deadline_s: float, path: str, progress: Progress | None) -> None:
        self._until_s = time.monotonic() + deadline_s
        self._deadline_s = deadline_s
        self._path = path
        self._progress = progress

    def step(self, done: int, size: int) -> None:
        if self._progress is not None:
            self._progress(done, size)
        if time.monotonic() > self._until_s:
            raise DeadlineError(f"{self._path} was not sent within {self._deadline_s:g} s")
