"""What SGLang refuses, and when: while it resolves its arguments, or only after loading.

Sources: SGLang 0.5.23, srt/arg_groups/speculative_hook.py and the n-gram corpus in C++; 0.5.9,
srt/speculative/cpp_ngram/ngram.cpp.
"""

from collections.abc import Mapping

from infra.emulated.cost import kv_room_tokens, named_protocols
from infra.emulated.settings import Settings, whole
from infra.emulated.truth import HostTruth
from infra.sglang.flags import FLAGS
from sweeps.values import Value

_PROTOCOLS = {"LL", "LL128", "SIMPLE"}
_ALGORITHMS = {"RING", "TREE", "COLLNETDIRECT", "COLLNETCHAIN", "NVLS", "NVLSTREE", "PAT"}
_USABLE_ALGORITHMS = {"RING", "TREE"}


def resolution_fault(args: Mapping[str, Value], gpus: int) -> str:
    """Return the error that ends the launch before any process starts; empty if there is none."""
    algorithm = args["speculative_algorithm"]
    if algorithm is not None and algorithm not in FLAGS["speculative_algorithm"].choices:
        return f"ValueError: Unknown speculative algorithm: {algorithm}"
    if not 1 <= whole(args, "tp_size", 1) <= gpus:
        return f"ValueError: tp_size {args['tp_size']} does not fit the {gpus} visible devices"
    return _ngram_fault(args) if algorithm == "NGRAM" else ""


def _ngram_fault(args: Mapping[str, Value]) -> str:
    device = str(args["device"])
    if not device.startswith(("cuda", "cpu", "xpu")):
        return "ValueError: Ngram speculative decoding only supports CUDA, CPU, or XPU devices."
    breadth = whole(args, "speculative_eagle_topk", 1)
    paged = whole(args, "page_size", 1) > 1
    if breadth > 1 and paged and args["attention_backend"] != "flashinfer":
        return (
            f"ValueError: speculative_eagle_topk({breadth}) > 1 with "
            f"page_size({args['page_size']}) > 1 needs the flashinfer attention backend."
        )
    if args.get("speculative_ngram_external_corpus_path") is not None:
        budget = whole(args, "speculative_ngram_external_sam_budget", 0)
        if not 0 < budget <= whole(args, "speculative_num_draft_tokens", 12) - 1:
            return "ValueError: the external SAM budget must lie in [1, draft tokens - 1]"
    return ""


def communicator_fault(settings: Settings) -> str:
    """Return NCCL's error when the communicator is made."""
    if settings.tp_size < 2:
        return ""
    protocols = named_protocols(settings.nccl_proto) if settings.nccl_proto else _PROTOCOLS
    algorithms = (
        named_protocols(settings.nccl_algo, tuple(_USABLE_ALGORITHMS))
        if settings.nccl_algo
        else _USABLE_ALGORITHMS
    )
    if not protocols <= _PROTOCOLS or not algorithms <= _ALGORITHMS:
        return "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)"
    if not protocols or not algorithms & _USABLE_ALGORITHMS:
        return "RuntimeError: NCCL error: internal error, no algorithm/protocol available"
    return ""


def load_fault(args: Mapping[str, Value], settings: Settings, truth: HostTruth) -> str:
    """Return the error that ends the scheduler once the weights are there."""
    if kv_room_tokens(truth, settings) <= 0:
        return (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
            f"Current value: mem_fraction_static={settings.mem_fraction}"
        )
    match args["speculative_algorithm"]:
        case None:
            return ""
        case "NGRAM":
            return _corpus_fault(args, settings)
        case _:
            if args["speculative_draft_model_path"] is None:
                return "AttributeError: 'NoneType' object has no attribute 'endswith'"
            return ""


def _corpus_fault(args: Mapping[str, Value], settings: Settings) -> str:
    old = "speculative_ngram_branch_length" in args
    checks = [
        (settings.max_depth > 1, "branch_length" if old else "max_trie_depth", "must be > 1"),
        (settings.min_match > 0, "min_match_window_size", "must be > 0"),
        (settings.min_match <= settings.max_match, "min_match_window_size", "must be <= max"),
        (not old or settings.max_match < settings.max_depth, "max_match_window_size", "too large"),
        (settings.min_breadth > 0, "min_bfs_breadth", "must be > 0"),
        (settings.min_breadth <= settings.max_breadth, "min_bfs_breadth", "must be <= max"),
        (settings.draft_tokens > 0, "draft_token_num", "must be > 0"),
    ]
    for holds, name, what in checks:
        if not holds:
            return f"RuntimeError: ngram corpus: {name} {what}"
    return ""
