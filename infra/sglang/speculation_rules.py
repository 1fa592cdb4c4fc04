"""What SGLang refuses, or silently changes, of settings of speculation.

Read in SGLang 0.5.2 to 0.5.23: srt/server_args.py, later srt/arg_groups/speculative_hook.py, and
the n-gram corpus in C++, whose checks come only after the weights are loaded.
"""

from collections.abc import Mapping

from infra.sglang.configuration import EAGLE_FAMILY, Configuration
from infra.sglang.flag import within
from infra.sglang.joint_rule import JointRule, Test

_DRAFTED = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
_WITH_DRAFT_MODEL = ("EAGLE3", "STANDALONE", "DFLASH")
TREE_BACKENDS: Mapping[str, tuple[str, ...]] = {
    "0.5.2": ("flashinfer",),
    "0.5.6": ("flashinfer", "fa3"),
    "0.5.13": ("flashinfer", "fa3", "triton"),
}
"""First version to the attention backends that verify EAGLE's trees on pages of several tokens."""
NGRAM_DEVICES: Mapping[str, tuple[str, ...]] = {
    "0.5.2": ("cuda",),
    "0.5.16": ("cuda", "cpu"),
    "0.5.21": ("cuda", "cpu", "xpu"),
}
"""First version to the devices that n-gram drafts run on."""


def _latest(table: Mapping[str, tuple[str, ...]], version: str) -> tuple[str, ...]:
    return [values for first, values in table.items() if within(version, first)][-1]


def _ngram(breaks: Test) -> Test:
    return lambda c: c.algorithm == "NGRAM" and breaks(c)


def _other_topk(c: Configuration) -> bool:
    topk = c.given("speculative_eagle_topk")
    return topk is not None and topk != c.value("speculative_ngram_max_bfs_breadth")


def _breadth_on_pages(c: Configuration) -> bool:
    wide = c.whole("speculative_ngram_max_bfs_breadth") > 1
    backend = c.text("attention_backend") or "flashinfer"  # unset: the server's own choice
    return wide and c.page_tokens > 1 and backend != "flashinfer"


def _other_device(c: Configuration) -> bool:
    device = c.text("device")
    return bool(device) and not device.startswith(_latest(NGRAM_DEVICES, c.version))


def _corpus_without_budget(c: Configuration) -> bool:
    budget = c.whole("speculative_ngram_external_sam_budget")
    named = c.given("speculative_ngram_external_corpus_path") is not None
    return named and not 1 <= budget <= c.draft_tokens - 1


def _chain_or_tree(breaks: Test) -> Test:
    return lambda c: c.algorithm in (*EAGLE_FAMILY, "STANDALONE") and breaks(c)


def _tree(breaks: Test) -> Test:
    return _chain_or_tree(lambda c: c.whole("speculative_eagle_topk", 1) > 1 and breaks(c))


def _only_some_given(c: Configuration) -> bool:
    steps, topk, tokens = (c.given(name) is not None for name in _DRAFTED)
    chain = c.given("speculative_eagle_topk") == 1
    return (steps or topk or tokens) and not (steps and topk and (tokens or chain))


def _chain_of_other_length(c: Configuration) -> bool:
    tokens = c.given("speculative_num_draft_tokens")
    steps = c.given("speculative_num_steps")
    if c.given("speculative_eagle_topk") != 1 or tokens is None or steps is None:
        return False
    return c.draft_tokens != c.whole("speculative_num_steps") + 1


def _fewer_nodes_than_steps(c: Configuration) -> bool:
    given = all(c.given(name) is not None for name in _DRAFTED)
    return given and c.draft_tokens < c.whole("speculative_num_steps") + 1


def _more_nodes_than_candidates(c: Configuration) -> bool:
    topk, steps = c.whole("speculative_eagle_topk", 1), c.whole("speculative_num_steps")
    given = all(c.given(name) is not None for name in _DRAFTED)
    return given and c.draft_tokens - 1 > topk + (steps - 1) * topk * topk


def _tree_on_pages(c: Configuration) -> bool:
    backend = c.text("attention_backend")
    return bool(backend) and c.page_tokens > 1 and backend not in _latest(TREE_BACKENDS, c.version)


def _relaxed(c: Configuration) -> bool:
    names = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")
    return any(c.value(name) != 1.0 for name in names)


def _rejection_sampling_elsewhere(c: Configuration) -> bool:
    if not c.on("speculative_use_rejection_sampling") or not c.algorithm:
        return False
    chain = c.whole("speculative_eagle_topk", 1) == 1
    return c.algorithm not in EAGLE_FAMILY or not chain or _relaxed(c)


def _other_block(c: Configuration) -> bool:
    block = c.given("speculative_dflash_block_size")
    tokens = c.given("speculative_num_draft_tokens")
    return c.algorithm == "DFLASH" and None not in (block, tokens) and block != tokens


def _uno_elsewhere(c: Configuration) -> bool:
    alone = c.ranks == 1 and c.given("uno_lora_path") is not None
    return c.algorithm == "UNO" and not (alone and c.on_cuda)


_BREADTH = "speculative_ngram_max_bfs_breadth"
_TOKENS = "speculative_num_draft_tokens"
_TOPK = "speculative_eagle_topk"
_ALGORITHM = "speculative_algorithm"

NGRAM_RULES = (
    JointRule(
        "ngram_topk_is_breadth", (_TOPK, _BREADTH), _ngram(_other_topk),
        "NGRAM overwrites the topk with the breadth",
        f"Set {_BREADTH} alone.",
    ),
    JointRule(
        "ngram_breadth_on_pages", (_BREADTH, "page_size", "attention_backend"),
        _ngram(_breadth_on_pages),
        "on pages of several tokens, NGRAM drafts a tree with the flashinfer backend only",
        "Use breadth 1, page size 1, or attention_backend=flashinfer.",
    ),
    JointRule(
        "ngram_breadths_ordered", ("speculative_ngram_min_bfs_breadth", _BREADTH),
        _ngram(lambda c: c.whole("speculative_ngram_min_bfs_breadth", 1) > c.whole(_BREADTH, 1)),
        "the smallest breadth is above the largest",
        "Lower speculative_ngram_min_bfs_breadth.",
    ),
    JointRule(
        "ngram_capacity_above_depth",
        ("speculative_ngram_capacity", "speculative_ngram_max_trie_depth"),
        _ngram(lambda c: c.whole("speculative_ngram_capacity") <= c.trie_depth),
        "a trie with no more nodes than one string has aborts on the first request",
        "Make the capacity larger than the depth.",
    ),
    JointRule(
        "ngram_windows_ordered",
        (
            "speculative_ngram_min_match_window_size", "speculative_ngram_max_match_window_size",
        ),
        _ngram(
            lambda c: c.whole("speculative_ngram_min_match_window_size")
            > c.whole("speculative_ngram_max_match_window_size")
        ),
        "the shortest match is longer than the longest",
        "Lower speculative_ngram_min_match_window_size.",
        last="0.5.9",
    ),
    JointRule(
        "ngram_window_below_branch",
        ("speculative_ngram_max_match_window_size", "speculative_ngram_branch_length"),
        _ngram(lambda c: c.whole("speculative_ngram_max_match_window_size") >= c.trie_depth),
        "the longest match must be shorter than a branch of the trie",
        "Raise speculative_ngram_branch_length above the match window.",
        last="0.5.9",
    ),
    JointRule(
        "ngram_corpus_budget",
        (
            "speculative_ngram_external_corpus_path", "speculative_ngram_external_sam_budget",
            _TOKENS,
        ),
        _ngram(_corpus_without_budget),
        "an external corpus needs a budget of 1 to draft tokens - 1",
        "Set speculative_ngram_external_sam_budget.",
        first="0.5.11",
    ),
    JointRule(
        "ngram_device", (_ALGORITHM, "device"), _ngram(_other_device),
        "NGRAM does not run on this device in this version",
        "Use device=cuda.",
    ),
    JointRule(
        "ngram_dp_attention", (_ALGORITHM, "enable_dp_attention", "attn_dp_size"),
        _ngram(lambda c: c.attends_in_parallel),
        "NGRAM does not work with data-parallel attention",
        "Switch data-parallel attention off.",
    ),
    JointRule(
        "ngram_adaptive", (_ALGORITHM, "speculative_adaptive"),
        _ngram(lambda c: c.on("speculative_adaptive")),
        "NGRAM does not adapt its draft length",
        "Leave speculative_adaptive out.",
        first="0.5.11",
    ),
    JointRule(
        "ngram_block_verification", (_ALGORITHM, "speculative_use_block_verification"),
        _ngram(lambda c: c.on("speculative_use_block_verification")),
        "block verification does not take n-gram drafts",
        "Leave speculative_use_block_verification out.",
        first="0.5.22",
    ),
    JointRule(
        "ngram_hierarchical_cache", (_ALGORITHM, "enable_hierarchical_cache"),
        _ngram(lambda c: c.on("enable_hierarchical_cache")),
        "NGRAM dies on the hierarchical cache (sgl-project/sglang issue 12477)",
        "Leave enable_hierarchical_cache out.",
        first="0.5.3", last="0.5.4",
    ),
)  # fmt: skip

DRAFT_MODEL_RULES = (
    JointRule(
        "eagle_all_or_none", _DRAFTED, _chain_or_tree(_only_some_given),
        "steps, topk and draft tokens only make sense together",
        "Set all three or none of them; with topk 1 the draft tokens may be left out.",
    ),
    JointRule(
        "eagle_chain_length", _DRAFTED, _chain_or_tree(_chain_of_other_length),
        "with topk 1 SGLang verifies num_steps + 1 draft tokens, whatever is asked for",
        f"Sweep speculative_num_steps and leave {_TOKENS} out.",
    ),
    JointRule(
        "eagle_nodes_below_steps", _DRAFTED, _tree(_fewer_nodes_than_steps),
        "a tree of fewer draft tokens than steps + 1 throws steps away",
        f"Raise {_TOKENS} or lower speculative_num_steps.",
    ),
    JointRule(
        "eagle_nodes_above_candidates", _DRAFTED, _tree(_more_nodes_than_candidates),
        "so many draft tokens are never drafted: topk in the first step, topk x topk in each other",
        f"Lower {_TOKENS} or raise speculative_num_steps.",
    ),
    JointRule(
        "eagle_tree_on_pages", (_TOPK, "page_size", "attention_backend"), _tree(_tree_on_pages),
        "on pages of several tokens, this attention backend cannot verify a tree",
        "Use topk 1, page size 1, or attention_backend=flashinfer.",
    ),
    JointRule(
        "eagle_tree_trtllm", (_TOPK, "attention_backend"),
        _tree(lambda c: c.text("attention_backend") == "trtllm_mha"),
        "the trtllm_mha backend cannot verify a tree",
        "Use topk 1 or another attention backend.",
    ),
    JointRule(
        "draft_model_named", (_ALGORITHM, "speculative_draft_model_path"),
        lambda c: c.algorithm in _WITH_DRAFT_MODEL
        and c.given("speculative_draft_model_path") is None,
        "this algorithm drafts with a model of its own, and none is named",
        "Name it: Model(path, draft_path=...).",
    ),
    JointRule(
        "dflash_block", (_TOKENS, "speculative_dflash_block_size"), _other_block,
        "the draft tokens of DFLASH are its block",
        "Set one of the two.",
        first="0.5.11",
    ),
    JointRule(
        "standalone_dp_attention", (_ALGORITHM, "enable_dp_attention", "attn_dp_size"),
        lambda c: c.algorithm == "STANDALONE" and c.attends_in_parallel,
        "STANDALONE does not work with data-parallel attention",
        "Switch data-parallel attention off.",
    ),
    JointRule(
        "uno_alone", (_ALGORITHM, "uno_lora_path", "tp_size", "pp_size", "device"), _uno_elsewhere,
        "UNO needs its LoRA weights and runs on one GPU",
        "Set uno_lora_path, and tp_size=1 and pp_size=1.",
        first="0.5.20",
    ),
    JointRule(
        "rejection_sampling",
        (
            _ALGORITHM, "speculative_use_rejection_sampling", _TOPK,
            "speculative_accept_threshold_single", "speculative_accept_threshold_acc",
        ),
        _rejection_sampling_elsewhere,
        "rejection sampling needs EAGLE or EAGLE3, topk 1 and accept thresholds of 1.0",
        "Leave speculative_use_rejection_sampling out.",
        first="0.5.14",
    ),
    JointRule(
        "speculation_pp", (_ALGORITHM, "pp_size"),
        lambda c: bool(c.algorithm) and c.whole("pp_size", 1) > 1,
        "speculation is refused with pipeline parallelism",
        "Use pp_size=1.",
    ),
)  # fmt: skip
