"""The study that stays: an Optuna study in SQLite, written behind the sweep by one thread."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from orchestrator.search.seam import Proposal
from orchestrator.search.verdicts import Verdict
from sweeps.results import TrialResult

logger = logging.getLogger(__name__)

WRITE_BEHIND_S = 0.1
"""Wall seconds that a record waits, so as not to share the core with the start of a server."""


LOCK_WAIT_S = 120.0
"""Wall seconds that a write waits while somebody else has the file."""


class StudyFile:
    """Every proposal and its end, in order. optuna-dashboard opens it."""

    def __init__(self, path: Path, name: str, directions: Sequence[StudyDirection]) -> None:
        # A reader, such as a dashboard, may hold the file for a while: that fails no trial.
        patience = {"connect_args": {"timeout": LOCK_WAIT_S}}
        url = f"sqlite:///{path.absolute()}"
        self._study = optuna.create_study(
            storage=optuna.storages.RDBStorage(url, engine_kwargs=patience),
            study_name=name,
            directions=directions,
            load_if_exists=True,
        )
        self._closing = threading.Event()
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="study-writer")
        self._ids = {int(t.user_attrs["number"]): t._trial_id for t in self.trials()}

    def trials(self) -> list[FrozenTrial]:
        """Read the trials of earlier runs."""
        return self._study.get_trials(deepcopy=False)

    def started(self, proposal: Proposal, retry: int, drawn: Trial) -> None:
        """Have a proposal written as a running trial."""
        attributes = {
            "number": proposal.number, "config": dict(proposal.config),
            "purpose": proposal.purpose.value, "retry": retry, "why": proposal.why,
        }  # fmt: skip
        running = create_trial(
            state=TrialState.RUNNING,
            params=drawn.params,
            distributions=drawn.distributions,
            user_attrs=attributes,
        )
        self._do(lambda: self._add(proposal.number, running))

    def ended(self, number: int, verdict: Verdict, summary: Mapping[str, object]) -> None:
        """Have the end of a proposal written."""
        self._do(lambda: self._finish(number, verdict, summary))

    def close(self) -> None:
        """Wait for all that is still to be written."""
        self._closing.set()
        self._writer.shutdown(wait=True)

    def _do(self, write: Callable[[], None]) -> None:
        self._writer.submit(self._write_later, write).add_done_callback(_complain)

    def _write_later(self, write: Callable[[], None]) -> None:
        self._closing.wait(WRITE_BEHIND_S)
        write()

    def _add(self, number: int, running: FrozenTrial) -> None:
        self._ids[number] = self._study._storage.create_new_trial(
            self._study._study_id, template_trial=running
        )

    def _finish(self, number: int, verdict: Verdict, summary: Mapping[str, object]) -> None:
        trial = Trial(self._study, self._ids[number])
        trial.set_user_attr("result", dict(summary))  # one transaction, not one for each field
        verdict.tell(self._study, trial)


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
