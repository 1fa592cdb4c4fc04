"""Keeps two sweeps off the same GPUs, or off the same emulated host, whoever has started them."""

import getpass
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
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
COMMON_FOLDER = Path("/tmp").resolve()
"""Where the sweeps of all users of a machine meet. It belongs to root: the owner of a folder could
remove the locks of others in it."""
_PREFIX = "orch-gpu-"
_TURN = f"{_PREFIX}turn"
"""Held by whoever takes a lock: only one at a time judges and replaces a stale one."""
_TURN_S = 30.0
_LONGEST_CHARS = 500
"""Of what a lock says of its owner; whoever wrote it may be anybody."""
_LOOK_S = 0.01
_SHARED = 0o1777
_MODE_S = 1.0


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
    try:
        is_new = _make(COMMON_FOLDER)
        fd = os.open(COMMON_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise RuntimeFolderError(f"{COMMON_FOLDER}: {error.strerror}; {_remedy()}") from error
    try:
        if is_new:
            os.fchmod(fd, _SHARED)
        _refuse_unsafe(fd)
    finally:
        os.close(fd)
    return COMMON_FOLDER


def _make(folder: Path) -> bool:
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


def _refuse_unsafe(fd: int) -> None:
    """See that each user may add to the folder and remove only theirs, whoever has made it."""
    until_s = time.monotonic() + _MODE_S
    while stat.S_IMODE(os.fstat(fd).st_mode) != _SHARED:
        # Whoever has just made it may not have given it its mode yet.
        if time.monotonic() >= until_s:
            raise RuntimeFolderError(f"{COMMON_FOLDER} must be a folder of mode 1777: {_remedy()}")
        time.sleep(_LOOK_S)
    if os.fstat(fd).st_uid not in (0, os.getuid()):
        why = "belongs to another user, who could remove the locks in it"
        raise RuntimeFolderError(f"{COMMON_FOLDER} {why}: {_remedy()}")


def _remedy() -> str:
    return f"as root: install -d -m 1777 {COMMON_FOLDER}; or set {runtime_folder.VARIABLE}"


def held_locks(folder: Path | None = None) -> list[HeldLock]:
    """Return what sweeps have on this machine now, stale locks among it. Raises OSError."""
    place = common_folder() if folder is None else folder
    found = []
    for path in sorted(place.glob(f"{_PREFIX}*.lock")):
        with suppress(OSError):
            text = file_lock.holder(path)
            found += [lock] if text and (lock := _read(text)) else []
    return sorted(found, key=lambda lock: lock.name)


def lock_path(place: Path, name: str) -> Path:
    """Return the lock of a GPU or machine; any name will do."""
    return place / f"{_PREFIX}{digest(name)}.lock"


def _take(place: Path, name: str, owner: str) -> FileLock:
    until_s = time.monotonic() + PATIENCE_S
    while True:
        with _turn(place, name):
            lock = _take_now(lock_path(place, name), _text(name, owner))
        if isinstance(lock, FileLock):
            return lock
        if time.monotonic() >= until_s:
            raise HostInUseError(name, str(lock) if lock else "")
        time.sleep(_LOOK_S)


@contextmanager
def _turn(place: Path, name: str) -> Iterator[None]:
    """Let one at a time take locks. Raises HostInUseError where it never comes to us."""
    turn = FileLock.take(place / _TURN, patience_s=_TURN_S, shared=True)
    if turn is None:
        raise HostInUseError(name, f"another process, which holds {place / _TURN}")
    try:
        yield
    finally:
        turn.release()


def _take_now(path: Path, text: str) -> "FileLock | HeldLock | None":
    """Take a lock, or tell who has it; None where that is unknown. Only for who has the turn.

    Judging a lock and replacing it are two steps: another who judged before us would replace ours.
    """
    lock = FileLock.take(path, text, shared=True)
    if lock is not None:
        return lock
    holder = _read(file_lock.holder(path) or "")
    if holder is None or not holder.stale:
        return holder
    # Its process has left the lock to a child, or its file system never gives one back.
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return holder  # in a folder where each removes only their own
    return FileLock.take(path, text, shared=True)


def _text(name: str, owner: str) -> str:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    data = {"name": name, "owner": owner, "since": since, "process": ProcessId.own().as_data()}
    return json.dumps(data)


def _read(text: str) -> HeldLock | None:
    """Read what a lock says; None for what no sweep of ours wrote."""
    try:
        data = json.loads(text)
        name, owner, since = (_words(data[key]) for key in ("name", "owner", "since"))
        process = _process(data["process"])
        return HeldLock(name, owner, since, process, process.is_gone())
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _words(value: object) -> str:
    """Return a text that can be shown. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError
    return "".join(c if c.isprintable() else "?" for c in value[:_LONGEST_CHARS])


def _process(data: Mapping[str, object]) -> ProcessId:
    """Return the process of a record. Raises TypeError."""
    process = ProcessId(**data)  # type: ignore[arg-type] # what it holds is looked at here
    for name, value in process.as_data().items():
        wanted = int if name in ("pid", "started_ticks") else str
        if type(value) is not wanted:
            raise TypeError
    return process


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"user {os.getuid()}"
