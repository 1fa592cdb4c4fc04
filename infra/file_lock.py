"""A lock that dies with its owner: a file that names the owner and is locked while it lives."""

import fcntl
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LOOK_S = 0.01
_LONGEST_TEXT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FileLock:
    """A lock that is held. Whoever takes it must release it."""

    path: Path
    _fd: int

    @classmethod
    def take(
        cls, path: Path, text: str = "", *, patience_s: float = 0.0, shared: bool = False
    ) -> "FileLock | None":
        """Take the lock and write who has it; None if another has it for so many wall seconds.

        A `shared` one may lie in a folder that all users write to, and any of them may take it.
        """
        until_s = time.monotonic() + patience_s
        while (fd := _lock(path, 0o666 if shared else 0o600)) is None:
            if time.monotonic() >= until_s:
                return None
            time.sleep(_LOOK_S)
        lock = cls(path, fd)
        lock.write(text)
        return lock

    def write(self, text: str) -> None:
        """Replace what the file says of its owner."""
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text.encode(), 0)

    def release(self, *, keep_file: bool = False) -> None:
        """Give the lock back, and remove the file unless it still tells something."""
        try:
            # Before the lock is gone: a file that is not locked may be another's already.
            if not keep_file:
                self._remove()
        finally:
            os.close(self._fd)

    def _remove(self) -> None:
        try:
            self.path.unlink(missing_ok=True)
        except PermissionError:
            # Another user has made it, in a folder where each removes only their own.
            self.write("")


def holder(path: Path) -> str | None:
    """Return what the owner of a lock has written; None if nobody holds it."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        # Shared, so that two who look do not take each other for the owner.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(fd, _LONGEST_TEXT_BYTES, 0).decode(errors="replace")
    finally:
        os.close(fd)
    return None


def _lock(path: Path, mode: int) -> int | None:
    """Return the locked file, or None if another has it. Again if it was removed meanwhile."""
    while True:
        fd = _open(path, mode)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        if _is_at(fd, path):
            return fd
        os.close(fd)


def _open(path: Path, mode: int) -> int:
    """Open a file, or make it: another user's cannot be opened by a call that could make it."""
    while True:
        with suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        with suppress(FileExistsError):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            os.fchmod(fd, mode)  # whatever the umask is
            return fd


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
