"""A screening as a user runs it: ranked, with hangs ended and kept from later sweeps."""

import json
from pathlib import Path

import pytest

from infra.allreduce.probe import AllReduceProbe
from infra.clean_proof import LocalPremises
from infra.clock import ScaledClock
from infra.gpus import NvmlView
from infra.local_host import LocalHost
from infra.reaper import all_tags
from infra.sglang_cpu.build import build
from infra.sglang_cpu.layout import DEFAULT_ENV, DEFAULT_MODEL, EnvLayout
from orchestrator.screening import (
    FILE,
    TOKEN_BYTES,
    read_screening,
    refusals,
    timed_all_reduces,
    token_bytes_of,
)
from orchestrator.state import State
from sweeps.config import Config
from sweeps.hosts import EngineName, HostSpec
from sweeps.screening import STEP_TOKENS
from tests.e2e.sweeping import ROOT, run

pytestmark = pytest.mark.slow

SPACE = """
from sweeps import *

sweep = Sweep(
    name="talk",
    model=Model("some/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        Choice("NCCL_ALGO", [None, "Ring"]),
        Choice("NCCL_P2P_LEVEL", [None, "SYS"]),
    ],
    fixed={"tp_size": 8},
    workload=Workload(max_tokens=64),
    budget=Budget(trials=4),
)
"""
HANGS = '[start]\nhang_in = "distributed_init"\nonly_with = "NCCL_P2P_LEVEL=SYS"\n'


def test_settings_are_ranked_and_what_hangs_is_not_tried_by_a_sweep(
    tmp_path: Path,
) -> None:
    (tmp_path / "talk.py").write_text(SPACE)
    (tmp_path / "hangs.toml").write_text(HANGS)
    words = ("--truth", "S", "--time-scale", "200", "--scenario", "hangs.toml", "--json")
    done = run(tmp_path, "screen", "talk.py", *words)
    assert done.returncode == 0, done.stderr
    [told] = json.loads(done.stdout)
    by_change = {str(one["setting"]): one for one in told["screened"]}
    assert told["emulated"]
    assert [len(one["reductions"]) for one in told["screened"]] == [
        len(STEP_TOKENS),
        len(STEP_TOKENS),
        0,
    ]
    troubles = [one["trouble"].split(":")[0] for one in told["screened"]]
    assert troubles == ["", "", "hung"], by_change
    assert not any("screen-talk" in sweep for sweep in all_tags())

    state = State(tmp_path / ".sweeps")
    found = read_screening(state, "local", told["fingerprint"])
    assert found is not None
    assert found.as_data() == told
    assert read_screening(state, "local", "another") is None
    why = refusals(state, {"local": told["fingerprint"]})
    assert "hung" in why(Config.of({"NCCL_ALGO": None, "NCCL_P2P_LEVEL": "SYS"}))
    assert not why(Config.of({"NCCL_ALGO": "Ring", "NCCL_P2P_LEVEL": None}))
    assert (state.host_folder("local") / FILE).exists()
    assert timed_all_reduces(state, {"local": told["fingerprint"]}).were_timed
    assert not timed_all_reduces(state, {"local": "another"}).were_timed
    predicted = run(tmp_path, "predict", "talk.py", "--json")
    assert predicted.returncode == 0, predicted.stderr
    assert json.loads(predicted.stdout)["attribution"]["all_reduces_timed"]


def test_a_space_without_communication_is_refused(tmp_path: Path) -> None:
    lines = [line for line in SPACE.splitlines() if "NCCL" not in line]
    (tmp_path / "talk.py").write_text("\n".join(lines))
    done = run(tmp_path, "screen", "talk.py")
    assert done.returncode == 2
    assert "no axis of communication" in done.stderr


def test_real_ranks_are_timed_on_a_cpu(tmp_path: Path) -> None:
    layout = EnvLayout(ROOT / DEFAULT_ENV)
    build(layout, ROOT / DEFAULT_MODEL, print)
    spec = HostSpec("real", EngineName.SGLANG, python=str(layout.python), gpus=0)
    machine, clock = LocalHost(), ScaledClock()
    premises = LocalPremises(machine, NvmlView(), clock, name="real", gpu_indices=set())
    probe = AllReduceProbe(spec, machine, premises, clock, tmp_path, "screen-real", 100.0)
    screened = probe.measure(0, Config.of({}), {"NCCL_PROTO": "LL"}, [14336, 458752])
    assert screened.trouble == ""
    assert [r.size_bytes for r in screened.reductions] == [14336, 458752]
    assert all(0 < r.low_us <= r.median_us <= r.high_us for r in screened.reductions)


def test_the_width_of_a_model_is_read_from_its_configuration(tmp_path: Path) -> None:
    assert token_bytes_of(str(tmp_path)) == TOKEN_BYTES
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"hidden_size": 512}}))
    assert token_bytes_of(str(tmp_path)) == 1024
