"""What is read back of a server: its account, its log, and the environment of its processes."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest

from infra.reaper import tags
from infra.sglang.effective import (
    UNREAD,
    Environments,
    Source,
    account,
    log_changes,
    parser_accepts,
    read_environments,
)
from sweeps.alike import namesakes
from sweeps.pins import CAPACITY
from sweeps.values import Value
from tests.sweeps.makers import plain, result

SWEEP = f"test-{uuid.uuid4().hex}"
TAGS = tags(SWEEP, "t")
INFO: Mapping[str, object] = {
    "max_running_requests": None, "mem_fraction_static": 0.88, "attention_backend": "fa3",
    "page_size": 1, "chunked_prefill_size": 8192, "cuda_graph_max_bs_decode": None,
    "cuda_graph_config": {"decode": {"backend": "full", "max_bs": 160, "bs": [1, 160]}},
    "speculative_num_draft_tokens": 12, "speculative_ngram_max_trie_depth": 18,
    "cuda_graph_bs_decode": [1, 2, 4], "api_key": "hidden", "disable_custom_all_reduce": False,
    "internal_states": [{"effective_max_running_requests_per_dp": 1024}] * 2,
}  # fmt: skip
"""The shape of what SGLang 0.5.23 tells with two data-parallel ranks."""


def read(
    settings: Mapping[str, Value] | None = None,
    info: Mapping[str, object] = INFO,
    *log: str,
    environments: Environments = UNREAD,
    version: str = "0.5.23",
) -> tuple[dict[str, Value], dict[str, str]]:
    """Read an account back."""
    told = account(info, settings or {}, version, log=log, environments=environments)
    return told.settings, told.sources


def test_capacity_is_told_by_our_names_whatever_was_asked() -> None:
    told, sources = read()
    assert {name: told[name] for name in CAPACITY} == {
        "max_running_requests": 2048, "mem_fraction_static": 0.88, "attention_backend": "fa3",
        "page_size": 1, "chunked_prefill_size": 8192, "decode_graph_max_batch": 160,
    }  # fmt: skip
    assert set(sources.values()) == {Source.INFO.value}


@pytest.mark.parametrize(
    ("info", "batch"),
    [
        ({"cuda_graph_max_bs_decode": 64}, 64),
        ({"internal_states": [{"decode_cuda_graph_bs": [1, 2, 48]}]}, 48),
        ({"internal_states": [{"decode_cuda_graph_bs": []}]}, None),
        ({"cuda_graph_config": {"decode": {"backend": "disabled", "max_bs": 32}}}, None),
    ],
)
def test_the_largest_graph_is_the_one_captured(info: dict[str, object], batch: int | None) -> None:
    told, _ = read(None, {**INFO, **info})
    assert told["decode_graph_max_batch"] == batch


def test_each_version_is_read_under_its_own_names() -> None:
    old = {"cuda_graph_max_bs": 80, "speculative_ngram_max_match_window_size": 12}
    told, _ = read({"ngram_match_depth": 12}, old, version="0.5.9")
    assert (told["decode_graph_max_batch"], told["ngram_match_depth"]) == (80, 12)
    alias, _ = read({"cuda_graph_max_bs": 64}, {"cuda_graph_max_bs_decode": 64}, version="0.5.15")
    assert alias["cuda_graph_max_bs"] == 64


def test_an_unset_value_is_told_and_a_changed_one_differs() -> None:
    settings: dict[str, Value] = {"speculative_num_draft_tokens": None, "ngram_match_depth": 18}
    told = account(INFO, settings, "0.5.23")
    assert told.settings["speculative_num_draft_tokens"] == 12
    assert told.mismatches(settings) == ()
    [wrong] = told.mismatches({**settings, "speculative_num_draft_tokens": 8})
    assert (wrong.requested, wrong.effective, wrong.source) == (8, 12, "server info")


def test_secrets_are_never_told() -> None:
    environments = Environments(
        {"SGLANG_API_KEY": "hidden", "NCCL_PROTO": "LL"}, {"HF_TOKEN": "hidden"}, known=True
    )
    told, _ = read({"api_key": "hidden", "HF_TOKEN": None}, environments=environments)
    assert "hidden" not in told.values()
    assert told["NCCL_PROTO"] == "LL"
    assert not {"api_key", "HF_TOKEN", "SGLANG_API_KEY"} & told.keys()


def test_who_told_it_last_is_believed() -> None:
    settings: dict[str, Value] = {"NCCL_CUMEM_ENABLE": 1, "NCCL_PROTO": None, "NCCL_ALGO": "Ring"}
    environments = Environments(
        {"NCCL_CUMEM_ENABLE": "1", "NCCL_ALGO": "Ring"},
        {"NCCL_CUMEM_ENABLE": "0", "NCCL_ALGO": "Ring", "PATH": "/bin"},
        known=True,
    )
    line = "[2026-01-01 00:00:00] NCCL_ALGO is set to 'allreduce:tree', the NCCL channel count is"
    told, sources = read(settings, {}, line, environments=environments)
    assert told == {
        "NCCL_CUMEM_ENABLE": "0", "NCCL_PROTO": None, "NCCL_ALGO": "allreduce:tree",
    }  # fmt: skip
    assert sources["NCCL_CUMEM_ENABLE"] == Source.SCHEDULER.value
    assert sources["NCCL_ALGO"] == Source.LOG.value


def test_a_variable_that_no_environment_tells_is_unknown_not_unset() -> None:
    told, _ = read({"NCCL_PROTO": None}, {})
    assert "NCCL_PROTO" not in told


def test_a_server_that_tells_its_own_variables_is_believed() -> None:
    info = {"internal_states": [{"env_vars": {"SGLANG_ENABLE_SPEC_V2": "1"}}]}
    old = Environments({}, {"SGLANG_ENABLE_SPEC_V2": "0"}, known=True)
    told, _ = read({}, info, environments=old)
    assert told["SGLANG_ENABLE_SPEC_V2"] == "1"


@pytest.mark.parametrize(
    ("line", "change"),
    [
        ("Overwriting environment variable NCCL_X from 'a b' to 'c'", ("NCCL_X", "c")),
        ("Overriding environment variable NCCL_CUMEM_ENABLE=0", ("NCCL_CUMEM_ENABLE", "0")),
        ("Setting NCCL_CUMEM_ENABLE=1 for every NCCL communicator", ("NCCL_CUMEM_ENABLE", "1")),
        ("h:1:2 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to PHB", ("NCCL_P2P_LEVEL", "PHB")),
        (
            "only supports it; overriding speculative_num_steps=4 to 1.",
            ("speculative_num_steps", 1),
        ),
        ("UNO uses speculative_eagle_topk=1; overriding 4.", ("speculative_eagle_topk", 1)),
        ("Custom allreduce is disabled because it's", ("disable_custom_all_reduce", True)),
        ("CustomAllreduce is disabled due to an unsupported", ("disable_custom_all_reduce", True)),
        ("CustomAllReduceV2 is disabled because your", ("disable_custom_all_reduce", True)),
        (
            "[AR] All-reduce call path: NCCL (custom AR disabled)",
            ("disable_custom_all_reduce", True),
        ),
        (
            "Disabling SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2 because nnodes=2 (custom all-reduce v2"
            " is intra-node only).",
            ("SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2", "0"),
        ),
        (
            "Setup Custom allreduce failed with CUDART error: peer access is not supported. To"
            " silence this warning, specify --disable-custom-all-reduce explicitly.",
            ("disable_custom_all_reduce", True),
        ),
        (
            "Setup FlashInfer PCIe-IPC allreduce failed with No module named 'flashinfer'.",
            ("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "0"),
        ),
        ("PyMscclpp is disabled due to an unsupported world size: 3.", ("enable_mscclpp", False)),
        (
            "TorchSymmMemCommunicator: Device capability 8 not supported, communicator is not",
            ("enable_torch_symm_mem", False),
        ),
        ("Overlap schedule is not implemented for", ("disable_overlap_schedule", True)),
        ("The mixed chunked prefill are disabled because", ("enable_mixed_chunk", False)),
        ("speculative_adaptive disabled: why.", ("speculative_adaptive", False)),
    ],
)
def test_lines_that_tell_of_a_change_are_understood(line: str, change: tuple[str, Value]) -> None:
    assert list(log_changes([f"[2026-01-01 00:00:00 TP0] {line}"])) == [change]


@pytest.mark.parametrize(
    ("line", "others"),
    [
        # 0.5.3 to 0.5.17
        (
            "NCCL_ALGO is set to 'allreduce:tree' and custom all reduce is disabled for"
            " deterministic inference when TP size > 1.",
            {},
        ),
        # 0.5.18 to 0.5.23
        (
            "NCCL_ALGO is set to 'allreduce:tree', the NCCL channel count is pinned, and custom and"
            " symmetric-memory all reduce are disabled for deterministic inference when TP size >"
            " 1.",
            {"enable_torch_symm_mem": False},
        ),
    ],
)
def test_deterministic_inference_tells_of_all_that_it_switches_off(
    line: str, others: dict[str, Value]
) -> None:
    assert dict(log_changes([line])) == {
        "NCCL_ALGO": "allreduce:tree", "disable_custom_all_reduce": True, **others,
    }  # fmt: skip


def test_other_lines_tell_nothing() -> None:
    lines = [
        "server_args=ServerArgs(x='is disabled', "
        + "y=1, " * 500
        + "custom all-reduce is disabled",
        "Load weight end. elapsed=0.02 s, type=LlamaForCausalLM, avail mem=21.01 GB",
        "CustomAllReduceV2 enabled on a multi-node group (world_size=16); graph zero-copy is"
        " disabled.",
        "[AR] Aiter custom all-reduce not available; falling back to sglang CustomAllreduce.",
        "max_total_num_tokens=8192, chunked_prefill_size=4096, max_running_requests=48",
    ]
    assert list(log_changes(lines)) == []


def test_the_log_tells_of_a_flag_that_the_account_does_not() -> None:
    line = (
        "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs."
    )
    told, _ = read({"disable_custom_all_reduce": False}, INFO, line)
    assert told["disable_custom_all_reduce"] is True


@pytest.mark.parametrize(
    "line",
    [
        "Custom allreduce is disabled because your platform lacks GPU P2P capability",
        "Setup Custom allreduce failed with CUDART error: peer access is not supported.",
        "NCCL_ALGO is set to 'allreduce:tree' and custom all reduce is disabled for deterministic",
    ],
)
def test_a_server_that_switches_off_ran_as_one_that_was_asked_to(line: str) -> None:
    name = "disable_custom_all_reduce"
    ends = []
    for number, asked in enumerate((False, True)):
        config = plain(disable_custom_all_reduce=asked)
        log = ["NCCL_ALGO is set to 'allreduce:tree', by all."] + [line] * (not asked)
        told, _ = read(dict(config), {**INFO, name: asked}, *log)
        ends.append(replace(result(number, config, 80.0), effective=told, requested=dict(config)))
    [found] = namesakes(ends)
    assert found.configs == (ends[0].config, ends[1].config)


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("attention_backend", "fa3", True),
        ("attention_backend", "made_up", False),
        ("page_size", 64, True),
        ("page_size", 0, False),
        ("page_size", True, False),
        ("mem_fraction_static", 0.88, True),
        ("mem_fraction_static", None, False),
        ("decode_graph_max_batch", 160, True),
        ("no_such_flag", 1, False),
    ],
)
def test_a_reported_value_is_given_only_if_the_parser_takes_it(
    name: str, value: Value, *, accepted: bool
) -> None:
    assert parser_accepts(name, value, "0.5.23") is accepted


LAUNCHER = """
import os, subprocess, sys
os.environ["NCCL_CUMEM_ENABLE"] = "0"
os.environ["SGLANG_API_KEY"] = "hidden"
other = subprocess.Popen(["helper", "-c", "input()"], executable=sys.executable, stdin=0,
                         env={**os.environ, "NCCL_CUMEM_ENABLE": "7"})
child = subprocess.Popen(["sglang::scheduler_TP0", "-c", "input()"], executable=sys.executable,
                         stdin=0)
print("up", flush=True)
child.wait()
other.wait()
"""
"""A launcher as SGLang's: it changes its environment after its start, then spawns."""


@contextmanager
def launcher(**env: str) -> Iterator[int]:
    """Run it; give its pid."""
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER],
        env={"PATH": os.environ["PATH"], **TAGS, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process.pid
    finally:
        process.communicate(b"\n\n", timeout=60)


def test_a_scheduler_shows_what_its_launcher_changed_after_its_own_start() -> None:
    with launcher(NCCL_CUMEM_ENABLE="1", MY_AXIS="x", OTHER="y") as pid:
        read = read_environments(pid, TAGS, ["MY_AXIS"])
        stranger = read_environments(pid, tags(SWEEP, "another trial"))
    assert read.known
    assert read.launcher == {"NCCL_CUMEM_ENABLE": "1", "MY_AXIS": "x"}
    assert read.scheduler == {"NCCL_CUMEM_ENABLE": "0", "MY_AXIS": "x"}
    assert stranger == UNREAD
    told = account({}, {"NCCL_CUMEM_ENABLE": "1"}, "0.5.23", environments=read)
    assert told.settings["NCCL_CUMEM_ENABLE"] == "0"


def test_a_process_that_is_gone_or_not_ours_tells_nothing() -> None:
    with launcher() as pid:
        pass
    assert read_environments(pid, TAGS) == UNREAD
    assert read_environments(1, TAGS) == UNREAD
