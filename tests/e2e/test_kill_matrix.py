"""A sweep whose guard, then driver and guard, are killed; the other ends are in the bench."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from infra import reaper
from orchestrator.state import State
from tests.e2e.sweeping import (
    run,
    started,
    trials,
    wait_for_phase,
    wait_until_nothing_is_left,
    write_space,
)
from tests.infra.trees import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

WORLD = "[processes]\ndetached = 2\ndetached_keep_port = true\n"


def _write_space(folder: Path, *, max_tokens: int) -> None:
    """Write a sweep whose servers leave processes outside their tree."""
    path = write_space(folder, "killed", trials=2, max_tokens=max_tokens)
    (folder / "world.toml").write_text(WORLD)
    text = path.read_text()
    plain = "HostSpec(time_scale=200.0)"
    assert plain in text
    text = text.replace(plain, 'HostSpec(time_scale=200.0, scenario="./world.toml")')
    path.write_text(text)


def _processes(folder: Path) -> list[psutil.Process]:
    ours = set(State(folder / ".sweeps").sweep_ids())
    groups = reaper.by_trial()
    return [process for (sweep, _), found in groups.items() if sweep in ours for process in found]


def _guard(folder: Path) -> psutil.Process:
    (guard,) = [one for one in _processes(folder) if reaper.GUARD_TAG in one.environ()]
    return guard


def test_killed_guards_and_a_killed_driver_are_cleaned_up_after(tmp_path: Path) -> None:
    _write_space(tmp_path, max_tokens=200_000)
    with started(tmp_path, "sweep", "killed.py", "--driver", "serial") as process:
        try:
            wait_for_phase(tmp_path, "cold pass")
            before = {one.pid for one in _processes(tmp_path)}
            _guard(tmp_path).kill()
            # The driver lives on, ends the rest of the tree, and starts the next trial.
            port = wait_for_phase(tmp_path, "cold pass", 1)
            assert before.isdisjoint(one.pid for one in _processes(tmp_path))
            (row,) = trials(tmp_path)
            assert row["outcome"] == "failed", row["reason"]
            # Now nobody ends what has left session and tree, and one of the two keeps the port.
            _guard(tmp_path).kill()
            os.kill(process.pid, signal.SIGKILL)
            process.wait(timeout=60)
        finally:
            process.kill()
    wait_until(lambda: len(_processes(tmp_path)) == 2, "the end of all but the detached ones")
    done = run(tmp_path, "clean")
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until_nothing_is_left(tmp_path, port)
