"""Keeps two sweeps off the same GPUs, or off the same emulated host, whoever has started them."""

import getpass
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from infra import file_lock, runtime_folder
from infra.file_lock import FileLock
from infra.host import HostError
from infra.process_id import ProcessId
from infra.runtime_folder import RuntimeFolder, RuntimeFolderError
from sweeps.values import digest

PATIENCE_S = 0.2
"""Wall seconds; somebody who only looks at a lock holds it for less."""
COMMON_FOLDER = Path("/tmp/orch-hosts")
"""Where the sweeps of all users of a machine meet."""


class HostInUseError(HostError):
    """Another sweep has it; the message names that sweep, its process and its state folder."""

    def __init__(self, name: str, owner: str) -> None:
        super().__init__(f"{name} is in use by {owner or 'another sweep'}")
        self.name = name
        self.owner = owner


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A GPU or machine that a sweep has, as its lock says."""

    name: str
    owner: str
    """Sweep, process, user and state folder, in words."""
    since: str
    process: ProcessId
    stale: bool = False
    """The process that took it has ended, or the machine was started anew: it does not count."""

    def __str__(self) -> str:
        gone = "; that process has ended" if self.stale else ""
        return f"{self.owner}, since {self.since}{gone}"


def owner_text(sweep: str, state_folder: Path) -> str:
    """Return how a sweep of this process names itself to others."""
    who = f"process {os.getpid()} of {_user()}"
    return f"sweep {sweep}, {who}, state folder {state_folder.absolute()}"


@contextmanager
def host_lock(names: Iterable[str], owner: str, folder: Path | None = None) -> Iterator[None]:
    """Hold all of some GPUs (by UUID) or machines (by name) for this process, or none of them.

    The locks lie where all users of the machine meet, or in `folder`, which all who share the host
    must name; they end with the process. Raises HostInUseError, or OSError for an unusable folder.
    """
    place = common_folder() if folder is None else folder
    with ExitStack() as held:
        # Everybody in the same order, so that of two at once one gets all.
        for name in sorted(set(names)):
            held.callback(_take(place, name, owner).release)
        yield


def common_folder() -> Path:
    """Return the folder of the machine's locks, made if it is not there. Raises OSError."""
    if os.environ.get(runtime_folder.VARIABLE):
        return RuntimeFolder.of_user().hosts
    with suppress(FileExistsError):
        COMMON_FOLDER.mkdir()
        COMMON_FOLDER.chmod(0o1777)
    found = COMMON_FOLDER.lstat()
    # Each may add to it, and remove only what is theirs.
    if not stat.S_ISDIR(found.st_mode) or stat.S_IMODE(found.st_mode) != 0o1777:
        raise RuntimeFolderError(f"{COMMON_FOLDER} must be a folder of mode 1777")
    return COMMON_FOLDER


def held_locks(folder: Path | None = None) -> list[HeldLock]:
    """Return what sweeps have on this machine now, stale locks among it. Raises OSError."""
    place = common_folder() if folder is None else folder
    found = []
    for path in sorted(place.glob("*.lock")):
        with suppress(OSError):
            text = file_lock.holder(path)
            found += [lock] if text and (lock := _read(text)) else []
    return sorted(found, key=lambda lock: lock.name)


def lock_path(place: Path, name: str) -> Path:
    """Return the lock of a GPU or machine; any name will do."""
    return place / f"{digest(name)}.lock"


def _take(place: Path, name: str, owner: str) -> FileLock:
    path = lock_path(place, name)
    for _ in range(2):
        text = _text(name, owner)
        lock = FileLock.take(path, text, patience_s=PATIENCE_S, shared=True)
        if lock is not None:
            return lock
        holder = _read(file_lock.holder(path) or "")
        if holder is None or not holder.stale:
            break
        # Its process has left the lock to a child, or its file system never gives one back.
        path.unlink(missing_ok=True)
    raise HostInUseError(name, str(holder) if holder else "")


def _text(name: str, owner: str) -> str:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    data = {"name": name, "owner": owner, "since": since, "process": ProcessId.own().as_data()}
    return json.dumps(data)


def _read(text: str) -> HeldLock | None:
    try:
        data = json.loads(text)
        process = ProcessId(**data["process"])
        return HeldLock(data["name"], data["owner"], data["since"], process, process.is_gone())
    except (ValueError, TypeError, KeyError):
        return None


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"user {os.getuid()}"
