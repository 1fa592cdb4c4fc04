"""A fact that cannot be read is a note, in time, and leaves no process."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from infra.probing.facts import Note
from infra.probing.reading import ReadError, Readings, ask

ENV = {"PATH": os.environ["PATH"]}


def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/child; sleep 60"
    with pytest.raises(ReadError, match=r"no answer within 0\.5 s"):
        ask(["/bin/sh", "-c", script], ENV, 0.5, tmp_path)
    child = Path(f"/proc/{int((tmp_path / 'child').read_text())}/stat")
    deadline_s = time.monotonic() + 10
    while child.exists() and " Z " not in child.read_text() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not child.exists() or " Z " in child.read_text()


def test_a_program_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="sh ended with 3: the driver is gone; x"):
        ask(["/bin/sh", "-c", "echo x; echo the driver is gone >&2; exit 3"], ENV, 10, tmp_path)
    with pytest.raises(ReadError, match="cannot be run"):
        ask([str(tmp_path / "none")], ENV, 10, tmp_path)
    assert ask([sys.executable, "-c", "print(1)"], ENV, 30, tmp_path) == "1\n"


def test_facts_that_fail_are_notes_and_the_rest_is_read() -> None:
    readings, released = Readings(), threading.Event()

    def refuse() -> int:
        raise PermissionError(13, "Permission denied")

    good = readings.start("a", lambda: 1, 0, 10)
    bad = readings.start("b", refuse, 0, 10)
    late = readings.start("c", lambda: released.wait(60), False, 0.1)
    assert (good(), bad(), late()) == (1, 0, False)
    released.set()
    assert readings.notes == [
        Note("b", "[Errno 13] Permission denied"),
        Note("c", "no answer within 0.1 s"),
    ]


def test_a_bug_is_no_note() -> None:
    readings = Readings()
    with pytest.raises(ZeroDivisionError):
        readings.start("a", lambda: 1 // 0, 0, 10)()
    assert readings.notes == []
