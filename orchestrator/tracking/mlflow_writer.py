"""The tracker that writes to MLflow, from one thread of its own; the only importer of MLflow."""

import contextlib
import logging
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Lock

from infra.redaction import Redactor
from orchestrator.files import write_json
from orchestrator.journal import DiskError
from orchestrator.sqlite_address import path_in, sqlite_uri
from orchestrator.tracking.events import (
    Event,
    SweepEnded,
    SweepsDied,
    SweepStarted,
    TrialEnded,
    TrialFiles,
    TrialStarted,
    card_data,
)
from orchestrator.tracking.legal import NAME_TAG, Limits
from orchestrator.tracking.mlflow_api import MlflowApi
from orchestrator.tracking.mlflow_runs import MlflowRuns
from orchestrator.tracking.mlflow_store import MlflowStore
from orchestrator.tracking.outbox import Outbox
from orchestrator.tracking.review import SweepReview
from orchestrator.tracking.seam import Sample, SweepCard, TrialCard
from orchestrator.tracking.tracking_uri import is_remote
from orchestrator.tracking.writer_loop import Backoff, WriterLoop
from sweeps.results import TrialResult

log = logging.getLogger(__name__)

CARD_FILE = "tracker.json"
"""Beside the outbox: the card of the sweep, from which its run can be made again."""

TOLD_FILE = ".told"
"""In the folder of a trial whose end was told: a driver that is killed just before it tells it
leaves a result without."""

_ENVIRONMENT = {
    # The writer tries again by itself, and can be told to stop; MLflow's own tries cannot.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}

_HALF_MADE = ".mlflow-new-"
_PREFLIGHT_TEXT = "written to see whether files are taken"


class MlflowWriter:
    """A tracker whose every call to MLflow is made by one thread; see `Tracker` for its promises.

    What it is told lies in the file `outbox_path` until it is sent: what a killed driver did not
    send, the next writer on the same file does, or one that gets the file among its `earlier` ones.
    Without a path, a temporary file serves as long as the process lives.

    MLflow is imported at the first event. `linger_s` is how long samples are gathered, in wall
    seconds. Raises DiskError or BadInputError for an outbox that cannot be used.
    """

    def __init__(
        self,
        store_uri: str,
        artifact_root: Path,
        experiment: str,
        *,
        outbox_path: Path | None = None,
        earlier: Sequence[Path] = (),
        backoff: Backoff | None = None,
        linger_s: float = 2.0,
    ) -> None:
        """Raise ValueError for a sqlite file whose path would depend on the working directory."""
        if store_uri.startswith("sqlite:") and not store_uri.startswith("sqlite:////"):
            raise ValueError(f"the path in {store_uri} is not absolute")
        self._scratch = None if outbox_path else tempfile.TemporaryDirectory(prefix="outbox-")
        self._card_path = outbox_path.with_name(CARD_FILE) if outbox_path else None
        path = outbox_path or Path(self._scratch.name if self._scratch else "") / "outbox.jsonl"
        self._outbox = Outbox(path, linger_s)
        self._sweep = ""
        self._stamp_lock = Lock()
        self._stamp_ms = self._outbox.stamp_ms
        store = MlflowStore(mlflow_runs(store_uri, artifact_root, experiment))
        self._loop = WriterLoop(self._outbox, store, backoff, earlier)

    @property
    def failures(self) -> int:
        """Return how many attempts to write have failed."""
        return self._loop.failures

    @property
    def waiting(self) -> int:
        """Return how many events and samples are still to be sent for the first time."""
        return self._outbox.waiting

    @property
    def refused(self) -> int:
        """Return how many events the store answered to with a refusal, and did not take since."""
        return self._outbox.aside

    def close_stale(self, sweep_ids: Sequence[str]) -> None:
        """End the runs of sweeps whose drivers are gone. To be told before `sweep_started`."""
        if sweep_ids:
            now_ms = self._now_ms()
            self._put(SweepsDied(tuple(sweep_ids), now_ms), now_ms)

    def sweep_started(self, card: SweepCard) -> None:
        """Open the run of the sweep, or open it again."""
        self._sweep = card.sweep
        if self._card_path is not None:
            try:
                write_json(self._card_path, card_data(card))
            except (DiskError, TypeError, ValueError) as error:
                log.warning("sweep=%s its card is not kept: %s", card.sweep, error)
        now_ms = self._now_ms()
        self._put(SweepStarted(card, now_ms), now_ms)

    def trial_started(self, card: TrialCard) -> None:
        """Open a run under that of the sweep."""
        now_ms = self._now_ms()
        self._put(TrialStarted(card, now_ms), now_ms)

    def progress(self, trial: str, sample: Sample) -> None:
        """Add to the time series of a trial; its step is the whole elapsed second."""
        if not sample.elapsed_s >= 0 or sample.elapsed_s == float("inf"):
            log.debug("trial=%s a sample at %s s has no place in time", trial, sample.elapsed_s)
        elif not self._outbox.put_sample(trial, sample, self._now_ms()):
            log.debug("trial=%s a sample came after the end and is not kept", trial)

    def trial_ended(self, result: TrialResult, folder: Path) -> None:
        """Write the result and the files of a trial, and end its run."""
        now_ms = self._now_ms()
        kept = self._put(TrialEnded(result, folder.absolute(), now_ms), now_ms)
        self._put(TrialFiles(result.trial, result.sweep, folder.absolute()), now_ms)
        if kept and self._outbox.sync():  # a power cut must not keep the mark and lose the line
            with contextlib.suppress(OSError):
                (folder / TOLD_FILE).touch()

    def sweep_ended(self, status: str, review: SweepReview | None = None) -> None:
        """Write the count of each outcome and what the sweep came to, and end its run."""
        now_ms = self._now_ms()
        self._put(SweepEnded(self._sweep, status, now_ms, review), now_ms)

    def wait_open(self, deadline_s: float) -> bool:
        """Wait until MLflow is imported and its store is open, once something was told."""
        return self._loop.wait_open(deadline_s)

    def close(self, deadline_s: float) -> bool:
        """Write what is left within wall seconds; False if any of it is not written."""
        complete = self._loop.close(deadline_s)
        if self._scratch is not None and not self._loop.is_running:
            self._scratch.cleanup()
        return complete

    def _put(self, event: Event, at_ms: int) -> bool:
        kept = self._outbox.put(event, at_ms)
        if not kept:
            log.debug("%s came after the end, or is lost", type(event).__name__)
        return kept

    def _now_ms(self) -> int:
        """Return a time that no earlier call returned: of equal times MLflow keeps the larger.

        It never goes back, also where the clock does, or did since an earlier driver.
        """
        with self._stamp_lock:
            self._stamp_ms = max(self._stamp_ms + 1, time.time_ns() // 1_000_000)
            return self._stamp_ms


def mlflow_runs(store_uri: str, artifact_root: Path, experiment: str) -> MlflowRuns:
    """Return the runs of a store, which is opened at the first use."""
    root = None if is_remote(store_uri) else artifact_root.absolute()
    return MlflowRuns(partial(load_mlflow, store_uri), root, experiment)


def check_store(store_uri: str, artifact_root: Path, experiment: str) -> str | None:
    """Write a small file to a store, read it back, and remove it; return what went wrong.

    Blocks for as long as opening the store takes, or MLflow's own time-outs.
    """
    runs = mlflow_runs(store_uri, artifact_root, experiment)
    where, text = store_uri, _PREFLIGHT_TEXT
    try:
        made = runs.client.create_run(runs.experiment_id, tags={"kind": "preflight"})
        run_id, where = made.info.run_id, made.info.artifact_uri
        try:
            with tempfile.TemporaryDirectory() as folder:
                runs.client.log_text(run_id, text, "preflight.txt")
                read = Path(runs.client.download_artifacts(run_id, "preflight.txt", folder))
                same = read.read_text() == text
        finally:
            runs.client.set_terminated(run_id)
            runs.client.delete_run(run_id)
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything
        reason = Redactor.from_environment().text(f"{type(error).__name__}: {error}")
        return f"{Redactor.from_environment().text(where)} takes no files: {reason[:500]}"
    return None if same else f"{where} gives back other files than it was given"


def load_mlflow(uri: str) -> MlflowApi:
    """Import MLflow, which takes seconds, and open a store, which may migrate it."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # MLflow 3.17 maps a relation with an option that SQLAlchemy 2.1 deprecates.
    warnings.filterwarnings("ignore", "The ``noload`` loader strategy", DeprecationWarning)
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.exceptions import MlflowException
    from mlflow.utils import validation

    _quiet("mlflow", logging.WARNING)
    _quiet("alembic", logging.WARNING)
    # It logs the error that it then raises, and the writer logs what is raised.
    _quiet("mlflow.store.db.utils", logging.CRITICAL)
    if path := path_in(uri):
        _make_whole(path)
    limits = Limits(
        # A changed name stands in the name of a tag too.
        name_chars=validation.MAX_ENTITY_KEY_LENGTH - len(NAME_TAG),
        param_chars=validation.MAX_PARAM_VAL_LENGTH,
        tag_chars=validation.MAX_TAG_VAL_LENGTH,
        metrics_per_batch=validation.MAX_METRICS_PER_BATCH,
        texts_per_batch=validation.MAX_PARAMS_TAGS_PER_BATCH,
        all_per_batch=validation.MAX_ENTITIES_PER_BATCH,
        batch_bytes=validation.MAX_BATCH_LOG_REQUEST_SIZE,
    )
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    return MlflowApi(client, Metric, Param, RunTag, MlflowException, limits)


def _make_whole(path: Path) -> None:
    """Make a store beside its place, and put it there once it is whole.

    One whose maker was killed between two steps of MLflow's schema could not be opened any more.
    """
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f"{_HALF_MADE}*"):
        shutil.rmtree(left, ignore_errors=True)
    from mlflow import MlflowClient

    with tempfile.TemporaryDirectory(prefix=_HALF_MADE, dir=path.parent) as folder:
        made = Path(folder) / path.name
        MlflowClient(tracking_uri=sqlite_uri(made)).search_experiments(max_results=1)
        made.rename(path)


def _quiet(name: str, level: int) -> None:
    logger = logging.getLogger(name)
    logger.setLevel(max(level, logger.level))
