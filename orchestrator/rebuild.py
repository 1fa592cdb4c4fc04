"""Makes the tracker's store, and the study, again from what the trials left on disk."""

import contextlib
import itertools
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from infra.whole_file import name_beside
from orchestrator.explain import quality_of
from orchestrator.files import read_json, write_json
from orchestrator.interrupted import close_interrupted
from orchestrator.reviews import sweep_review
from orchestrator.spool import SpooledTrial, read_spool
from orchestrator.sqlite_address import path_in, sqlite_uri
from orchestrator.state import RESULT_FILE, SPOOL_FILE, State
from orchestrator.tracking import run_content
from orchestrator.tracking.events import (
    Event,
    Progress,
    SweepEnded,
    SweepsDied,
    SweepStarted,
    TrialEnded,
    TrialFiles,
    TrialStarted,
    card_from,
)
from orchestrator.tracking.mlflow_store import MlflowStore
from orchestrator.tracking.mlflow_writer import CARD_FILE, mlflow_runs
from orchestrator.tracking.outbox import MARK_SUFFIX, Outbox
from orchestrator.tracking.seam import Sample, SweepCard, TrialCard
from sweeps.definition import searched, study_key
from sweeps.metrics import metric_named
from sweeps.problems import BadInputError, Problem, nearest
from sweeps.results import TrialResult
from sweeps.sweep import Sweep

_RUN_ID = re.compile(r"[0-9a-f]{32}")
_count = itertools.count()


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was made again."""

    sweeps: tuple[str, ...]
    trials: int
    recovered: int
    """Results that were found in a spool only, and are now files again."""
    damaged: tuple[str, ...]
    """Files with lines that do not hold what was written, and the numbers of the lines."""
    interrupted: int = 0
    """Trials that a killed driver left open, and that are now closed as interrupted."""
    without_study: tuple[str, ...] = field(default=())
    """Sweeps of which no definition is left, so that their study cannot be made again."""


WriteStudy = Callable[[Sweep, Path, str, Sequence[TrialResult], str], None]
"""Writes the study of a sweep into a file, by its name, from its results, with its key."""


def rebuild(
    state: State, sweep_id: str | None = None, *, experiment: str, uri: str | None = None
) -> Rebuilt:
    """Write all that the tracker should hold of one sweep, or of all; twice is as once.

    The folder's own store is made anew beside the old one, which it then replaces; to any other,
    what is missing or wrong is added. The caller holds the folder's lock. Raises BadInputError for
    a sweep that is not there, DiskError, and whatever the store raises.
    """
    if sweep_id is not None and not state.card(sweep_id):
        mend = nearest(sweep_id, state.sweep_ids()) or "`orchestrator trials` lists them."
        problem = Problem("--sweep", sweep_id, "there is no such sweep", mend)
        raise BadInputError("The command line", [problem])
    chosen = state.sweep_ids() if sweep_id is None else [sweep_id]
    recovered = sum(len(recover(state, name)) for name in chosen)
    closed = sum(len(close_interrupted(state, name)) for name in chosen)
    if uri is None or uri == state.mlflow_uri:
        path = path_in(state.mlflow_uri)
        assert path is not None, "a file of the state folder"
        with _swapped(path, is_kept=sweep_id is not None) as beside:
            _write(state, chosen, sqlite_uri(beside), experiment, is_cleared=True)
            kept = _run_ids(state, sqlite_uri(beside), experiment)
        _drop_files(state.artifact_root, kept)
    else:
        _write(state, chosen, uri, experiment, is_cleared=False)
    for name in chosen:
        state.outbox_path(name).unlink(missing_ok=True)
    trials = sum(len(state.ended(name)) for name in chosen)
    damaged = tuple(line for name in chosen for line in _damage(state, name))
    return Rebuilt(tuple(chosen), trials, recovered, damaged, closed)


def recover(state: State, sweep_id: str) -> list[TrialResult]:
    """Write the results that only a spool holds, because a kill came before their files."""
    results = state.ended(sweep_id)
    found = []
    for result in results:
        path = state.trial_folder(sweep_id, result.number) / RESULT_FILE
        if read_json(path) is None:
            report = quality_of(state, result, results)
            if report is not None:
                result = replace(result, quality=report.verdict, quality_note=report.reason)
            write_json(path, result.as_data())
            found.append(result)
    return found


def rebuild_study(
    state: State,
    chosen: Sequence[str],
    write_study: WriteStudy,
) -> tuple[str, ...]:
    """Make the studies of these sweeps again from the results of their trials.

    The old file is kept beside the new one, with all other studies copied as far as it is whole.
    Returns the sweeps of which no definition is left, so that they have no study.
    """
    unknown = []
    with _swapped(state.study_path, is_kept=True) as beside:
        for sweep_id in chosen:
            data = state.card(sweep_id).get("definition")
            if not isinstance(data, dict):
                unknown.append(sweep_id)
                continue
            results = state.results(sweep_id)
            write_study(searched(sweep_id, data), beside, sweep_id, results, study_key(data))
    return tuple(unknown)


def events_of(state: State, sweep_id: str) -> Iterator[Event]:
    """Return all that a tracker would have been told of a sweep, with the times of then."""
    card = sweep_card(state, sweep_id)
    results = state.ended(sweep_id)
    status = str(state.card(sweep_id).get("status", "running"))
    last_ms = began_ms = _began_ms(state, sweep_id)
    yield SweepStarted(card, began_ms)
    for result in results:
        folder = state.trial_folder(sweep_id, result.number)
        started_ms = run_content.started_ms(result) or last_ms
        ended_ms = started_ms + max(1, round(1000 * sum(result.phase_s.values())))
        yield TrialStarted(run_content.card_of(result, card), started_ms)
        if samples := _samples(folder):
            yield Progress(result.trial, samples)
        yield TrialEnded(result, folder, ended_ms)
        yield TrialFiles(result.trial, sweep_id, folder)
        last_ms = max(last_ms, ended_ms)
    for folder in state.unended(sweep_id):
        if trial := read_spool(folder / SPOOL_FILE).trial:
            yield TrialStarted(_trial_card(card, trial), last_ms)
            if samples := _samples(folder):
                yield Progress(trial.trial, samples)
            yield TrialFiles(trial.trial, sweep_id, folder)
    if status != "running":
        yield SweepEnded(sweep_id, status, last_ms + 1, sweep_review(state, sweep_id))
    yield SweepsDied((sweep_id,), last_ms + 1)


def sweep_card(state: State, sweep_id: str) -> SweepCard:
    """Return the card that a sweep's tracker was given, as far as it is known."""
    given = read_json(state.sweep_folder(sweep_id) / CARD_FILE)
    if given is not None:
        return card_from(given)
    card = state.card(sweep_id)
    objective = str(card.get("objective", "decode_tok_s"))
    metric = metric_named(objective)
    params = {"objective": objective, "space": str(card.get("key", ""))}
    return SweepCard(
        sweep_id, str(card.get("name", sweep_id)), card.get("emulated") is True, params,
        {"space": str(card.get("key", ""))}, objective,
        higher_is_better=metric is None or bool(metric.higher_is_better),
        plain=plain if isinstance(plain := card.get("plain"), dict) else {},
    )  # fmt: skip


def _write(
    state: State, sweep_ids: list[str], uri: str, experiment: str, *, is_cleared: bool
) -> None:
    """Write the events of sweeps: first those that were never sent, then what they lack."""
    runs = mlflow_runs(uri, state.artifact_root, experiment)
    for sweep_id in sweep_ids:
        is_told_already = not is_cleared or state.outbox_path(sweep_id).exists()
        store = MlflowStore(runs, only_missing=is_told_already)
        if is_cleared:
            store.delete(sweep_id)
        store.write(SweepStarted(sweep_card(state, sweep_id), _began_ms(state, sweep_id)))
        for event in _unsent(state.outbox_path(sweep_id)):
            store.write(event)
        for event in events_of(state, sweep_id):
            store.write(event)


def _unsent(path: Path) -> Iterator[Event]:
    """Read an outbox, of which nothing is marked as sent by that."""
    if not path.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        for file in _outbox_files(path):
            if file.exists():
                shutil.copy(file, folder)
        outbox = Outbox(Path(folder) / path.name)
        outbox.close()
        for entry in outbox.asides():
            yield from entry.events
        while (entry := outbox.take()) is not None:  # type: ignore[assignment] # None ends it
            yield from entry.events
            outbox.done(entry)
        outbox.release()


def _outbox_files(path: Path) -> tuple[Path, Path]:
    return path, path.with_suffix(MARK_SUFFIX)


@contextlib.contextmanager
def _swapped(path: Path, *, is_kept: bool) -> Iterator[Path]:
    """Give a SQLite file to fill, a copy or a new one, which replaces another if all goes well."""
    # MLflow keeps a file open for as long as a process lives, so no two may have one name.
    beside = name_beside(path.absolute())
    before = path.with_name(f"{path.name}.before-rebuild")
    try:
        if is_kept and path.exists():
            _copy(path, beside)
        yield beside
        if path.exists():
            path.replace(before)
        beside.replace(path)
    finally:
        for left in (beside, Path(f"{beside}-journal"), Path(f"{beside}-wal")):
            left.unlink(missing_ok=True)


def _copy(path: Path, target: Path) -> None:
    """Copy a SQLite file as it is at one moment; a broken one is left out."""
    whole = False
    with (
        contextlib.suppress(sqlite3.DatabaseError),
        contextlib.closing(sqlite3.connect(path)) as source,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)
        whole = copy.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
    if not whole:
        target.unlink(missing_ok=True)


def _run_ids(state: State, uri: str, experiment: str) -> set[str]:
    runs = mlflow_runs(uri, state.artifact_root, experiment)
    return {run.info.run_id for run in runs.search("")}


def _drop_files(artifact_root: Path, kept: set[str]) -> None:
    """Remove the files of runs that are no more."""
    for folder in artifact_root.glob("*/"):
        if _RUN_ID.fullmatch(folder.name) and folder.name not in kept:
            shutil.rmtree(folder)


def _damage(state: State, sweep_id: str) -> Iterator[str]:
    for path in sorted(state.sweep_folder(sweep_id).glob(f"trials/*/{SPOOL_FILE}")):
        reading = read_spool(path)
        if reading.bad_lines:
            yield f"{path}: lines {', '.join(map(str, reading.bad_lines))}"


def _trial_card(sweep: SweepCard, trial: SpooledTrial) -> TrialCard:
    return run_content.trial_card(
        sweep, trial.trial, trial.number, trial.config, trial.purpose, emulated=trial.emulated
    )


def _samples(folder: Path) -> dict[int, tuple[Sample, int]]:
    """Return the series of a trial by whole second, as the tracker has it."""
    found: dict[int, tuple[Sample, int]] = {}
    for spooled in read_spool(folder / SPOOL_FILE).samples():
        sample = Sample(
            spooled.elapsed_s, spooled.tok_s, spooled.low, spooled.high, spooled.accept_length,
            spooled.steps_per_s, spooled.tokens,
        )  # fmt: skip
        found[int(spooled.elapsed_s)] = (sample, spooled.at_ms)
    return found


def _began_ms(state: State, sweep_id: str) -> int:
    created = state.card(sweep_id).get("created_at")
    try:
        return int(datetime.fromisoformat(str(created)).timestamp() * 1000)
    except ValueError:
        return int(datetime(1970, 1, 2, tzinfo=UTC).timestamp() * 1000)
