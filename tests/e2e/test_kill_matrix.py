"""Whole sweeps whose guard, or driver and guard, are killed; the other ends are in the bench."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from infra import reaper
from orchestrator.state import State
from tests.e2e.sweeping import (
    DEADLINE_S,
    run,
    started,
    trials,
    wait_for_phase,
    wait_until_nothing_is_left,
    write_space,
)
from tests.infra.trees import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

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


@contextmanager
def generating(folder: Path, *words: str) -> Iterator[tuple[psutil.Process, int]]:
    """Run a sweep until a trial generates; lend the driver's process and the server's port."""
    _write_space(folder, max_tokens=200_000)
    with started(folder, "sweep", "killed.py", "--driver", "serial", *words) as process:
        port = wait_for_phase(folder, "cold pass")
        yield psutil.Process(process.pid), port
        process.kill()
        process.wait(timeout=DEADLINE_S)


def test_a_trial_whose_guard_is_killed_ends_the_rest_itself(tmp_path: Path) -> None:
    with generating(tmp_path):
        before = {process.pid for process in _processes(tmp_path)}
        _guard(tmp_path).kill()
        # The driver lives on, and starts the next trial.
        wait_until(
            lambda: before.isdisjoint(process.pid for process in _processes(tmp_path)),
            "the end of the whole tree",
        )
        wait_until(lambda: trials(tmp_path), "the end of the trial")
        (row, *_) = trials(tmp_path)
        assert row["outcome"] == "failed", row["reason"]


def test_what_a_killed_driver_and_guard_leave_is_cleaned(tmp_path: Path) -> None:
    with generating(tmp_path) as (driver, port):
        guard = _guard(tmp_path)
        # Both at once: a driver that sees its guard go ends the rest by itself.
        driver.suspend()
        os.kill(guard.pid, signal.SIGKILL)
        driver.kill()
        wait_until(lambda: len(_processes(tmp_path)) == 2, "the end of all but the detached ones")
    # Nobody ends them: they have left session and tree, and one keeps the port.
    assert len(_processes(tmp_path)) == 2
    done = run(tmp_path, "clean")
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until_nothing_is_left(tmp_path, port)
