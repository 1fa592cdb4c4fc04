"""Keeps two sweeps off the same GPUs, or off the same emulated host."""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from infra import file_lock
from infra.file_lock import FileLock
from infra.host import HostError
from infra.runtime_folder import RuntimeFolder
from sweeps.values import digest

PATIENCE_S = 0.2
"""Wall seconds; somebody who only looks at a lock holds it for less."""


class HostInUseError(HostError):
    """Another sweep has it; the message names that sweep, its process and its state folder."""

    def __init__(self, name: str, owner: str) -> None:
        super().__init__(f"{name} is in use by {owner or 'another sweep'}")
        self.name = name
        self.owner = owner


def owner_text(sweep: str, state_folder: Path) -> str:
    """Return how a sweep of this process names itself to others."""
    return f"sweep {sweep}, process {os.getpid()}, state folder {state_folder.absolute()}"


@contextmanager
def host_lock(names: Iterable[str], owner: str, folder: Path | None = None) -> Iterator[None]:
    """Hold all of some GPUs (by UUID) or machines (by name) for this process, or none of them.

    The locks lie in the user's runtime folder, or in `folder`, which all who share the host must
    name; they end with the process. Raises HostInUseError, or OSError for an unusable folder.
    """
    place = RuntimeFolder.of_user().hosts if folder is None else folder
    with ExitStack() as held:
        # Everybody in the same order, so that of two at once one gets all.
        for name in sorted(set(names)):
            path = lock_path(place, name)
            lock = FileLock.take(path, f"{name}: {owner}", patience_s=PATIENCE_S)
            if lock is None:
                text = file_lock.holder(path) or ""
                raise HostInUseError(name, text.removeprefix(f"{name}: "))
            held.callback(lock.release)
        yield


def lock_path(place: Path, name: str) -> Path:
    """Return the lock of a GPU or machine; any name will do."""
    return place / f"{digest(name)}.lock"
