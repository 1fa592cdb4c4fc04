"""Where everything of a sweep lies on disk, and who may write there."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from orchestrator.files import read_json, write_json
from sweeps.results import TrialResult


class StateInUseError(Exception):
    """Another sweep writes to this state folder."""


class StateUnusableError(Exception):
    """The folder cannot be made or written."""


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
        return f"sqlite:///{self.root.absolute() / 'mlflow.db'}"

    @property
    def artifact_root(self) -> Path:
        """Return where MLflow keeps its artifacts."""
        return self.root.absolute() / "artifacts"

    @property
    def ray_path(self) -> Path:
        """Return where Ray Tune may write."""
        return self.root.absolute() / "ray"

    def sweep_folder(self, sweep_id: str) -> Path:
        """Return the folder of a sweep."""
        return self.root / "sweeps" / sweep_id

    def trial_folder(self, sweep_id: str, number: int) -> Path:
        """Return the folder of a trial."""
        return self.sweep_folder(sweep_id).absolute() / "trials" / f"{number:04d}"

    def host_folder(self, name: str) -> Path:
        """Return where an emulated host keeps what its servers share."""
        return self.root.absolute() / "hosts" / name

    def sweep_ids(self) -> list[str]:
        """List the sweeps, oldest first."""
        cards = (self.root / "sweeps").glob("*/sweep.json")
        return sorted((card.parent.name for card in cards), key=self._age)

    def card(self, sweep_id: str) -> dict[str, object]:
        """Return what is known of a sweep as a whole; empty where there is none."""
        return read_json(self.sweep_folder(sweep_id) / "sweep.json") or {}

    def write_card(self, sweep_id: str, card: dict[str, object]) -> None:
        """Replace what is known of a sweep as a whole."""
        write_json(self.sweep_folder(sweep_id) / "sweep.json", card)

    def results(self, sweep_id: str) -> list[TrialResult]:
        """Read the trials of a sweep that have ended, in the order of their numbers."""
        files = sorted(self.sweep_folder(sweep_id).glob("trials/*/result.json"))
        read = (read_json(file) for file in files)
        return [TrialResult.from_data(data) for data in read if data is not None]

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
            file.truncate(0)
            file.write(f"{sweep_id}, process {os.getpid()}\n")
            file.flush()
            yield
            file.truncate(0)

    def _lock_file(self) -> IO[str]:
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            return (self.root / "lock").open("a+")
        except OSError as error:
            raise StateUnusableError(f"it cannot be written: {error.strerror}") from error

    def _age(self, sweep_id: str) -> str:
        return str(self.card(sweep_id).get("created_at", ""))


def new_sweep_id(name: str) -> str:
    """Name a sweep so that folders sort by time and no two are equal."""
    return f"{name}-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
