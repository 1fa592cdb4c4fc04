"""What each event does to an MLflow store. Doing it again changes nothing."""

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestrator.files import read_result
from orchestrator.state import RESULT_FILE
from orchestrator.tracking import launch_files, run_content, ui_view
from orchestrator.tracking.attachments import attachments
from orchestrator.tracking.events import (
    Event,
    Progress,
    SweepEnded,
    SweepsDied,
    SweepStarted,
    TrialEnded,
    TrialFiles,
    TrialStarted,
)
from orchestrator.tracking.legal import legal_names
from orchestrator.tracking.mlflow_api import PASSING_ERRORS
from orchestrator.tracking.mlflow_runs import FILES_TAG, PARENT_TAG, MlflowRuns, Point, quoted
from orchestrator.tracking.review import SweepReview
from orchestrator.tracking.seam import DEFAULT_OBJECTIVE, SweepCard, TrialCard
from sweeps.results import Outcome, TrialResult

log = logging.getLogger(__name__)

DIED = "the driver of its sweep ended before it did"


class MlflowStore:
    """A sink on MLflow. Used by one thread; its errors are MLflow's.

    With `only_missing`, numbers that a run holds already are not logged a second time, whenever
    they were first.
    """

    def __init__(self, runs: MlflowRuns, *, only_missing: bool = False) -> None:
        self._runs = runs
        self._only_missing = only_missing
        self._cards: dict[str, SweepCard] = {}
        self._without_files: set[str] = set()

    def write(self, event: Event) -> None:
        """Write one event."""
        match event:
            case SweepStarted(card, at_ms):
                self._cards[card.sweep] = card
                self._start_sweep(card, at_ms)
            case TrialStarted(trial_card, at_ms):
                self._start_trial(trial_card, at_ms)
            case Progress():
                self._add_samples(event)
            case TrialEnded(result, _, at_ms):
                self._end_trial(result, at_ms)
            case TrialFiles():
                self._add_files(event)
            case SweepEnded():
                self._end_sweep(event)
            case SweepsDied(sweeps, at_ms):
                for sweep in sweeps:
                    self._close_stale(sweep, at_ms)

    def probe(self) -> None:
        """Raise if the store does not answer."""
        self._runs.client.get_experiment_by_name(self._runs.experiment)

    def is_passing(self, error: Exception) -> bool:
        """Tell whether an error says by itself that the store will take the same later."""
        return getattr(error, "error_code", None) in PASSING_ERRORS

    def forget(self) -> None:
        """Look every run up again: one may have been deleted by hand."""
        self._runs.forget()

    def refused(self, event: Event, reason: str) -> None:
        """Tag the run of a trial whose files are not taken; they stay where they are."""
        if isinstance(event, TrialFiles):
            run_id = self._runs.find("trial", event.trial, event.sweep)
            if run_id is not None:
                text = f"{reason}; they are in {event.folder}"
                self._runs.log(run_id, tags={FILES_TAG: text})
                self._without_files.add(event.trial)

    def delete(self, sweep: str) -> None:
        """Delete all runs of a sweep."""
        for run in list(self._runs.search(f"tags.sweep = {quoted(sweep)}")):
            self._runs.client.delete_run(run.info.run_id)
        self._runs.forget()

    def _start_sweep(self, card: SweepCard, at_ms: int) -> None:
        run_id = self._runs.find("sweep", card.sweep)
        if run_id is None:
            run_id = self._create_sweep(card, at_ms)
        else:
            self._reopen(run_id, at_ms)
        self._runs.log(run_id, params=card.params, tags=run_content.sweep_tags(card))
        view = ui_view.view_state(
            card.sweep, self._name(card.objective), [f"config.{name}" for name in card.axes],
            higher_is_better=card.higher_is_better,
        )  # fmt: skip
        self._runs.client.set_experiment_tag(self._runs.experiment_id, ui_view.VIEW_TAG, view)

    def _create_sweep(self, card: SweepCard, at_ms: int) -> str:
        shown, tags = run_content.sweep_name(card), run_content.sweep_tags(card)
        return self._runs.create("sweep", card.sweep, shown, tags, at_ms)

    def _start_trial(self, card: TrialCard, at_ms: int) -> None:
        run_id = self._runs.find("trial", card.trial, card.sweep)
        if run_id is None:
            run_id = self._create_trial(card, at_ms)
        else:
            self._reopen(run_id, at_ms)
        self._runs.log(run_id, params=run_content.requested(card))

    def _create_trial(self, card: TrialCard, at_ms: int) -> str:
        tags = run_content.trial_tags(card)
        if parent := self._parent(card.sweep, at_ms):
            tags[PARENT_TAG] = parent
        return self._runs.create("trial", card.trial, run_content.trial_name(card), tags, at_ms)

    def _reopen(self, run_id: str, at_ms: int) -> None:
        """Set a run to running, unless it ended later than what is only now written."""
        info = self._runs.client.get_run(run_id).info
        if info.status != "RUNNING" and (info.end_time is None or info.end_time < at_ms):
            self._runs.client.update_run(run_id, status="RUNNING")

    def _parent(self, sweep: str, at_ms: int) -> str | None:
        found = self._runs.find("sweep", sweep)
        card = self._cards.get(sweep)
        return found if found or card is None else self._create_sweep(card, at_ms)

    def _add_samples(self, progress: Progress) -> None:
        run_id = self._runs.find("trial", progress.trial)
        if run_id is None:
            log.debug("trial=%s was never started; its samples are not kept", progress.trial)
            return
        points: list[Point] = []
        odd = ""
        for step, (sample, at_ms) in progress.samples.items():
            numbers = run_content.sample_metrics(sample)
            points += _points(numbers, at_ms, step)
            odd = run_content.not_finite(numbers) or odd
        points = self._missing_of_series(run_id, points)
        self._runs.log(run_id, points=points, tags={"not_finite_so_far": odd} if odd else {})

    def _end_trial(self, result: TrialResult, at_ms: int) -> None:
        sweep = self._cards.get(result.sweep)
        card = run_content.card_of(result, sweep)
        run_id = self._runs.find("trial", result.trial, result.sweep)
        if run_id is None:
            # A clock that was set back may put the start behind the end.
            run_id = self._create_trial(card, min(run_content.started_ms(result) or at_ms, at_ms))
        numbers = run_content.result_metrics(result)
        objective = sweep.objective if sweep else DEFAULT_OBJECTIVE
        tags = {**run_content.result_tags(result, objective), **run_content.command(result)}
        if odd := run_content.not_finite(numbers):
            tags["not_finite"] = odd
        params = {**run_content.requested(card), **run_content.effective(result)}
        points = self._missing(run_id, _points(numbers, at_ms, 0))
        self._runs.log(run_id, params=params, tags=tags, points=points)
        status = run_content.RUN_STATUS[result.outcome]
        self._runs.client.set_terminated(run_id, status=status, end_time=at_ms)

    def _add_files(self, event: TrialFiles) -> None:
        run_id = self._runs.find("trial", event.trial, event.sweep)
        if run_id is None:
            return
        with TemporaryDirectory() as scratch:
            redactor = self._runs.redactor
            launch = _launch(event.folder)
            for path in attachments(event.folder, Path(scratch), redactor=redactor):
                if f"{launch_files.FOLDER}/{path.name}" not in launch:
                    self._runs.attach(run_id, path)
            self._runs.attach_texts(run_id, launch)
        if event.trial in self._without_files:
            self._runs.client.delete_tag(run_id, FILES_TAG)
            self._without_files.remove(event.trial)

    def _end_sweep(self, event: SweepEnded) -> None:
        sweep, status, at_ms, review = event.sweep, event.status, event.at_ms, event.review
        run_id = self._parent(sweep, at_ms)
        if run_id is None:
            log.debug("sweep=%s was never started; its end is not kept", sweep)
            return
        trials = self._trials_of(run_id)
        tags = self._runs.client.get_run(run_id).data.tags
        numbers: dict[str, float | None] = dict(_outcome_counts(trials))
        objective = tags.get("objective", "")
        best = _best(trials, self._name(objective), up=tags.get("higher_is_better") == "true")
        told = {"status": status}
        if best is not None:
            numbers[f"best_observed_{objective}"], told["best_observed_trial"] = best
        if review is not None:
            numbers |= review.numbers
            told |= run_content.review_tags(review, emulated=tags.get("emulated") == "true")
            told |= self._mark_winner(trials, review)
        points = self._missing(run_id, _points(numbers, at_ms, 0))
        self._runs.log(run_id, tags=told, points=points)
        run_status = run_content.sweep_status(status)
        self._runs.client.set_terminated(run_id, status=run_status, end_time=at_ms)
        if review is not None:
            self._runs.attach_texts(run_id, review.texts)

    def _mark_winner(self, trials: Sequence[Any], review: SweepReview) -> dict[str, str]:
        """Tag the runs of the recommended variant, and no other; return the tags that lead to the
        one whose server is to be started again."""
        found, starts = {}, {review.winner, *review.starts} - {""}
        rate = review.tags.get(run_content.WINNER_RATE_TAG, "")
        marks = {run_content.WINNER_TAG: run_content.WINNER}
        marks |= {run_content.WINNER_RATE_TAG: rate} if rate else {}
        for run in trials:
            run_id, tags = run.info.run_id, run.data.tags
            if tags.get("trial") in starts:
                for name, value in marks.items():
                    self._runs.client.set_tag(run_id, name, value)
            else:
                for name in (run_content.WINNER_TAG, run_content.WINNER_RATE_TAG):
                    if name in tags:
                        self._runs.client.delete_tag(run_id, name)
            if tags.get("trial") == review.winner:
                found = {"winner_trial": review.winner, "winner_run": run_id}
        return found

    def _trials_of(self, parent: str) -> list[Any]:
        """Return the runs of a sweep's trials, one for each."""
        by_trial: dict[str, list[Any]] = {}
        for run in self._runs.search(f"tags.{quoted_tag(PARENT_TAG)} = '{parent}'"):
            by_trial.setdefault(run.data.tags.get("trial", ""), []).append(run)
        kept = []
        for trial, runs in by_trial.items():
            run_id = self._runs.keep_one(runs)
            if len(runs) > 1:
                self._runs.forget(("trial", trial))
            kept += [run for run in runs if run.info.run_id == run_id]
        return kept

    def _close_stale(self, sweep: str, at_ms: int) -> None:
        """End the runs of a dead sweep that are still said to run."""
        asked = f"tags.sweep = {quoted(sweep)} and attributes.status = 'RUNNING'"
        for run in list(self._runs.search(asked)):
            outcome = run.data.tags.get("outcome")
            status = run_content.RUN_STATUS[Outcome(outcome)] if outcome else "KILLED"
            if not outcome:
                self._runs.log(run.info.run_id, tags={"reason": DIED})
            end_ms = max(at_ms, run.info.start_time)
            self._runs.client.set_terminated(run.info.run_id, status=status, end_time=end_ms)

    def _missing(self, run_id: str, points: list[Point]) -> list[Point]:
        """Leave out the numbers that a run holds; what is wrong is put right by a later one."""
        if not self._only_missing:
            return points
        known = self._runs.client.get_run(run_id).data.metrics
        missing = [p for p in points if known.get(self._name(p.name)) != p.value]
        now_ms = time.time_ns() // 1_000_000
        return [
            replace(p, at_ms=max(p.at_ms, now_ms)) if self._name(p.name) in known else p
            for p in missing
        ]

    def _missing_of_series(self, run_id: str, points: list[Point]) -> list[Point]:
        if not self._only_missing:
            return points
        known = {
            (name, known.step)
            for name in {p.name for p in points}
            for known in self._runs.client.get_metric_history(run_id, self._name(name))
        }
        return [p for p in points if (p.name, p.step) not in known]

    def _name(self, metric: str) -> str:
        return legal_names([metric], self._runs.api.limits.name_chars)[metric]


def _launch(folder: Path) -> dict[str, str]:
    result = read_result(folder / RESULT_FILE)
    return launch_files.launch_texts(result, folder) if result else {}


def quoted_tag(name: str) -> str:
    """Write the name of a tag with dots in a filter."""
    return f"`{name}`"


def _points(numbers: Mapping[str, float | None], at_ms: int, step: int) -> list[Point]:
    finite = run_content.finite(numbers)
    return [Point(name, number, at_ms, step) for name, number in finite.items()]


def _outcome_counts(trials: Sequence[Any]) -> dict[str, float]:
    counts = Counter(run.data.tags.get("outcome", "") for run in trials)
    named = {f"trials_{outcome}": float(counts[outcome]) for outcome in Outcome}
    return {"trials": float(len(trials)), **named}


def _best(trials: Iterable[Any], metric: str, *, up: bool) -> tuple[float, str] | None:
    """Return the best value of the objective and its trial; None where none was measured."""
    ranked = {outcome.value for outcome in Outcome if outcome.has_rate}
    values = [
        (run.data.metrics[metric], run.data.tags["trial"])
        for run in trials
        if metric in run.data.metrics and run.data.tags.get("outcome") in ranked
    ]
    if not values:
        return None
    return max(values) if up else min(values)
