"""Whole sweeps by the command line, and what must be left after them: nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.probing.facts import Listener
from infra.probing.neighbours import listeners
from infra.reaper import all_tags
from orchestrator.state import State
from tests.patience import GIVE_UP_S

ROOT = Path(__file__).parents[2]
DEADLINE_S = GIVE_UP_S

SPACE = """
from sweeps import *

NGRAM = {{"speculative_algorithm": "NGRAM"}}

sweep = Sweep(
    name="{name}",
    model=Model("some/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 6, NGRAM),
        Choice("NCCL_PROTO", [None, "LL"]),
    ],
    fixed={{"tp_size": 8}},
    workload=Workload(max_tokens={max_tokens}, measured_prompts=4, most_measured_prompts=4,
                      cold_prompts=1,
                      measure_s=1e6, ignore_eos=True),
    # A busy machine is slow to start a server, and host seconds are short here.
    budget=Budget(trials={trials}, trial_s=1e6, start_s=1e6, phase_s=1e6),
    hosts=[HostSpec(time_scale=200.0)],
    early_stopping=False,
)
"""


def write_space(folder: Path, name: str, *, trials: int = 3, max_tokens: int = 256) -> Path:
    """Write a small space file and return its path."""
    path = folder / f"{name}.py"
    path.write_text(SPACE.format(name=name, trials=trials, max_tokens=max_tokens))
    return path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the orchestrator to its end."""
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", *words],
        cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip


@contextmanager
def started(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command in a session of its own; it is gone at the end, whatever happens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        with process:
            yield process
            process.wait(timeout=DEADLINE_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def trials(folder: Path) -> list[dict[str, Any]]:
    """Read what `trials --json` prints."""
    rows: list[dict[str, Any]] = json.loads(run(folder, "trials", "--json").stdout)
    return rows


def wait_for_phase(folder: Path, phase: str, number: int = 0) -> int:
    """Wait until a trial from `number` on is in a phase; return the port of its server."""
    end_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < end_s:
        spools = sorted(folder.glob(".sweeps/sweeps/*/trials/*/spool.jsonl"))
        for spool in spools[number:]:
            if f'"phase": "{phase}"' in spool.read_text():
                plan = json.loads((spool.parent / "plan.json").read_text())
                return int(plan["url"].rsplit(":", 1)[1])
        time.sleep(0.1)
    raise AssertionError(f"no trial came to {phase}")


def wait_for_line(folder: Path, words: str) -> None:
    """Wait until the log of a driver has some words."""
    end_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < end_s:
        logs = folder.glob(".sweeps/sweeps/*/driver.log")
        if any(words in log.read_text() for log in logs):
            return
        time.sleep(0.02)
    raise AssertionError(f"no driver logged {words}")


def wait_until_nothing_is_left(folder: Path, port: int) -> None:
    """Wait until no process of the folder's sweeps lives, and none of theirs has the port.

    Another sweep of this machine may have it by then.
    """
    ours = set(State(folder / ".sweeps").sweep_ids())
    end_s = time.monotonic() + DEADLINE_S
    while ours & all_tags().keys() or holders(port, all_tags().keys() - ours):
        assert time.monotonic() < end_s, f"left: {all_tags()}, {listeners((port, port))}"
        time.sleep(0.1)


def holders(port: int, strangers: Collection[str] = ()) -> list[Listener]:
    """Return who listens on a port, but for the sweeps of others."""
    return [one for one in listeners((port, port)) if one.sweep not in strangers]
