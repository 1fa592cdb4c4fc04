"""The reaper finds by tag, kills no stranger, and spares its own line."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from infra import reaper
from tests.infra.trees import python, wait_until
from tests.patience import GIVE_UP_S

ROOT = Path(__file__).parents[2]
_REST = "import signal; print('up', flush=True); signal.pause()"


@contextmanager
def tagged(sweep: str, trial: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that carries a tag."""
    argv = python(_REST)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=reaper.tags(sweep, trial)) as process:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        try:
            yield process
        finally:
            process.kill()


def test_finds_by_sweep_and_by_trial(sweep: str) -> None:
    with tagged(sweep, "t1") as one, tagged(sweep, "t2") as two, tagged(sweep + "x", "t1"):
        assert {found.pid for found in reaper.find_tagged(sweep)} == {one.pid, two.pid}
        (only,) = reaper.find_tagged(sweep, "t2")
        assert only == (two.pid, psutil.Process(two.pid).create_time())
        tags = reaper.all_tags()
        assert (tags[sweep], tags[sweep + "x"]) == (2, 1)
    assert sweep not in reaper.all_tags()


def test_reaps_one_trial_and_leaves_the_other(sweep: str) -> None:
    with tagged(sweep, "t1") as one, tagged(sweep, "t2") as two:
        assert reaper.reap(sweep, "t1") == 1
        assert one.wait(GIVE_UP_S) == -signal.SIGKILL
        assert two.poll() is None
        assert reaper.reap(sweep) == 1
        assert reaper.reap(sweep) == 0


def test_a_frozen_process_is_killed_as_well(sweep: str) -> None:
    with tagged(sweep, "t1") as process:
        process.send_signal(signal.SIGSTOP)
        assert reaper.reap(sweep) == 1
        assert process.wait(GIVE_UP_S) == -signal.SIGKILL


def test_all_are_killed_even_where_looking_takes_all_the_time(sweep: str) -> None:
    with tagged(sweep, "t1") as one, tagged(sweep, "t2") as two:
        assert reaper.reap(sweep, wait_s=0.0) == 2
        assert {one.wait(GIVE_UP_S), two.wait(GIVE_UP_S)} == {-signal.SIGKILL}


def test_spares_itself_and_its_ancestors(sweep: str, tmp_path: Path) -> None:
    code = """
import os, subprocess, sys
from infra import reaper
if len(sys.argv) == 2:
    child = subprocess.run([sys.executable, "-c", sys.argv[1], "", "inner"])
    sys.exit(child.returncode)
sweep = os.environ[reaper.SWEEP_TAG]
sys.exit(10 + reaper.reap(sweep) + len(reaper.find_tagged(sweep)))
"""
    # Both carry the tag, and the inner one looks for it.
    environment = {**os.environ, **reaper.tags(sweep, "t1"), "PYTHONPATH": str(ROOT)}
    outer = subprocess.run([sys.executable, "-c", code, code], env=environment, timeout=60)
    assert outer.returncode == 10


def test_a_reused_pid_is_not_killed(sweep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tagged(sweep, "t1") as process:
        found = psutil.Process(process.pid)
        # As if the process had been seen earlier, with another start.
        monkeypatch.setattr(found, "_ident", (process.pid, 1.0))
        reaper._kill(found)
        assert process.poll() is None


def test_survivors_do_not_hold_it_up(
    sweep: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with tagged(sweep, "t1"):
        monkeypatch.setattr(reaper, "_kill", lambda process: None)
        assert reaper.reap(sweep, wait_s=0.1) == 1
        assert "outlived" in caplog.text


def test_processes_that_cannot_be_read_are_passed_over(sweep: str) -> None:
    with tagged(sweep, "t1") as process:
        # A zombie until it is waited for, without an environment.
        process.kill()
        wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE, "a zombie")
        assert reaper.find_tagged(sweep) == []
        assert reaper._look(process.pid, os.getuid()) is None
        assert reaper._look(2**22 + 1, os.getuid()) is None
