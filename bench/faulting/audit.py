"""Counts what faults did to a sweep, from its spools, its study and the tracker's store alone."""

import contextlib
import sqlite3
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import optuna

from faulting.place import Place
from orchestrator.search.verdicts import Verdict
from orchestrator.spool import read_spool
from orchestrator.state import SPOOL_FILE
from orchestrator.tracking.run_content import RUN_STATUS, finite, result_metrics, sweep_status
from orchestrator.tracking.ui_view import EXPERIMENT
from sweeps.results import Outcome, TrialResult
from sweeps.search.steps import Purpose
from sweeps.sweep import Objective

Finished = Mapping[int, tuple[str, float]]
"""Variant and rate of each measurement that was whole, by the number of its trial."""

_METRIC = "decode_tok_s"
_REPEATS = (Purpose.BASELINE.value, Purpose.CONFIRM.value)
_INNOCENT = (Outcome.INFEASIBLE, Outcome.HUNG)
"""Nothing in this space does this by itself: to say so is to learn from a fault."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What must not be there, counted."""

    unended: int = 0
    lost: int = 0
    unnamed_repeats: int = 0
    wrong_states: int = 0
    processes_left: int = 0
    tracker_differences: int = 0
    complaints: tuple[str, ...] = ()

    def __add__(self, other: "Findings") -> "Findings":
        sums = [getattr(self, one.name) + getattr(other, one.name) for one in fields(Findings)]
        return Findings(*sums)

    @property
    def counts(self) -> dict[str, int]:
        """Return the figures without the complaints."""
        return {f.name: getattr(self, f.name) for f in fields(Findings) if f.name != "complaints"}


def finished(place: Place) -> Finished:
    """Return what is measured as the spools have it: each line is whole, or does not count."""
    if not place.sweep_id:
        return {}
    found = {}
    for folder in (place.state.sweep_folder(place.sweep_id) / "trials").glob("*/"):
        result = read_spool(folder / SPOOL_FILE).result
        if result is not None and result.outcome.has_rate:
            found[result.number] = (result.config.variant, result.value(_METRIC) or 0.0)
    return found


def audit(place: Place, known: Finished, store_uri: str = "") -> Findings:
    """Look at a sweep that should have ended; `known` was measured at some time before."""
    results = place.state.ended(place.sweep_id)
    parts = {
        "unended": [] if place.is_over else [f"it is {place.state.card(place.sweep_id)}"],
        "lost": list(_lost(known, {one.number: one for one in results})),
        "unnamed_repeats": list(_unnamed(results)),
        "wrong_states": list(_wrong(place, results)),
        "processes_left": [f"process {pid}" for pid in place.left()],
        "tracker_differences": list(_differences(place, results, store_uri)),
    }
    told = [f"{place.folder.name}: {name}: {one}" for name, part in parts.items() for one in part]
    return Findings(**{name: len(part) for name, part in parts.items()}, complaints=tuple(told))


def _lost(known: Finished, results: Mapping[int, TrialResult]) -> Iterator[str]:
    for number, (variant, rate) in known.items():
        now = results.get(number)
        if now is None or (now.config.variant, now.value(_METRIC)) != (variant, rate):
            yield f"trial {number}, {variant} at {rate:g}, is {now}"


def _unnamed(results: list[TrialResult]) -> Iterator[str]:
    seen: set[str] = set()
    for result in results:
        if not result.outcome.has_rate:
            continue
        if result.config.variant in seen and result.purpose not in _REPEATS:
            yield f"trial {result.number} measures {result.config.variant} once more"
        seen.add(result.config.variant)


def _wrong(place: Place, results: list[TrialResult]) -> Iterator[str]:
    """Compare each trial of the study with what its end means."""
    for result in results:
        if result.outcome in _INNOCENT:
            yield f"trial {result.number} is {result.outcome}: {result.reason}"
    kept = _study(place)
    for number, count in Counter(trial.user_attrs["number"] for trial in kept).items():
        if count > 1:
            yield f"trial {number} is {count} times in the study"
    by_number = {trial.user_attrs["number"]: trial for trial in kept}
    for result in results:
        verdict = Verdict.on(result, Objective())
        trial = by_number.pop(result.number, None)
        told = None if trial is None else (trial.state, tuple(trial.values or ()))
        if told != (verdict.state, verdict.values):
            yield f"trial {result.number}, {result.outcome}, is {told} in the study"
    for number, trial in by_number.items():
        if trial.state is not optuna.trial.TrialState.FAIL:
            yield f"trial {number}, of which nothing is left, is {trial.state} in the study"


def _study(place: Place) -> list[Any]:
    uri = f"sqlite:///{place.state.study_path}"
    return list(optuna.load_study(study_name=place.sweep_id, storage=uri).trials)


def _differences(place: Place, results: list[TrialResult], store_uri: str) -> Iterator[str]:
    """Compare each run of the store with its trial, value by value."""
    with _copied(store_uri or place.state.mlflow_uri) as uri:
        runs = _runs(uri, place.sweep_id)
    names = Counter(run.data.tags.get("trial", "") for run in runs)
    yield from (f"{count} runs of {name or 'the sweep'}" for name, count in names.items()
                if count > 1)  # fmt: skip
    by_name = {run.data.tags.get("trial", ""): run for run in runs}
    whole = by_name.pop("", None)
    status = sweep_status(str(place.state.card(place.sweep_id).get("status")))
    if whole is None or whole.info.status != status:
        yield f"the run of the sweep is {whole and whole.info.status}, not {status}"
    for result in results:
        run = by_name.pop(result.trial, None)
        if run is None:
            yield f"trial {result.number} has no run"
            continue
        yield from _unequal(result, run)
    yield from (f"a run of {name}, which has not ended" for name, run in by_name.items()
                if run.info.status == "RUNNING")  # fmt: skip


@contextlib.contextmanager
def _copied(uri: str) -> Iterator[str]:
    """Give a store under a name of its own: MLflow keeps looking into a file that was replaced."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        with (
            contextlib.closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as source,
            contextlib.closing(sqlite3.connect(path)) as copy,
        ):
            source.backup(copy)
        yield f"sqlite:///{path}"


def _unequal(result: TrialResult, run: Any) -> Iterator[str]:
    if run.info.status != RUN_STATUS[result.outcome]:
        yield f"trial {result.number} is {run.info.status} after {result.outcome}"
    for name, value in finite(result_metrics(result)).items():
        if run.data.metrics.get(name) != value:
            yield f"trial {result.number}: {name} is {run.data.metrics.get(name)}, not {value}"
    told = {"outcome": result.outcome.value, "number": str(result.number)}
    if result.retry_of is not None:
        told["retry_of"] = str(result.retry_of)
    for name, word in told.items():
        if run.data.tags.get(name) != word:
            yield f"trial {result.number}: {name} is {run.data.tags.get(name)}, not {word}"


def _runs(uri: str, sweep_id: str) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        experiment = client.get_experiment_by_name(EXPERIMENT)
        if experiment is None:
            return []
        asked = f"tags.sweep = '{sweep_id}'"
        return list(client.search_runs([experiment.experiment_id], asked, max_results=1000))
