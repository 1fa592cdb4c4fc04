"""Runs on a host are in the host's own order, whatever the clocks of their senders say."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from infra.process_id import ProcessId
from orchestrator.remote import laying_out
from orchestrator.remote.launcher import process_of
from orchestrator.remote.laying_out import order
from orchestrator.remote.notes import DRIVER, END, LAUNCHER, newest, notes_in, write_object
from orchestrator.remote.place import Place
from orchestrator.remote.there import ASKING
from tests.attacks import attack

DATA = {"argv": [], "cwd": "/", "env": {}, "title": "a sweep", "who": "somebody"}


@contextmanager
def a_process() -> Iterator[subprocess.Popen[bytes]]:
    """Run something that ends at an interrupt."""
    code = "import signal, sys; print('up', flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def begun(place: Place, run: str, process: ProcessId, *, ended: bool = False) -> None:
    folder = order(place, run, DATA)
    write_object(folder / LAUNCHER, {"process": replace(process, started_ticks=1).as_data(),
                                     "began_s": time.time()})  # fmt: skip
    write_object(folder / DRIVER, {"process": process.as_data()})
    if ended:
        write_object(folder / END, {"code": 0, "ended_s": time.time()})


@attack("9: a sender whose clock is ahead hides the run that runs")
def test_an_ended_run_of_a_sender_whose_clock_is_ahead_hides_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with a_process() as process:
        begun(place, "20990101-000000-aaaaaa", ProcessId.own(), ended=True)
        begun(place, "20260101-000000-bbbbbb", process_of(process.pid))
        begun(place, "20980101-000000-cccccc", ProcessId.own(), ended=True)
        found = newest(place.runs)
        assert found is not None
        assert (found.run, found.is_running) == ("20260101-000000-bbbbbb", True)
        assert ASKING["missing"](place, {"hashes": []})["running"]["run"] == found.run
        assert ASKING["status"](place, {})["run"]["run"] == found.run
        assert ASKING["stop"](place, {})["asked"]
        assert process.wait(60) == -signal.SIGINT
    found = newest(place.runs)
    assert found is not None
    # Nothing runs any more: the last one that was ordered.
    assert found.run == "20980101-000000-cccccc"
    assert not ASKING["stop"](place, {})["asked"]


def test_the_order_is_the_hosts_own(tmp_path: Path) -> None:
    place = Place(tmp_path)
    names = ["2030", "2020", "2040", "2010"]
    for name in names:
        begun(place, name, ProcessId.own(), ended=True)
    assert [note.run for note in notes_in(place.runs)] == names
    assert [note.sequence for note in notes_in(place.runs)] == [1, 2, 3, 4]


def test_runs_of_an_earlier_version_come_first_by_their_names(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for name in ("2030", "2020"):
        folder = place.run(name)
        write_object(folder / "order.json", DATA)
        write_object(folder / LAUNCHER, {"process": ProcessId.own().as_data(), "began_s": 1.0})
        write_object(folder / END, {"code": 0, "ended_s": 2.0})
    begun(place, "2010", ProcessId.own(), ended=True)
    assert [note.run for note in notes_in(place.runs)] == ["2020", "2030", "2010"]


def test_what_runs_is_never_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laying_out, "_RUNS_KEPT", 3)
    place = Place(tmp_path)
    begun(place, "0001-oldest-by-its-sender", ProcessId.own())
    for number in range(6):
        begun(place, f"2000-{9 - number}", ProcessId.own(), ended=True)
    assert [note.run for note in notes_in(place.runs)] == [
        "0001-oldest-by-its-sender", "2000-6", "2000-5", "2000-4",
    ]  # fmt: skip


@attack("9: two orders to a host at once")
def test_two_orders_at_once_have_two_numbers(tmp_path: Path) -> None:
    place = Place(tmp_path)
    threads = [
        threading.Thread(target=order, args=(place, f"run-{number}", DATA)) for number in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(note.sequence for note in notes_in(place.runs)) == list(range(1, 17))


@pytest.mark.parametrize("sequence", [None, "7", -1, True, 1.5, [1]])
def test_a_number_that_is_none_counts_as_an_earlier_version(
    tmp_path: Path, sequence: object
) -> None:
    place = Place(tmp_path)
    folder = order(place, "a", DATA)
    (folder / "order.json").write_text(json.dumps({**DATA, "sequence": sequence}))
    order(place, "b", DATA)
    assert [(note.run, note.sequence) for note in notes_in(place.runs)] == [("a", 0), ("b", 1)]
