"""A command that is run for somebody elsewhere: once, to its end, which is on record."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.remote.laying_out import order
from orchestrator.remote.notes import OUTPUT, newest, read_note
from orchestrator.remote.place import Place
from tests.orchestrator.remote.sending import until


def ordered(tmp_path: Path, *argv: str, run: str = "r1") -> Path:
    """Order a command of ours."""
    data = {"argv": argv, "cwd": str(tmp_path), "env": {"COLUMNS": "90"}, "title": "t", "who": "w"}
    return order(Place(tmp_path), run, data)


def launched(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "orchestrator.remote.launcher", str(folder)])


@pytest.mark.slow
def test_a_command_begins_once_however_often_it_is_launched(tmp_path: Path) -> None:
    folder = ordered(tmp_path, "check", "no_such_file.py")
    both = [launched(folder), launched(folder)]
    assert [process.wait(100) for process in both] == [0, 0]
    note = read_note(folder)
    assert (note.code, note.is_running) == (2, False)
    assert (folder / OUTPUT).read_text().count("there is no such file") == 1


@pytest.mark.slow
def test_sigterm_is_the_interrupt_of_the_command(tmp_path: Path) -> None:
    folder = ordered(tmp_path, "emulate", "--model-path", "m", "--port", "0")
    process = launched(folder)
    until(lambda: read_note(folder).driver is not None, lambda: "no driver")
    assert read_note(folder).is_running
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(100) == 0
    note = read_note(folder)
    assert note.code is not None
    assert not note.is_running


def test_what_cannot_be_started_has_an_end_too(tmp_path: Path) -> None:
    folder = ordered(tmp_path / "gone", "check")
    (folder / "order.json").write_text('{"argv": [], "cwd": "/no/such/folder", "env": {}}')
    assert launched(folder).wait(100) == 1
    assert read_note(folder).code == 1
    assert "could not be started" in (folder / OUTPUT).read_text()


def test_a_process_of_an_earlier_boot_does_not_run(tmp_path: Path) -> None:
    folder = ordered(tmp_path, "check")
    assert newest(Place(tmp_path).runs) is None  # ordered, and never begun
    dead = (
        '{"process": {"pid": 1, "started_ticks": 1, "boot_id": "before", "machine": "%s",'
        ' "namespace": ""}, "began_s": 12.0}'
    )
    (folder / "launcher.json").write_text(dead % os.uname().nodename)
    found = newest(Place(tmp_path).runs)
    assert found is not None
    assert (found.began_s, found.is_running, found.code) == (12.0, False, None)


def test_only_the_newest_orders_are_kept(tmp_path: Path) -> None:
    for number in range(60):
        ordered(tmp_path, "check", run=f"r{number:02d}")
    kept = sorted(path.name for path in Place(tmp_path).runs.iterdir())
    assert len(kept) <= 51
    assert kept[-1] == "r59"
