"""Sweeps on Ray Tune as a user runs them: to the end, interrupted, killed, resumed."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.state import State
from tests.e2e.sweeping import (
    DEADLINE_S,
    run,
    started,
    trials,
    wait_for_line,
    wait_for_phase,
    wait_until_nothing_is_left,
    write_space,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_sweep_ends_with_a_recommendation_and_leaves_nothing(tmp_path: Path) -> None:
    write_space(tmp_path, "whole")
    done = run(tmp_path, "sweep", "whole.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "EMULATED" in done.stdout.splitlines()[0]
    assert "Traceback" not in done.stderr
    rows = trials(tmp_path)
    assert [row["outcome"] for row in rows] == ["measured"] * 3
    assert rows[0]["config"] == {"speculative_algorithm": None, "NCCL_PROTO": None}
    for row in rows:
        port = int(row["argv"][row["argv"].index("--port") + 1])
        wait_until_nothing_is_left(tmp_path, port)


def test_servers_with_a_key_are_measured_by_its_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE_OF_SERVERS", "sesame-0123456789")
    space = write_space(tmp_path, "keyed", trials=2)
    fixed = '"tp_size": 8, "api_key": "env:GATE_OF_SERVERS"'
    space.write_text(space.read_text().replace('"tp_size": 8', fixed))
    done = run(tmp_path, "sweep", "keyed.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row["outcome"] for row in trials(tmp_path)] == ["measured"] * 2
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"sesame-0123456789" in path.read_bytes()]


def _ctrl_c(process: subprocess.Popen[str]) -> None:
    """Do what a terminal does: the signal goes to every process of the job."""
    os.killpg(process.pid, signal.SIGINT)


def _terminate(process: subprocess.Popen[str]) -> None:
    process.terminate()


def _hang_up(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGHUP)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (_ctrl_c, ()),
        (_terminate, ()),
        (_terminate, ("--driver", "serial")),
        (_hang_up, ("--driver", "serial")),
    ],
    ids=["ctrl-c", "sigterm", "sigterm without ray", "a closed terminal"],
)
def test_an_interrupted_sweep_exits_130_and_keeps_the_cut_trial(
    tmp_path: Path, end: Callable[[subprocess.Popen[str]], None], words: tuple[str, ...]
) -> None:
    write_space(tmp_path, "cut", trials=2, max_tokens=60_000)
    with started(tmp_path, "sweep", "cut.py", *words) as process:
        port = wait_for_phase(tmp_path, "measuring")
        end(process)
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130, output
    assert end is _hang_up or "--resume" in output
    wait_until_nothing_is_left(tmp_path, port)
    (row,) = trials(tmp_path)
    assert row["outcome"] == "cancelled", row["reason"]


def test_a_signal_while_ray_comes_up_ends_a_sweep_before_its_first_trial(tmp_path: Path) -> None:
    write_space(tmp_path, "early", trials=2)
    with started(tmp_path, "sweep", "early.py") as process:
        wait_for_line(tmp_path, "Ray starts")
        process.terminate()
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130, output
    assert "--resume" in output
    assert trials(tmp_path) == []
    state = State(tmp_path / ".sweeps")
    assert [state.card(name)["status"] for name in state.sweep_ids()] == ["interrupted"]


def test_a_driver_that_is_killed_twice_leaves_no_server_and_its_sweep_resumes(
    tmp_path: Path,
) -> None:
    write_space(tmp_path, "killed", trials=2, max_tokens=40_000)
    state = State(tmp_path / ".sweeps")
    for number, words in enumerate([(), ("--driver", "serial")]):
        with started(tmp_path, "sweep", "killed.py", *words) as process:
            port = wait_for_phase(tmp_path, "measuring", number)
            (sweep_id,) = state.sweep_ids()
            assert state.card(sweep_id)["status"] == "running"
            process.kill()
            process.wait(timeout=DEADLINE_S)
        wait_until_nothing_is_left(tmp_path, port)
    done = run(tmp_path, "sweep", "killed.py", "--resume", "--driver", "simulated")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "its driver was killed" in done.stdout
    rows = trials(tmp_path)
    assert [row["outcome"] for row in rows] == ["cancelled", "cancelled", "measured", "measured"]
    measured = {row["variant"] for row in rows if row["outcome"] == "measured"}
    assert len(measured) == 2
    assert len({row["sweep"] for row in rows}) == 1
