"""A sweep on two machines over SSH and Ray: one is lost in the middle, comes back and is used."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.sweeping import ROOT
from tests.infra.ssh.lan import Lan

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SPACE = """
from sweeps import *

NGRAM = {"speculative_algorithm": "NGRAM"}

sweep = Sweep(
    name="two-hosts",
    model=Model("some/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 9, NGRAM),
        Choice("NCCL_PROTO", [None, "LL"]),
    ],
    fixed={"tp_size": 8},
    workload=Workload(max_tokens=128, measured_prompts=4, cold_prompts=1, measure_s=1e6,
                      ignore_eos=True),
    budget=Budget(trials=8, trial_s=1e6, start_s=1e6, phase_s=1e6, silence_s=1e6),
    early_stopping=False,
    sampler="random",
)
"""
LIMIT_S = 400.0


def _wait(true: Callable[[], object], what: str, process: subprocess.Popen[str]) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until_s, what
        time.sleep(0.2)


def _orchestrator(folder: Path, *words: str) -> list[str]:
    inventory = str(folder / "hosts.toml")
    return [
        sys.executable, "-m", "orchestrator", *words,
        "--inventory", inventory, "--state-dir", str(folder / "state"),
    ]  # fmt: skip


def test_a_lost_host_is_replaced_and_used_again(lan: Lan, tmp_path: Path) -> None:
    (tmp_path / "space.py").write_text(SPACE)
    lan.write_inventory(tmp_path / "hosts.toml", "gpu1", "gpu2", time_scale=100.0)
    words = _orchestrator(tmp_path, "sweep", str(tmp_path / "space.py"), "--hosts", "gpu1,gpu2")
    state = tmp_path / "state"
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "120"},
    ) as sweep:  # fmt: skip
        try:
            begun = lambda: list(state.glob("sweeps/*/trials/0003"))  # noqa: E731
            _wait(begun, "the fourth trial", sweep)
            lan["gpu2"].stop()  # the power goes
            [log] = state.glob("sweeps/*/driver.log")
            _wait(lambda: "host=gpu2 is lost" in log.read_text(), "the loss", sweep)
            lan["gpu2"].start()
            out, err = sweep.communicate(timeout=LIMIT_S)
        finally:
            sweep.kill()
            if not lan["gpu2"].pids():
                lan["gpu2"].start()
    assert sweep.returncode == 0, out + err
    rows = [
        json.loads(path.read_text()) for path in sorted(state.glob("sweeps/*/trials/*/result.json"))
    ]
    good = [row for row in rows if row["outcome"] in ("measured", "partial")]
    assert len(good) == 8
    assert {row["host"] for row in good} == {"gpu1", "gpu2"}
    lost = [row for row in rows if row["outcome"] == "failed"]
    assert all(row["host"] == "gpu2" for row in lost if "host gpu2" in row["reason"])
    again = {str(row["config"]) for row in good}
    assert all(str(row["config"]) in again for row in lost), "what was lost is measured elsewhere"
    for row in good:  # what a trial wrote there is here
        folder = next(state.glob(f"sweeps/*/trials/{row['number']:04d}"))
        assert {p.name for p in folder.iterdir()} >= {"spool.jsonl", "plan.json", "server.log"}
    for name in ("gpu1", "gpu2"):
        words_left = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in lan[name].pids()]
        assert not [w for w in words_left if b"ray" in w or b"infra" in w], words_left
    assert not re.search(r"RAY_AUTH_TOKEN=\S", out + err + log.read_text())


def test_hosts_that_cannot_be_had_are_named_before_anything_starts(
    lan: Lan, tmp_path: Path
) -> None:
    (tmp_path / "space.py").write_text(SPACE)
    lan.write_inventory(tmp_path / "hosts.toml")
    space = str(tmp_path / "space.py")

    def refused(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            _orchestrator(tmp_path, "sweep", space, *words),
            cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    code, told = refused("--hosts", "gpu1,inner")
    assert code == 2, told
    assert "jump host" in told
    assert "sweep --host inner" in told
    code, told = refused("--hosts", "gpu1,gpu9")
    assert code == 2, told
    assert "gpu9" in told
    code, told = refused("--hosts", "gpu1", "--driver", "serial")
    assert code == 2, told
    lan.write_inventory(tmp_path / "hosts.toml", "gpu1", python="/usr/bin/env")
    code, told = refused("--hosts", "gpu1")
    assert code == 4, told
    assert "hosts prepare gpu1" in told
    assert not list(tmp_path.glob("state/sweeps/*"))
