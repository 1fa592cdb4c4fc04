"""The tracker that writes to MLflow, from one thread of its own."""

import logging
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, TypeVar

from orchestrator.tracking import run_content, ui_view
from orchestrator.tracking.attachments import attachments
from orchestrator.tracking.outbox import (
    Event,
    Outbox,
    Progress,
    SweepEnded,
    SweepStarted,
    TrialEnded,
    TrialStarted,
)
from orchestrator.tracking.seam import Sample, SweepCard, TrialCard
from orchestrator.tracking.writer_loop import WriterLoop
from sweeps.results import Outcome, TrialResult

log = logging.getLogger(__name__)

_T = TypeVar("_T")

_ENVIRONMENT = {
    # The default of 7 retries holds the thread for two minutes when a server is down.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}


def sqlite_uri(path: Path) -> str:
    """Return the address of a store in a file, wherever it is used from."""
    return f"sqlite:///{path.absolute()}"


class MlflowWriter:
    """A tracker whose every call to MLflow is made by one thread; see `Tracker` for its promises.

    MLflow is imported at the first event. `backoff_s` are the waits between tries of one call,
    and `linger_s` is how long samples are gathered; both in wall seconds.
    """

    def __init__(
        self,
        store_uri: str,
        artifact_root: Path,
        experiment: str,
        *,
        backoff_s: Sequence[float] = (0.2, 1.0, 4.0),
        linger_s: float = 2.0,
    ) -> None:
        """Raise ValueError for a sqlite file whose path would depend on the working directory."""
        if store_uri.startswith("sqlite:") and not store_uri.startswith("sqlite:////"):
            raise ValueError(f"the path in {store_uri} is not absolute")
        self._store = _Store(store_uri, artifact_root.absolute(), experiment)
        self._outbox = Outbox(linger_s)
        self._sweep = ""
        self._stamp_lock = Lock()
        self._stamp_ms = 0
        self._loop = WriterLoop(self._outbox, self._store.write, self._store.forget_runs, backoff_s)

    @property
    def failures(self) -> int:
        """Return how many attempts to write have failed."""
        return self._loop.failures

    @property
    def unwritten(self) -> tuple[Event, ...]:
        """Return what was tried as often as it may be and is not written."""
        return tuple(self._loop.unwritten)

    @property
    def waiting(self) -> int:
        """Return how many events and samples are still to be tried."""
        return self._outbox.waiting

    def sweep_started(self, card: SweepCard) -> None:
        """Open the run of the sweep, or open it again."""
        self._sweep = card.sweep
        self._put(SweepStarted(card, self._now_ms()))

    def trial_started(self, card: TrialCard) -> None:
        """Open a run under that of the sweep."""
        self._put(TrialStarted(card, self._now_ms()))

    def progress(self, trial: str, sample: Sample) -> None:
        """Add to the time series of a trial; its step is the whole elapsed second."""
        if not sample.elapsed_s >= 0 or sample.elapsed_s == float("inf"):
            log.debug("trial=%s a sample at %s s has no place in time", trial, sample.elapsed_s)
        elif not self._outbox.put_sample(trial, sample, self._now_ms()):
            log.debug("trial=%s a sample came after the end and is not kept", trial)

    def trial_ended(self, result: TrialResult, folder: Path) -> None:
        """Write the result and the files of a trial, and end its run."""
        self._put(TrialEnded(result, folder, self._now_ms()))

    def sweep_ended(self, status: str) -> None:
        """Write the count of each outcome and the best value, and end the run of the sweep."""
        self._put(SweepEnded(self._sweep, status, self._now_ms()))

    def wait_open(self, deadline_s: float) -> bool:
        """Wait until MLflow is imported and its store is open, once something was told."""
        return self._loop.wait_open(deadline_s)

    def close(self, deadline_s: float) -> bool:
        """Write what is left within wall seconds; False if any of it is not written."""
        return self._loop.close(deadline_s)

    def _put(self, event: Event) -> None:
        if not self._outbox.put(event):
            log.debug("%s came after the end and is not kept", type(event).__name__)

    def _now_ms(self) -> int:
        """Return a time that no earlier call returned: of equal times MLflow keeps the larger."""
        with self._stamp_lock:
            self._stamp_ms = max(self._stamp_ms + 1, time.time_ns() // 1_000_000)
            return self._stamp_ms


@dataclass(frozen=True, slots=True)
class _Mlflow:
    """What is used of MLflow: three makers, and the limits that it states."""

    client: Any
    metric: Any
    param: Any
    run_tag: Any
    exception: type[Exception]
    param_chars: int
    tag_chars: int
    metrics_per_batch: int
    texts_per_batch: int


@dataclass(slots=True)
class _Store:
    """An MLflow store. Used by the writer's thread alone; its errors are MLflow's."""

    uri: str
    artifact_root: Path
    experiment: str
    _mlflow: _Mlflow | None = None
    _experiment_id: str = ""
    _cards: dict[str, SweepCard] = field(default_factory=dict)
    _runs: dict[tuple[str, str], str] = field(default_factory=dict)

    def write(self, event: Event) -> None:
        """Write one event; writing it again changes nothing."""
        match event:
            case SweepStarted(card, at_ms):
                self._cards[card.sweep] = card
                self._start_sweep(card, at_ms)
            case TrialStarted(card, at_ms):
                self._start_trial(card, at_ms)
            case Progress(trial, samples):
                self._add_samples(trial, samples)
            case TrialEnded(result, folder, at_ms):
                self._end_trial(result, folder, at_ms)
            case SweepEnded(sweep, status, at_ms):
                self._end_sweep(sweep, status, at_ms)

    def forget_runs(self) -> None:
        """Look every run up again: one may have been deleted by hand."""
        self._runs.clear()

    def _start_sweep(self, card: SweepCard, at_ms: int) -> None:
        run_id = self._find("sweep", card.sweep)
        if run_id is None:
            run_id = self._create_sweep(card, at_ms)
        else:
            self._reopen(run_id, at_ms)
        self._log_tags(run_id, run_content.sweep_tags(card))
        self._log_params(run_id, card.params)
        view = ui_view.view_state(
            run_content.key(card.objective), higher_is_better=card.higher_is_better
        )
        self._client.set_experiment_tag(self._experiment_id, ui_view.VIEW_TAG, view)

    def _create_sweep(self, card: SweepCard, at_ms: int) -> str:
        tags = run_content.sweep_tags(card)
        name = run_content.sweep_name(card)
        return self._create("sweep", card.sweep, name, self._cut_tags(tags), at_ms)

    def _start_trial(self, card: TrialCard, at_ms: int, started_ms: int | None = None) -> str:
        run_id = self._find("trial", card.trial, card.sweep)
        if run_id is not None:
            self._reopen(run_id, at_ms)
        else:
            tags = self._cut_tags(run_content.trial_tags(card))
            if parent := self._parent(card.sweep, at_ms):
                tags["mlflow.parentRunId"] = parent
            shown = run_content.trial_name(card)
            run_id = self._create("trial", card.trial, shown, tags, started_ms or at_ms)
        self._log_params(run_id, run_content.requested(card.config))
        return run_id

    def _reopen(self, run_id: str, at_ms: int) -> None:
        """Set a run to running, unless it ended later than what is only now written."""
        ended_ms = self._client.get_run(run_id).info.end_time
        if ended_ms is None or ended_ms < at_ms:
            self._client.update_run(run_id, status="RUNNING")

    def _parent(self, sweep: str, at_ms: int) -> str | None:
        found = self._find("sweep", sweep)
        card = self._cards.get(sweep)
        return found if found or card is None else self._create_sweep(card, at_ms)

    def _add_samples(self, trial: str, samples: Mapping[int, tuple[Sample, int]]) -> None:
        run_id = self._find("trial", trial)
        if run_id is None:
            log.debug("trial=%s was never started; its samples are not kept", trial)
            return
        series = (
            (name, number, at_ms, step)
            for step, (sample, at_ms) in samples.items()
            for name, number in run_content.sample_metrics(sample).items()
        )
        self._log_metrics(run_id, series)

    def _end_trial(self, result: TrialResult, folder: Path, at_ms: int) -> None:
        started_ms = run_content.started_ms(result)
        run_id = self._start_trial(run_content.card_of(result), at_ms, started_ms)
        self._log_params(run_id, run_content.effective(result))
        self._log_tags(run_id, run_content.result_tags(result))
        numbers = run_content.result_metrics(result)
        self._log_metrics(run_id, ((name, n, at_ms, 0) for name, n in numbers.items()))
        status = run_content.RUN_STATUS[result.outcome]
        self._client.set_terminated(run_id, status=status, end_time=at_ms)
        with TemporaryDirectory() as scratch:
            for path in attachments(folder, Path(scratch)):
                self._client.log_artifact(run_id, str(path))

    def _end_sweep(self, sweep: str, status: str, at_ms: int) -> None:
        run_id = self._parent(sweep, at_ms)
        if run_id is None:
            log.debug("sweep=%s was never started; its end is not kept", sweep)
            return
        trials = list(self._search(f"tags.mlflow.parentRunId = '{run_id}'"))
        numbers = _outcome_counts(trials)
        if (card := self._cards.get(sweep)) and (best := _best(trials, card)):
            numbers[run_content.key(f"best_observed_{card.objective}")] = best[0]
            self._log_tags(run_id, {"best_observed_trial": best[1]})
        self._log_metrics(run_id, ((name, n, at_ms, 0) for name, n in numbers.items()))
        self._log_tags(run_id, {"status": status})
        run_status = run_content.sweep_status(status)
        self._client.set_terminated(run_id, status=run_status, end_time=at_ms)

    def _find(self, kind: str, name: str, sweep: str | None = None) -> str | None:
        """Return the id of the run of a sweep or trial; None where there is none."""
        if (kind, name) not in self._runs:
            asked = f"tags.kind = '{kind}' and tags.{kind} = {_quoted(name)}"
            if sweep is not None:
                asked += f" and tags.sweep = {_quoted(sweep)}"
            for run in islice(self._search(asked), 1):
                self._runs[kind, name] = run.info.run_id
        return self._runs.get((kind, name))

    def _search(self, asked: str) -> Iterator[Any]:
        self._open()
        token = None
        while True:
            page = self._client.search_runs([self._experiment_id], asked, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _create(self, kind: str, name: str, shown: str, tags: Mapping[str, str], at_ms: int) -> str:
        self._open()
        run = self._client.create_run(self._experiment_id, at_ms, tags, shown)
        self._runs[kind, name] = str(run.info.run_id)
        return self._runs[kind, name]

    def _log_params(self, run_id: str, params: Mapping[str, str]) -> None:
        """Log parameters. One that has changed becomes a tag: MLflow refuses to change it."""
        known = self._client.get_run(run_id).data.params
        limit = self._api.param_chars
        texts = {name: run_content.cut(text, limit) for name, text in params.items()}
        new = [self._api.param(name, t) for name, t in texts.items() if name not in known]
        for batch in _batches(new, self._api.texts_per_batch):
            self._client.log_batch(run_id, params=batch)
        self._log_tags(run_id, {n: t for n, t in texts.items() if known.get(n, t) != t})

    def _log_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        cut = self._cut_tags(tags)
        made = [self._api.run_tag(name, text) for name, text in cut.items()]
        for batch in _batches(made, self._api.texts_per_batch):
            self._client.log_batch(run_id, tags=batch)

    def _log_metrics(self, run_id: str, numbers: Iterable[tuple[str, float, int, int]]) -> None:
        made = [self._api.metric(*number) for number in numbers]
        for batch in _batches(made, self._api.metrics_per_batch):
            self._client.log_batch(run_id, metrics=batch)

    def _cut_tags(self, tags: Mapping[str, str]) -> dict[str, str]:
        return {name: run_content.cut(text, self._api.tag_chars) for name, text in tags.items()}

    @property
    def _api(self) -> _Mlflow:
        if self._mlflow is None:
            self._mlflow = _load(self.uri)
        return self._mlflow

    @property
    def _client(self) -> Any:
        return self._api.client

    def _open(self) -> None:
        """Find the experiment or make it, once."""
        if self._experiment_id:
            return
        found = self._client.get_experiment_by_name(self.experiment)
        if found is None:
            try:
                location = self.artifact_root.as_uri()
                self._experiment_id = self._client.create_experiment(self.experiment, location)
            except self._api.exception:
                found = self._client.get_experiment_by_name(self.experiment)
                if found is None:
                    raise
        if found is not None:
            if found.lifecycle_stage == "deleted":
                self._client.restore_experiment(found.experiment_id)
            self._experiment_id = found.experiment_id


def _load(uri: str) -> _Mlflow:
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
    if uri.startswith("sqlite:////"):
        Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    return _Mlflow(
        client=MlflowClient(tracking_uri=uri, registry_uri=uri),
        metric=Metric,
        param=Param,
        run_tag=RunTag,
        exception=MlflowException,
        param_chars=validation.MAX_PARAM_VAL_LENGTH,
        tag_chars=validation.MAX_TAG_VAL_LENGTH,
        metrics_per_batch=validation.MAX_METRICS_PER_BATCH,
        texts_per_batch=validation.MAX_PARAMS_TAGS_PER_BATCH,
    )


def _quiet(name: str, level: int) -> None:
    logger = logging.getLogger(name)
    logger.setLevel(max(level, logger.level))


def _batches(items: Sequence[_T], per_batch: int) -> Iterator[Sequence[_T]]:
    return (items[at : at + per_batch] for at in range(0, len(items), per_batch))


def _quoted(text: str) -> str:
    return f'"{text}"' if "'" in text else f"'{text}'"


def _outcome_counts(trials: Sequence[Any]) -> dict[str, float]:
    counts = Counter(run.data.tags.get("outcome", "") for run in trials)
    named = {f"trials_{outcome}": float(counts[outcome]) for outcome in Outcome}
    return {"trials": float(len(trials)), **named}


def _best(trials: Sequence[Any], card: SweepCard) -> tuple[float, str] | None:
    """Return the best value of the objective and its trial; None where none was measured."""
    ranked = {outcome.value for outcome in Outcome if outcome.has_rate}
    name = run_content.key(card.objective)
    values = [
        (run.data.metrics[name], run.data.tags["trial"])
        for run in trials
        if name in run.data.metrics and run.data.tags.get("outcome") in ranked
    ]
    if not values:
        return None
    return max(values) if card.higher_is_better else min(values)
