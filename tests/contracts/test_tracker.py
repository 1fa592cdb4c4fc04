"""What every tracker keeps of what it is told, and what it never does to the one who tells."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest

from orchestrator.sqlite_address import sqlite_uri
from orchestrator.tracking.jsonl import JsonlTracker
from orchestrator.tracking.seam import Sample, Tracker
from sweeps.results import Outcome
from tests.orchestrator.tracking import stores
from tests.patience import GIVE_UP_S

CLOSE_S = GIVE_UP_S


@dataclass(frozen=True)
class Kept:
    """What a tracker's store says, whatever its form."""

    sweeps: dict[str, str]
    """Sweep to status."""
    outcomes: dict[str, str]
    values: dict[str, float | None]
    """Trial to its decode_tok_s."""
    series: dict[str, list[tuple[int, float]]]


@dataclass(frozen=True)
class Kind:
    """A tracker, how to read back what it keeps, and one whose store cannot be written."""

    make: Callable[[Path], Tracker]
    read: Callable[[Path], Kept]
    make_broken: Callable[[Path], Tracker]


def _read_jsonl(folder: Path) -> Kept:
    kept = Kept({}, {}, {}, {})
    sweep = ""
    for line in (folder / "events.jsonl").read_text().splitlines():
        data = json.loads(line)
        match data["event"]:
            case "sweep_started":
                sweep = data["sweep"]
                kept.sweeps[sweep] = "running"
            case "progress" if data["tok_s"] is not None:
                point = (int(data["elapsed_s"]), data["tok_s"])
                kept.series.setdefault(data["trial"], []).append(point)
            case "trial_ended":
                kept.outcomes[data["trial"]] = data["outcome"]
                estimate = data["estimates"].get("decode_tok_s", {"value": None})
                kept.values[data["trial"]] = estimate["value"]
            case "sweep_ended":
                kept.sweeps[sweep] = data["status"]
    return kept


def _read_mlflow(folder: Path) -> Kept:
    uri = sqlite_uri(folder / "mlflow.db")
    kept = Kept({}, {}, {}, {})
    for run in stores.runs(uri, "sweep"):
        assert run.data.tags["sweep"] not in kept.sweeps, "one sweep has two runs"
        kept.sweeps[run.data.tags["sweep"]] = run.data.tags.get("status", "running")
    for run in stores.runs(uri):
        trial = run.data.tags["trial"]
        assert trial not in kept.outcomes, "one trial has two runs"
        kept.outcomes[trial] = run.data.tags["outcome"]
        kept.values[trial] = run.data.metrics.get("decode_tok_s")
        points = stores.client(uri).get_metric_history(run.info.run_id, "tok_s_so_far")
        if points:
            kept.series[trial] = sorted((point.step, point.value) for point in points)
    return kept


def _make_mlflow(folder: Path) -> Tracker:
    known = folder / "mlflow.db"
    uri = sqlite_uri(known) if known.exists() else stores.new_store(folder)
    return stores.writer(uri, folder)


def _under_a_file(folder: Path) -> Path:
    (folder / "file").write_text("not a folder")
    return folder / "file" / "store"


KINDS = {
    "jsonl": Kind(
        lambda folder: JsonlTracker(folder / "events.jsonl"),
        _read_jsonl,
        lambda folder: JsonlTracker(_under_a_file(folder)),
    ),
    "mlflow": Kind(
        _make_mlflow,
        _read_mlflow,
        lambda folder: stores.writer(sqlite_uri(_under_a_file(folder)), folder),
    ),
}


@pytest.fixture(params=["jsonl", pytest.param("mlflow", marks=pytest.mark.slow)])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Return each tracker in turn."""
    return KINDS[request.param]


def _tell_of_trial(tracker: Tracker, number: int, tok_s: float, folder: Path) -> None:
    tracker.trial_started(stores.card(number))
    for second in range(3):
        tracker.progress(f"t{number}", Sample(float(second), tok_s + second))
    estimates = {"decode_tok_s": stores.estimate(tok_s)}
    tracker.trial_ended(stores.result(number, estimates=estimates), folder)


def test_keeps_all_that_it_is_told(kind: Kind, tmp_path: Path) -> None:
    tracker = kind.make(tmp_path)
    tracker.sweep_started(stores.SWEEP)
    _tell_of_trial(tracker, 1, 100.0, tmp_path / "t1")
    tracker.trial_ended(stores.result(2, Outcome.INFEASIBLE, reason="flag"), tmp_path / "t2")
    tracker.sweep_ended("finished")
    assert tracker.close(CLOSE_S)
    kept = kind.read(tmp_path)
    assert kept.sweeps == {"s1": "finished"}
    assert kept.outcomes == {"t1": "measured", "t2": "infeasible"}
    assert kept.values == {"t1": 100.0, "t2": None}
    assert kept.series == {"t1": [(0, 100.0), (1, 101.0), (2, 102.0)]}


def test_takes_calls_from_several_threads(kind: Kind, tmp_path: Path) -> None:
    tracker = kind.make(tmp_path)
    tracker.sweep_started(stores.SWEEP)

    def tell(first: int) -> None:
        for number in range(first, first + 3):
            _tell_of_trial(tracker, number, 10.0 * number, tmp_path)

    threads = [Thread(target=tell, args=(first,)) for first in (0, 10, 20, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tracker.close(CLOSE_S)
    numbers = [first + i for first in (0, 10, 20, 30) for i in range(3)]
    kept = kind.read(tmp_path)
    assert kept.values == {f"t{number}": 10.0 * number for number in numbers}
    assert {len(points) for points in kept.series.values()} == {3}


def test_a_second_end_brings_the_trial_up_to_date(kind: Kind, tmp_path: Path) -> None:
    tracker = kind.make(tmp_path)
    tracker.sweep_started(stores.SWEEP)
    _tell_of_trial(tracker, 1, 100.0, tmp_path)
    estimates = {"decode_tok_s": stores.estimate(90.0)}
    tracker.trial_ended(stores.result(1, Outcome.PARTIAL, estimates), tmp_path)
    assert tracker.close(CLOSE_S)
    kept = kind.read(tmp_path)
    assert (kept.outcomes, kept.values) == ({"t1": "partial"}, {"t1": 90.0})


def test_a_sweep_is_taken_up_by_a_new_tracker(kind: Kind, tmp_path: Path) -> None:
    for number in (1, 2):
        tracker = kind.make(tmp_path)
        tracker.sweep_started(stores.SWEEP)
        _tell_of_trial(tracker, number, 10.0, tmp_path)
        assert tracker.close(CLOSE_S)
    kept = kind.read(tmp_path)
    assert kept.sweeps == {"s1": "running"}
    assert kept.values == {"t1": 10.0, "t2": 10.0}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_not_kept_as_one(kind: Kind, tmp_path: Path, number: float) -> None:
    tracker = kind.make(tmp_path)
    tracker.sweep_started(stores.SWEEP)
    _tell_of_trial(tracker, 1, number, tmp_path)
    assert tracker.close(CLOSE_S)
    kept = kind.read(tmp_path)
    assert (kept.values, kept.series) == ({"t1": None}, {})


def test_ends_quietly_and_twice(kind: Kind, tmp_path: Path) -> None:
    tracker = kind.make(tmp_path)
    tracker.sweep_started(stores.SWEEP)
    _tell_of_trial(tracker, 1, 10.0, tmp_path)
    assert tracker.close(CLOSE_S)
    _tell_of_trial(tracker, 2, 10.0, tmp_path)
    tracker.sweep_ended("finished")
    assert tracker.close(CLOSE_S)
    assert kind.read(tmp_path).outcomes == {"t1": "measured"}


def test_a_store_that_fails_is_told_by_close_alone(kind: Kind, tmp_path: Path) -> None:
    tracker = kind.make_broken(tmp_path)
    tracker.sweep_started(stores.SWEEP)
    _tell_of_trial(tracker, 1, 10.0, tmp_path)
    tracker.sweep_ended("finished")
    assert not tracker.close(CLOSE_S)
    assert not tracker.close(CLOSE_S)


def test_it_is_open_once_its_first_event_was_tried(kind: Kind, tmp_path: Path) -> None:
    for make in (kind.make, kind.make_broken):
        tracker = make(tmp_path)
        tracker.sweep_started(stores.SWEEP)
        assert tracker.wait_open(CLOSE_S)
        tracker.close(CLOSE_S)
