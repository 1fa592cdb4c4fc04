"""Rules over several settings: each with one configuration that breaks it and one that does not."""

from collections.abc import Mapping
from pathlib import Path

import pytest

import search_spaces
from infra.machine import Interconnect, Machine
from infra.sglang.flags import FLAGS, NEWEST
from infra.sglang.joint_rule import JointRule
from infra.sglang.joint_rules import RULES, broken_rules, joint_problems
from infra.sglang.variables import ENVIRONMENT
from orchestrator.space_file import load_sweep
from sweeps.values import Value

Settings = Mapping[str, Value]

FOLDER = Path(search_spaces.__file__).parent
SPACES = sorted(p for p in FOLDER.glob("*.py") if "sweep = Sweep(" in p.read_text())

PCIE = Machine(8, Interconnect.PCIE, (12, 0))
NVLINK = Machine(8, Interconnect.NVLINK, (9, 0))
NGRAM: Settings = {"speculative_algorithm": "NGRAM"}
EAGLE: Settings = {"speculative_algorithm": "EAGLE3", "speculative_draft_model_path": "d"}
TREE: Settings = {
    **EAGLE, "speculative_num_steps": 3, "speculative_eagle_topk": 2,
    "speculative_num_draft_tokens": 4,
}  # fmt: skip
BREADTH = "speculative_ngram_max_bfs_breadth"
UNO: Settings = {"speculative_algorithm": "UNO", "uno_lora_path": "l"}

EXAMPLES: Mapping[str, tuple[Settings, Settings]] = {
    "ngram_topk_is_breadth": (
        {**NGRAM, "speculative_eagle_topk": 4}, {**NGRAM, "speculative_eagle_topk": 4, BREADTH: 4},
    ),
    "ngram_breadth_on_pages": (
        {**NGRAM, "page_size": 16, "attention_backend": "triton"},
        {**NGRAM, "page_size": 16, "attention_backend": "flashinfer"},
    ),
    "ngram_breadths_ordered": (
        {**NGRAM, "speculative_ngram_min_bfs_breadth": 4, BREADTH: 2},
        {**NGRAM, "speculative_ngram_min_bfs_breadth": 4, BREADTH: 4},
    ),
    "ngram_capacity_above_depth": (
        {**NGRAM, "speculative_ngram_capacity": 4, "ngram_match_depth": 4},
        {**NGRAM, "speculative_ngram_capacity": 5, "ngram_match_depth": 4},
    ),
    "ngram_windows_ordered": (
        {**NGRAM, "speculative_ngram_min_match_window_size": 5, "ngram_match_depth": 4},
        {**NGRAM, "speculative_ngram_min_match_window_size": 4, "ngram_match_depth": 4},
    ),
    "ngram_window_below_branch": (
        {**NGRAM, "ngram_match_depth": 18}, {**NGRAM, "ngram_match_depth": 17},
    ),
    "ngram_corpus_budget": (
        {**NGRAM, "speculative_ngram_external_corpus_path": "c",
         "speculative_ngram_external_sam_budget": 12},
        {**NGRAM, "speculative_ngram_external_corpus_path": "c",
         "speculative_ngram_external_sam_budget": 11},
    ),
    "ngram_device": ({**NGRAM, "device": "npu"}, {**NGRAM, "device": "cuda"}),
    "ngram_dp_attention": ({**NGRAM, "enable_dp_attention": True}, NGRAM),
    "ngram_adaptive": ({**NGRAM, "speculative_adaptive": True}, NGRAM),
    "ngram_block_verification": ({**NGRAM, "speculative_use_block_verification": True}, NGRAM),
    "ngram_hierarchical_cache": (
        {**NGRAM, "enable_hierarchical_cache": True}, {"enable_hierarchical_cache": True},
    ),
    "eagle_all_or_none": ({**EAGLE, "speculative_num_draft_tokens": 4}, EAGLE),
    "eagle_chain_length": (
        {**TREE, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 5},
        {**TREE, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4},
    ),
    "eagle_nodes_below_steps": ({**TREE, "speculative_num_draft_tokens": 3}, TREE),
    "eagle_nodes_above_candidates": (
        {**TREE, "speculative_num_draft_tokens": 12}, {**TREE, "speculative_num_draft_tokens": 11},
    ),
    "eagle_tree_on_pages": (
        {**TREE, "page_size": 16, "attention_backend": "fa4"},
        {**TREE, "page_size": 16, "attention_backend": "flashinfer"},
    ),
    "eagle_tree_trtllm": (
        {**TREE, "attention_backend": "trtllm_mha"},
        {**TREE, "attention_backend": "trtllm_mha", "speculative_eagle_topk": 1},
    ),
    "draft_model_named": ({"speculative_algorithm": "STANDALONE"}, EAGLE),
    "dflash_block": (
        {"speculative_algorithm": "DFLASH", "speculative_dflash_block_size": 8,
         "speculative_num_draft_tokens": 16},
        {"speculative_algorithm": "DFLASH", "speculative_dflash_block_size": 8},
    ),
    "standalone_dp_attention": (
        {"speculative_algorithm": "STANDALONE", "attn_dp_size": 2},
        {"speculative_algorithm": "STANDALONE"},
    ),
    "uno_alone": ({**UNO, "tp_size": 8}, UNO),
    "rejection_sampling": (
        {**TREE, "speculative_use_rejection_sampling": True},
        {**TREE, "speculative_use_rejection_sampling": True, "speculative_eagle_topk": 1},
    ),
    "speculation_pp": ({**NGRAM, "pp_size": 2}, {"pp_size": 2}),
    "chunk_of_pages": (
        {"chunked_prefill_size": 1000, "page_size": 16},
        {"chunked_prefill_size": 1024, "page_size": 16},
    ),
    "compiled_graph_padding": (
        {"enable_torch_compile": True, "disable_cuda_graph_padding": True},
        {"enable_torch_compile": True},
    ),
    "hierarchical_without_radix": (
        {"enable_hierarchical_cache": True, "disable_radix_cache": True},
        {"disable_radix_cache": True},
    ),
    "shortest_prefill_without_radix": (
        {"schedule_policy": "shortest-prefill-first", "disable_radix_cache": True},
        {"schedule_policy": "fcfs", "disable_radix_cache": True},
    ),
    "ranks_on_gpus": ({"tp_size": 8, "pp_size": 2}, {"tp_size": 4, "pp_size": 2}),
    "nccl_channels_ordered": (
        {"NCCL_MIN_NCHANNELS": 8, "NCCL_MAX_NCHANNELS": 4},
        {"NCCL_MIN_NCHANNELS": "4", "NCCL_MAX_NCHANNELS": "16"},
    ),
    "nccl_p2p_level_spelled": ({"NCCL_P2P_LEVEL": "sys"}, {"NCCL_P2P_LEVEL": "SYS"}),
    "nccl_p2p_disabled_with_level": (
        {"NCCL_P2P_DISABLE": "1", "NCCL_P2P_LEVEL": "SYS"},
        {"NCCL_P2P_DISABLE": "0", "NCCL_P2P_LEVEL": "SYS"},
    ),
    "nccl_no_transport": (
        {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": 1},
        {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "0"},
    ),
    "nccl_ll128_on_pcie": ({"NCCL_PROTO": "LL,LL128"}, {"NCCL_PROTO": "^LL128"}),
    "nccl_threads": ({"NCCL_NTHREADS": 100}, {"NCCL_NTHREADS": "96"}),
    "nccl_algorithm_usable": ({"NCCL_ALGO": "NVLS"}, {"NCCL_ALGO": "tree"}),
    "nccl_algorithm_deterministic": (
        {"enable_deterministic_inference": True, "tp_size": 8, "NCCL_ALGO": "Ring"},
        {"enable_deterministic_inference": True, "tp_size": 1, "NCCL_ALGO": "Ring"},
    ),
    "nccl_channels_deterministic": (
        {"enable_deterministic_inference": True, "tp_size": 8, "NCCL_MIN_NCHANNELS": 4},
        {"enable_deterministic_inference": True, "tp_size": 8},
    ),
}  # fmt: skip


def names_broken(settings: Settings, version: str, machine: Machine | None = PCIE) -> set[str]:
    return {broken.rule for broken in broken_rules(settings, version, machine)}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.name))
def test_one_configuration_breaks_it_and_one_does_not(rule: JointRule) -> None:
    breaking, passing = EXAMPLES[rule.name]
    version = rule.last or NEWEST
    assert rule.name in names_broken(breaking, version)
    assert rule.name not in names_broken(passing, version)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("ngram_windows_ordered", "0.5.10"),
        ("ngram_window_below_branch", "0.5.10"),
        ("ngram_corpus_budget", "0.5.10"),
        ("ngram_hierarchical_cache", "0.5.5"),
        ("nccl_channels_deterministic", "0.5.17"),
    ],
)
def test_a_rule_is_of_its_versions_only(name: str, version: str) -> None:
    assert name not in names_broken(EXAMPLES[name][0], version)


def test_each_rule_has_its_examples_and_names_settings_that_exist() -> None:
    assert {rule.name for rule in RULES} == EXAMPLES.keys()
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert set(rule.fields) <= FLAGS.keys() | ENVIRONMENT.keys(), rule.name


def test_defaults_count_where_nothing_is_said() -> None:
    paged = {**NGRAM, "page_size": 16, "attention_backend": "triton"}
    assert "ngram_breadth_on_pages" in names_broken(paged, NEWEST)
    assert names_broken({**paged, BREADTH: 1}, NEWEST) == set()


def test_a_backend_with_pages_of_its_own_refuses_breadth() -> None:
    assert "ngram_breadth_on_pages" in names_broken(
        {**NGRAM, "attention_backend": "trtllm_mha"}, NEWEST
    )


def test_nvlink_lets_ll128_pass_and_an_unknown_machine_does_not() -> None:
    forced = {"NCCL_PROTO": "LL128"}
    assert names_broken(forced, NEWEST, NVLINK) == set()
    assert names_broken(forced, NEWEST, None) == {"nccl_ll128_on_pcie"}


def test_a_machine_that_nobody_described_has_room_for_any_rank() -> None:
    assert names_broken({"tp_size": 64}, NEWEST, None) == set()


def test_eagle_may_draft_with_what_the_model_brings() -> None:
    assert names_broken({"speculative_algorithm": "EAGLE"}, NEWEST) == set()
    assert names_broken({"speculative_algorithm": "NEXTN"}, NEWEST) == set()
    assert names_broken({"speculative_algorithm": "EAGLE3"}, NEWEST) == {"draft_model_named"}


def test_problems_name_the_fields_their_values_and_the_mend() -> None:
    settings: Settings = {"NCCL_MIN_NCHANNELS": 8, "NCCL_MAX_NCHANNELS": 2}
    (problem,) = joint_problems(settings, NEWEST, PCIE)
    assert problem.field == "NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS"
    assert problem.value == "8, 2"
    assert "Keep" in problem.mend


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_the_plain_baseline_of_each_space_breaks_nothing(path: Path) -> None:
    sweep = load_sweep(path)
    settings = sweep.settings(sweep.space.plain())
    for host in sweep.hosts:
        assert joint_problems(settings, host.version or NEWEST) == []
