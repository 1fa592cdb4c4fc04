"""Launch plans: the same settings give the same command and environment, and nothing leaks in."""

import os
from pathlib import Path

import pytest

from infra.engines import ENGINES, place_variables
from sweeps.hosts import EngineName, HostSpec
from sweeps.launch import Deadlines
from sweeps.values import Value

SETTINGS: dict[str, Value] = {
    "model_path": "some/model",
    "speculative_algorithm": "NGRAM",
    "speculative_num_draft_tokens": 8,
    "ngram_match_depth": 12,
    "disable_custom_all_reduce": True,
    "trust_remote_code": False,
    "mem_fraction_static": 0.88,
    "NCCL_PROTO": "LL",
    "NCCL_ALGO": None,
    "NCCL_MIN_NCHANNELS": 4,
}


def test_a_whole_plan_for_sglang() -> None:
    host = HostSpec(python="/opt/sglang/bin/python", env={"OMP_NUM_THREADS": "1"})
    plan = ENGINES[EngineName.SGLANG].plan(SETTINGS, host, 31000, Deadlines())
    assert plan.argv == (
        "/opt/sglang/bin/python", "-m", "sglang.launch_server",
        "--model-path", "some/model", "--speculative-algorithm", "NGRAM",
        "--speculative-num-draft-tokens", "8", "--speculative-ngram-max-trie-depth", "12",
        "--disable-custom-all-reduce", "--mem-fraction-static", "0.88",
        "--host", "127.0.0.1", "--port", "31000",
    )  # fmt: skip
    assert dict(plan.env) == {
        "NCCL_PROTO": "LL", "NCCL_MIN_NCHANNELS": "4", "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }  # fmt: skip
    assert plan.renamed == (("ngram_match_depth", "speculative_ngram_max_trie_depth"),)
    assert plan.url == "http://127.0.0.1:31000"


def test_the_ranks_meet_on_a_reserved_port_unless_the_user_names_one() -> None:
    plan_of = ENGINES[EngineName.SGLANG].plan
    plan = plan_of(SETTINGS, HostSpec(), 31000, Deadlines(), rendezvous_port=31001)
    assert plan.argv[-2:] == ("--nccl-port", "31001")
    assert plan.rendezvous_port == 31001
    mine = {**SETTINGS, "nccl_port": 7777}
    plan = plan_of(mine, HostSpec(), 31000, Deadlines(), rendezvous_port=31001)
    assert plan.argv.count("--nccl-port") == 1
    assert plan.rendezvous_port is None


def test_a_host_without_gpus_is_told_of_none() -> None:
    plan = ENGINES[EngineName.SGLANG].plan(SETTINGS, HostSpec(gpus=0), 31000, Deadlines())
    assert "CUDA_VISIBLE_DEVICES" not in dict(plan.env)


def test_compiled_kernels_are_kept_from_trial_to_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    first, second = place_variables(tmp_path / "a"), place_variables(tmp_path / "b")
    assert first["TMPDIR"] != second["TMPDIR"]
    assert first["TORCHINDUCTOR_CACHE_DIR"] == second["TORCHINDUCTOR_CACHE_DIR"]
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/mine")
    assert place_variables(tmp_path)["TORCHINDUCTOR_CACHE_DIR"] == "/mine"


def test_an_older_version_gets_its_own_spelling() -> None:
    host = HostSpec(version="0.5.9")
    plan = ENGINES[EngineName.SGLANG].plan(SETTINGS, host, 1, Deadlines())
    assert "--speculative-ngram-max-match-window-size" in plan.argv


def test_the_emulated_engine_differs_only_in_program_and_its_own_variables() -> None:
    host = HostSpec(time_scale=50, truth="S")
    real = ENGINES[EngineName.SGLANG].plan(SETTINGS, host, 1, Deadlines())
    emulated = ENGINES[EngineName.EMULATED].plan(SETTINGS, host, 1, Deadlines(), start=3)
    assert real.argv[3:] == emulated.argv[3:]
    extra = {n: v for n, v in emulated.env if n.startswith("EMULATED_")}
    assert extra == {
        "EMULATED_TIME_SCALE": "50", "EMULATED_TRUTH": "S", "EMULATED_GPUS": "8",
        "EMULATED_SEED": "3",
    }  # fmt: skip
    assert dict(real.env) == {n: v for n, v in emulated.env if n not in extra}


def test_a_chain_of_eagle_drafts_verifies_one_token_more_than_its_steps() -> None:
    settings: dict[str, Value] = {
        "speculative_algorithm": "EAGLE3", "speculative_num_steps": 3, "speculative_eagle_topk": 1,
    }  # fmt: skip
    plan = ENGINES[EngineName.SGLANG].plan(settings, HostSpec(), 1, Deadlines())
    at = plan.argv.index("--speculative-num-draft-tokens")
    assert plan.argv[at + 1] == "4"


def test_nothing_of_our_own_environment_is_in_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret-canary")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    plan = ENGINES[EngineName.SGLANG].plan(SETTINGS, HostSpec(), 1, Deadlines())
    assert "secret-canary" not in str(plan)
    assert "OMP_NUM_THREADS" not in dict(plan.env)
    assert {"HF_TOKEN", "PATH"} <= set(plan.inherit)
    assert not {"CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"} & set(plan.inherit)
    assert os.environ["OMP_NUM_THREADS"] == "3"
