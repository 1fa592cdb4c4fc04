"""A sweep by the command on a host that switches the custom all-reduce off by itself."""

from pathlib import Path

import pytest

from tests.e2e.sweeping import run, trials

pytestmark = pytest.mark.slow

SPACE = """
from sweeps import *

sweep = Sweep(
    name="alike",
    model=Model("some/model"),
    axes=[switch("disable_custom_all_reduce"), Choice("NCCL_PROTO", {protocols})],
    fixed={{"tp_size": 8}},
    workload=Workload(max_tokens=256, measured_prompts=4, cold_prompts=1, ignore_eos=True),
    budget=Budget(trials=6),
    keep_inert={keep_inert},
)
"""
OFF = "[overrides.args]\ndisable_custom_all_reduce = true\n"
SIMULATED = ("--engine", "emulated", "--driver", "simulated", "--truth", "nvlink")


def test_no_start_is_spent_on_a_second_name(tmp_path: Path) -> None:
    (tmp_path / "off.toml").write_text(OFF)
    (tmp_path / "space.py").write_text(
        SPACE.format(keep_inert=False, protocols=[None, "LL", "Simple"])
    )
    done = run(tmp_path, "sweep", "space.py", *SIMULATED, "--scenario", "off.toml")
    assert done.returncode == 0, done.stderr
    asked = {trial["config"]["disable_custom_all_reduce"] for trial in trials(tmp_path)}
    assert asked == {False}
    assert "alike  disable_custom_all_reduce: off ran as on in" in done.stdout


def test_whoever_asks_for_all_gets_both_and_is_told_that_they_ran_alike(tmp_path: Path) -> None:
    (tmp_path / "off.toml").write_text(OFF)
    (tmp_path / "space.py").write_text(SPACE.format(keep_inert=True, protocols=[None]))
    done = run(tmp_path, "sweep", "space.py", *SIMULATED, "--scenario", "off.toml")
    assert done.returncode == 0, done.stderr
    asked = {trial["config"]["disable_custom_all_reduce"] for trial in trials(tmp_path)}
    assert asked == {False, True}
    assert "alike  plain disable_custom_all_reduce=True ran as plain did on local" in done.stdout
