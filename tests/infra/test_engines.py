"""Launch plans: the same settings give the same command and environment, and nothing leaks in."""

import os

import pytest

from infra.engines import ENGINES, effective_names
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
        "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    assert plan.renamed == (("ngram_match_depth", "speculative_ngram_max_trie_depth"),)
    assert plan.url == "http://127.0.0.1:31000"


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


def test_effective_names_are_those_that_the_server_reports() -> None:
    names = effective_names(SETTINGS, "0.5.23")
    assert names["ngram_match_depth"] == "speculative_ngram_max_trie_depth"
    assert "NCCL_PROTO" not in names
