"""The folder in which all sweeps of one user meet on a machine: locks, records, temporary files."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "ORCH_RUNTIME_DIR"
"""Names another folder; all sweeps that share GPUs or ports must be given the same."""
LONGEST_PATH = 39
"""Bytes. SGLang and Ray put sockets below it, and the address of a Unix socket has 107 at most: Ray
adds 64 (`/session_2026-01-31_23-59-59_123456_4194304/sockets/plasma_store`), and we `/r/r`."""


class RuntimeFolderError(OSError):
    """The folder cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class RuntimeFolder:
    """A folder that nobody else can read or write."""

    path: Path

    @classmethod
    def of_user(cls) -> "RuntimeFolder":
        """Return this user's folder, made if it is not there. Raises RuntimeFolderError."""
        # Neither TMPDIR nor XDG_RUNTIME_DIR: both differ between the sessions of one user.
        path = Path(os.environ.get(VARIABLE) or f"/tmp/orch-{os.getuid()}")
        if len(os.fsencode(path)) > LONGEST_PATH:
            raise RuntimeFolderError(f"{path} is longer than {LONGEST_PATH} bytes; set {VARIABLE}")
        _make_private(path)
        folder = cls(path)
        for part in (folder.ports, folder.trials, folder.hosts):
            part.mkdir(mode=0o700, exist_ok=True)
        return folder

    def for_ray(self) -> Path:
        """Return where Ray writes, made if it is not there. Raises RuntimeFolderError.

        Ray opens what it is given to all (mode 777, seen with 2.60), so it gets a folder in a
        closed one; and what the user names by the variable may be open to readers.
        """
        closed = self.path / "r"
        _make_private(closed)
        closed.chmod(0o700)
        folder = closed / "r"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    @property
    def ports(self) -> Path:
        """Return where each reserved port has a lock."""
        return self.path / "ports"

    @property
    def trials(self) -> Path:
        """Return where each trial that holds a reservation has a folder."""
        return self.path / "trials"

    @property
    def hosts(self) -> Path:
        """Return where each GPU or machine that a sweep has to itself has a lock."""
        return self.path / "hosts"


def _make_private(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise RuntimeFolderError(f"{path}: {error.strerror}; set {VARIABLE}") from error
    # Anyone may have made it first in a folder that all can write to.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise RuntimeFolderError(f"{path} belongs to somebody else, or others can write to it")
