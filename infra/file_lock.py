"""A lock that dies with its owner: a file that names the owner and is locked while it lives."""

import fcntl
import os
import pwd
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LOOK_S = 0.01
_LONGEST_TEXT_BYTES = 1 << 16
_MODE_S = 1.0
"""Wall seconds in which whoever makes a shared file gives it its mode."""
_NEVER_WAIT = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
"""A name in a folder of many users may be a link, or a pipe that nobody writes to."""


class LockFileError(OSError):
    """What lies at the place of a lock is none; the message says whose it is."""


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
        Raises OSError.
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
            # A forked child may release what another has taken over since.
            if _is_at(self._fd, self.path):
                self.path.unlink(missing_ok=True)
        except PermissionError:
            # Another user has made it, in a folder where each removes only their own.
            self.write("")


def holder(path: Path) -> str | None:
    """Return what the owner of a lock has written; None if nobody holds it. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | _NEVER_WAIT)
    except FileNotFoundError:
        return None
    try:
        _refuse_others(fd, path)
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
            _refuse_others(fd, path)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        if _is_at(fd, path):
            return fd
        os.close(fd)


def _open(path: Path, mode: int) -> int:
    """Open a file, or make it: another user's cannot be opened by a call that could make it."""
    until_s = time.monotonic() + _MODE_S
    while True:
        try:
            return os.open(path, os.O_RDWR | _NEVER_WAIT)
        except FileNotFoundError:
            pass
        except PermissionError as error:
            # Between the two calls below, another user's is not open to all yet.
            if time.monotonic() >= until_s:
                raise LockFileError(f"{path} {_whose(path)}, and it is closed to us") from error
            time.sleep(_LOOK_S)
            continue
        except OSError as error:
            raise LockFileError(f"{path} {_whose(path)}, and it is no lock: {error}") from error
        with suppress(FileExistsError):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            os.fchmod(fd, mode)  # whatever the umask is
            return fd


def _refuse_others(fd: int, path: Path) -> None:
    """Raise LockFileError for what is no regular file."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise LockFileError(f"{path} {_whose(path)}, and it is no file: remove it")


def _whose(path: Path) -> str:
    try:
        owner = path.lstat().st_uid
    except OSError:
        return "is gone"
    try:
        return f"belongs to {pwd.getpwuid(owner).pw_name}"
    except KeyError:
        return f"belongs to user {owner}"


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False
