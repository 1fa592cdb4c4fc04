"""The study that stays: an Optuna study in SQLite, written behind the sweep by one thread."""

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, KeysView, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import optuna
from optuna.exceptions import StorageInternalError
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from sqlalchemy.exc import OperationalError

from orchestrator.search.seam import Proposal
from orchestrator.sqlite_address import sqlite_uri
from sweeps.problems import BadInputError, Problem
from sweeps.results import TrialResult

logger = logging.getLogger(__name__)

WRITE_BEHIND_S = 0.1
"""Wall seconds that a record waits, so as not to share the core with the start of a server."""


LOCK_WAIT_S = 120.0
"""Wall seconds that a write waits while somebody else has the file."""

KEY = "space"
"""Attribute of a study: the hash of its parameters and goal."""


class StudyFile:
    """Every proposal and its end, in order. optuna-dashboard opens it."""

    def __init__(
        self, path: Path, name: str, directions: Sequence[StudyDirection], key: str = ""
    ) -> None:
        """`key` is a hash of the parameters and the goal: a study of others is made anew.

        Raises BadInputError where the file is locked, or is of another release of Optuna.
        """
        with _told_as_bad_input(path):
            set_damaged_aside(path)
            self._study = _open(path, name, directions, key)
            rows = _rows(path, self._study._study_id)
        self._ids = {number: trial_id for number, trial_id, _ in rows}
        self.ended_before = frozenset(number for number, _, ended in rows if ended)
        """Trials of earlier runs that stand as ended, by number."""
        self._closing = threading.Event()
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="study-writer")

    @property
    def numbers(self) -> KeysView[int]:
        """Return the numbers of all trials that are there."""
        return self._ids.keys()

    def trials(self) -> dict[int, FrozenTrial]:
        """Read all trials, by number: seconds where there are thousands."""
        read = self._study.get_trials(deepcopy=False)
        return {int(trial.user_attrs["number"]): trial for trial in read}

    def trial(self, number: int) -> FrozenTrial:
        """Read one trial."""
        return self._study._storage.get_trial(self._ids[number])

    def started(self, proposal: Proposal, drawn: Trial) -> None:
        """Have a proposal written as a running trial."""
        running = create_trial(
            state=TrialState.RUNNING,
            params=drawn.params,
            distributions=drawn.distributions,
            user_attrs=attributes_of(proposal),
        )
        self._do(lambda: self._add(proposal.number, running))

    def ended(self, number: int, told: FrozenTrial) -> None:
        """Have a trial written that has ended, whether its begin is in the file or not."""
        self._do(lambda: self._finish(number, told))

    def close(self) -> None:
        """Wait for all that is still to be written."""
        self._closing.set()
        self._writer.shutdown(wait=True)

    def _do(self, write: Callable[[], None]) -> None:
        self._writer.submit(self._write_later, write).add_done_callback(_complain)

    def _write_later(self, write: Callable[[], None]) -> None:
        self._closing.wait(WRITE_BEHIND_S)
        write()

    def _add(self, number: int, trial: FrozenTrial) -> None:
        self._ids[number] = self._study._storage.create_new_trial(
            self._study._study_id, template_trial=trial
        )

    def _finish(self, number: int, told: FrozenTrial) -> None:
        """Write a whole trial at once; where it stands as running, its end alone.

        Past the study: a `Trial` of it would have the sampler read all the others first.
        """
        storage = self._study._storage
        if number not in self._ids:
            self._add(number, told)
            return
        trial_id = self._ids[number]
        storage.set_trial_user_attr(trial_id, "result", told.user_attrs["result"])
        for step, value in told.intermediate_values.items():
            storage.set_trial_intermediate_value(trial_id, step, value)
        for key, value in told.system_attrs.items():
            storage.set_trial_system_attr(trial_id, key, value)
        storage.set_trial_state_values(trial_id, told.state, told.values)


def _rows(path: Path, study_id: int) -> list[tuple[int, int, bool]]:
    """Return number and id of each trial of a study, and whether it has ended.

    Past Optuna, which makes thousands of whole trials in seconds that a resume has not.
    """
    asked = (
        "SELECT a.value_json, t.trial_id, t.state FROM trials t JOIN trial_user_attributes a"
        " ON a.trial_id = t.trial_id AND a.key = 'number' WHERE t.study_id = ?"
    )
    with contextlib.closing(sqlite3.connect(path, timeout=LOCK_WAIT_S)) as file:
        found = file.execute(asked, (study_id,)).fetchall()
    return [(int(number), trial, TrialState[state].is_finished()) for number, trial, state in found]


def set_damaged_aside(path: Path) -> Path | None:
    """Rename a file that is no whole SQLite database; return its new name, None where all is well.

    Raises sqlite3.OperationalError where somebody holds it for too long.
    """
    if not path.exists() or _is_whole(path):
        return None
    number = 1 + sum(1 for _ in path.parent.glob(f"{path.name}.damaged-*"))
    aside = path.with_name(f"{path.name}.damaged-{number}")
    path.replace(aside)
    for rest in ("-journal", "-wal", "-shm"):
        Path(f"{path}{rest}").unlink(missing_ok=True)
    logger.warning(
        "%s was damaged and is kept as %s; this sweep's study is made again from its trials"
        " (`python -m orchestrator rebuild` makes those of all others)", path, aside.name,
    )  # fmt: skip
    return aside


def _is_whole(path: Path) -> bool:
    with contextlib.closing(sqlite3.connect(path, timeout=LOCK_WAIT_S)) as file:
        try:
            return bool(file.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            return False


def _open(path: Path, name: str, directions: Sequence[StudyDirection], key: str) -> optuna.Study:
    # A reader, such as a dashboard, may hold the file for a while: that fails no trial.
    patience = {"connect_args": {"timeout": LOCK_WAIT_S}}
    storage = optuna.storages.RDBStorage(sqlite_uri(path), engine_kwargs=patience)

    def made() -> optuna.Study:
        return optuna.create_study(
            storage=storage, study_name=name, directions=directions, load_if_exists=True
        )

    study = made()
    if not key or study.user_attrs.get(KEY) == key:
        return study
    if KEY in study.user_attrs:
        logger.warning("the study of %s had another space or goal: made again", name)
        optuna.delete_study(study_name=name, storage=storage)
        study = made()
    study.set_user_attr(KEY, key)
    return study


def drop_study(path: Path, name: str) -> None:
    """Forget a study, if the file has it."""
    storage = optuna.storages.RDBStorage(sqlite_uri(path))
    if name in optuna.get_all_study_names(storage):
        optuna.delete_study(study_name=name, storage=storage)


@contextlib.contextmanager
def _told_as_bad_input(path: Path) -> Iterator[None]:
    """Say in one line why a study file cannot be opened."""
    try:
        yield
    except (sqlite3.OperationalError, StorageInternalError, OperationalError) as error:
        why = f"it cannot be opened ({getattr(error, 'orig', None) or error})"
        mend = "End the program that holds it, or see to its rights."
        raise BadInputError("The study", [Problem("file", str(path), why, mend)]) from error
    except RuntimeError as error:
        why = f"another release of Optuna wrote it ({error})"
        mend = "Use that release, or another state folder."
        raise BadInputError("The study", [Problem("file", str(path), why, mend)]) from error


def attributes_of(proposal: Proposal) -> dict[str, object]:
    """Return what the study keeps of a proposal, beside its parameters."""
    return {
        "number": proposal.number, "config": dict(proposal.config),
        "purpose": proposal.purpose.value, "why": proposal.why, "retry_of": proposal.retry_of,
    }  # fmt: skip


def summary_of(result: TrialResult) -> dict[str, object]:
    """Return what the study keeps of a result; the trial's folder has all of it."""
    return {
        "outcome": result.outcome.value,
        "reason": result.reason,
        "trial": result.trial,
        "gpu_hours": result.gpu_hours,
        "gpu_seconds": 3600 * result.gpu_hours,
        "bound": result.bound,
        "signature": result.signature,
        "emulated": result.emulated,
        "metrics": {name: estimate.value for name, estimate in result.estimates.items()},
    }


def _complain(done: "Future[None]") -> None:
    error = done.exception()
    if error is not None:
        logger.error("the study file lacks a record; the trial's folder has it", exc_info=error)
