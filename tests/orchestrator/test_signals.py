"""How a sweep hears that it should end: cleanly first, then at once."""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.signals import SIGNALS, Interrupts
from orchestrator.state import State
from tests.patience import GIVE_UP_S

PROGRAM = """
import os, signal, sys, time
from orchestrator.signals import Interrupts

if "deaf" in sys.argv:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
with Interrupts(lambda: os._exit(7)).heard():
    try:
        print("ready", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        open("first", "w").close()
        print("the terminal may be gone", flush=True)
        time.sleep(60 if "slow" in sys.argv else 0)
        sys.exit(5)
"""


def _told(folder: Path, signals: list[signal.Signals], *words: str) -> int:
    """Run a program, send it signals, and return how it ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], stdout=subprocess.PIPE, text=True, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for number in signals:
            process.send_signal(number)
            end_s = time.monotonic() + GIVE_UP_S
            while not (folder / "first").exists() and time.monotonic() < end_s:
                time.sleep(0.01)
        return process.wait(timeout=GIVE_UP_S)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_lets_a_sweep_end_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    assert _told(tmp_path, [number], "deaf") == 5


def test_the_second_ends_it_at_once(tmp_path: Path) -> None:
    assert _told(tmp_path, [signal.SIGINT, signal.SIGTERM], "slow") == 7


def test_a_loop_that_ends_by_itself_is_told_instead_of_interrupted() -> None:
    told: list[str] = []
    ends: list[str] = []

    def gently() -> bool:
        told.append("end")
        return True

    interrupts = Interrupts(lambda: ends.append("at once"))
    before = signal.getsignal(signal.SIGTERM)
    with interrupts.heard(), interrupts.first_told_to(gently):
        signal.raise_signal(signal.SIGTERM)
        assert (told, ends) == (["end"], [])
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert (told, ends) == (["end"], ["at once"])
    assert signal.getsignal(signal.SIGTERM) is before
    deaf = Interrupts(lambda: None)
    with deaf.heard(), deaf.first_told_to(lambda: False), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_what_must_not_be_cut_off_is_not_and_then_the_signal_counts() -> None:
    ends: list[str] = []
    interrupts = Interrupts(lambda: ends.append("at once"))
    done: list[str] = []
    with interrupts.heard():
        with pytest.raises(KeyboardInterrupt), interrupts.held():
            signal.raise_signal(signal.SIGTERM)
            done.append("all of it")
        assert (done, ends) == (["all of it"], [])
        with pytest.raises(KeyboardInterrupt), interrupts.held():
            signal.raise_signal(signal.SIGTERM)
        assert ends == ["at once"]


def test_what_nohup_started_outlives_its_terminal() -> None:
    interrupts = Interrupts(lambda: None)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts.heard():
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
def test_ctrl_c_ends_a_command_that_a_script_started_behind_an_ampersand(tmp_path: Path) -> None:
    state = State(tmp_path)
    began = datetime.now(UTC).isoformat()
    state.write_card("s", {"name": "s", "status": "running", "began_at": began, "hosts": []})
    words = ("watch", "--state-dir", str(tmp_path), "--port", "0")
    behind = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-m", "orchestrator"]
    with subprocess.Popen([*behind, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "Ctrl-C ends" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=GIVE_UP_S) == 0
        finally:
            process.kill()
