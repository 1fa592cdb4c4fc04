"""Where everything of a sweep lies on disk, and who may write there."""

import fcntl
import logging
import os
import platform
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from orchestrator.cards import checked_card
from orchestrator.files import read_json, read_result, write_json
from orchestrator.spool import read_spool
from orchestrator.sqlite_address import sqlite_uri
from sweeps.problems import BadInputError, Problem
from sweeps.results import TrialResult

logger = logging.getLogger(__name__)

RESULT_FILE = "result.json"
SPOOL_FILE = "spool.jsonl"

_NAME_CHARS = 80
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@:,= -]*")


class StateInUseError(Exception):
    """Another sweep writes to this state folder."""


class StateUnusableError(Exception):
    """The folder cannot be made or written."""


class OutsideStateError(BadInputError):
    """A name would lead out of the state folder."""

    def __init__(self, part: str, name: str, root: Path) -> None:
        why = f"it does not name a folder of {root}"
        mend = "Names start with a letter or digit and hold no slash."
        super().__init__("The state folder", [Problem(part, repr(name), why, mend)])


_OURS = {"lock", "sweeps", "hosts"}
"""Entries that only a state folder has."""


@dataclass(frozen=True, slots=True)
class State:
    """A state folder. Only the driver that holds its lock writes to it."""

    root: Path

    @property
    def study_path(self) -> Path:
        """Return the file of all Optuna studies, the source of truth of the search."""
        return self.root / "study.db"

    @property
    def mlflow_uri(self) -> str:
        """Return the address of the MLflow store."""
        return sqlite_uri(self.root / "mlflow.db")

    @property
    def artifact_root(self) -> Path:
        """Return where MLflow keeps its artifacts."""
        return self.root.absolute() / "artifacts"

    @property
    def recordings_path(self) -> Path:
        """Return where recorded output is kept, for all sweeps."""
        return self.root.absolute() / "recordings"

    @property
    def drafts_path(self) -> Path:
        """Return where what was drafted once is kept, for all sweeps; it may be deleted."""
        return self.root.absolute() / "drafts"

    @property
    def ray_path(self) -> Path:
        """Return where Ray Tune may write."""
        return self.root.absolute() / "ray"

    def sweep_folder(self, sweep_id: str) -> Path:
        """Return the folder of a sweep. Raises OutsideStateError."""
        return self._inside("sweeps", sweep_id)

    def trial_folder(self, sweep_id: str, number: int) -> Path:
        """Return the folder of a trial. Raises OutsideStateError."""
        return self.sweep_folder(sweep_id).absolute() / "trials" / f"{number:04d}"

    def host_folder(self, name: str) -> Path:
        """Return where an emulated host keeps what its servers share. Raises OutsideStateError."""
        return self._inside("hosts", name).absolute()

    def outbox_path(self, sweep_id: str) -> Path:
        """Return where what the tracker was told of a sweep waits to be sent."""
        return self.sweep_folder(sweep_id) / "outbox.jsonl"

    def unsent_outboxes(self, but: str = "") -> list[Path]:
        """Return the outboxes of all sweeps, oldest first, but for one."""
        paths = [self.outbox_path(name) for name in self.sweep_ids() if name != but]
        return [path for path in paths if path.exists()]

    def sweep_ids(self) -> list[str]:
        """List the sweeps, oldest first."""
        cards = (self.root / "sweeps").glob("*/sweep.json")
        names = [card.parent.name for card in cards]
        return sorted(filter(self._is_inside, names), key=self._age)

    def card(self, sweep_id: str) -> dict[str, object]:
        """Return what is known of a sweep as a whole; empty where there is none."""
        if not self._is_inside(sweep_id):
            return {}
        path = self.sweep_folder(sweep_id) / "sweep.json"
        return checked_card(path, read_json(path) or {})

    def write_card(self, sweep_id: str, card: dict[str, object]) -> None:
        """Replace what is known of a sweep as a whole; its place among the sweeps stays, and what
        `card` passes over in the file stays there."""
        path = self.sweep_folder(sweep_id) / "sweep.json"
        there = read_json(path) or {}
        unread = {n: v for n, v in there.items() if n not in checked_card(path, there)}
        known = [_place(self.card(other)) for other in self.sweep_ids() if other != sweep_id]
        place = _place(self.card(sweep_id)) or max(known, default=0) + 1
        write_json(path, {**unread, **card, "place": place})

    def results(self, sweep_id: str) -> list[TrialResult]:
        """Read the trials of a sweep that have ended and count, in the order of their numbers.

        Those that an edit of the space file left outside are passed over: see `ended`.
        """
        aside = self.set_aside(sweep_id)
        return [result for result in self.ended(sweep_id) if result.number not in aside]

    def ended(self, sweep_id: str) -> list[TrialResult]:
        """Read all trials of a sweep that have ended, in the order of their numbers.

        Where a kill came between the last record of a spool and the file of the result, the spool
        counts. Raises BadInputError for a spool of a newer version, or a file without a result.
        """
        return [result for _, result in self._ends(sweep_id) if result is not None]

    def set_aside(self, sweep_id: str) -> frozenset[int]:
        """Return the numbers of the trials that lie outside the space as it was edited."""
        numbers = self.card(sweep_id).get("aside")
        return frozenset(numbers) if isinstance(numbers, list) else frozenset()

    def next_number(self, sweep_id: str) -> int:
        """Return the first number that no trial of a sweep has had."""
        folders = (self.sweep_folder(sweep_id) / "trials").glob("*/")
        return max((int(f.name) + 1 for f in folders if f.name.isdecimal()), default=0)

    def unended(self, sweep_id: str) -> list[Path]:
        """Return the folders of trials that left no result: they run, or were killed."""
        return [folder for folder, result in self._ends(sweep_id) if result is None]

    def _ends(self, sweep_id: str) -> Iterator[tuple[Path, TrialResult | None]]:
        if self._is_inside(sweep_id):
            found = self.sweep_folder(sweep_id).absolute().glob("trials/*/")
            for folder in sorted(found, key=lambda path: (len(path.name), path.name)):
                yield folder, _result(folder)

    def identity(self) -> str:
        """Return which folder this is, on which machine: a copy is another one. Raises OSError."""
        found = self.root.stat()
        return f"{platform.node()}:{found.st_dev}:{found.st_ino}"

    @contextmanager
    def lock(self, sweep_id: str) -> Iterator[None]:
        """Hold the folder for one driver.

        Raises StateInUseError, naming the holder, or StateUnusableError.
        """
        with self._lock_file() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise StateInUseError(file.read().strip() or "unknown") from error
            try:
                file.truncate(0)
                file.write(f"{sweep_id}, process {os.getpid()}\n")
                file.flush()
            except OSError as error:
                raise StateUnusableError(f"it cannot be written: {error.strerror}") from error
            yield
            file.truncate(0)

    def _lock_file(self) -> IO[str]:
        sqlite_uri(self.root)  # a folder that no database can lie in is refused at once
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._keep_private()
            return (self.root / "lock").open("a+")
        except OSError as error:
            raise StateUnusableError(f"it cannot be written: {error.strerror}") from error

    def _keep_private(self) -> None:
        """Close a state folder to others; a folder that holds other things is left as it is."""
        mode = stat.S_IMODE(self.root.stat().st_mode)
        if not mode & 0o077:
            return
        if {entry.name for entry in self.root.iterdir()} & _OURS or self._is_empty():
            self.root.chmod(0o700)
        else:
            logger.warning("%s can be read by others, and so can the sweep's files", self.root)

    def _is_empty(self) -> bool:
        return not any(self.root.iterdir())

    def _inside(self, part: str, name: str) -> Path:
        folder = self.root / part / name
        if not _NAME.fullmatch(name) or folder.is_symlink():
            raise OutsideStateError(part, name, self.root)
        return folder

    def _is_inside(self, sweep_id: str) -> bool:
        try:
            self.sweep_folder(sweep_id)
        except OutsideStateError:
            return False
        return True

    def _age(self, sweep_id: str) -> tuple[int, str]:
        """Order by place: a clock that was set back does not make an old sweep the newest."""
        card = self.card(sweep_id)
        return _place(card), str(card.get("created_at", ""))


def new_sweep_id(name: str) -> str:
    """Name a sweep so that folders sort by time and no two are equal."""
    kept = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:_NAME_CHARS] or "sweep"
    return f"{kept}-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _result(folder: Path) -> TrialResult | None:
    """Return how a trial ended; of a result that is spoilt, what its spool says."""
    result = read_result(folder / RESULT_FILE)
    if result is not None:
        return result
    spool = folder / SPOOL_FILE
    return read_spool(spool).result if spool.exists() else None


def _place(card: dict[str, object]) -> int:
    place = card.get("place")
    return place if isinstance(place, int) else 0
