"""What SGLang refuses, and when: while it resolves its arguments, or only after loading.

Sources: SGLang 0.5.23, srt/arg_groups/speculative_hook.py and the n-gram corpus in C++; 0.5.9,
srt/speculative/cpp_ngram/ngram.cpp.
"""

from collections.abc import Mapping

from infra.emulated.cost import kv_room_tokens, named_protocols
from infra.emulated.resolution import whole
from infra.emulated.settings import Settings
from infra.emulated.truth import HostTruth
from infra.emulated.versions import Manners, manners
from infra.sglang.flags import FLAGS, NEWEST
from sweeps.values import Value

_PROTOCOLS = {"LL", "LL128", "SIMPLE"}
_ALGORITHMS = {"RING", "TREE", "COLLNETDIRECT", "COLLNETCHAIN", "NVLS", "NVLSTREE", "PAT"}
_USABLE_ALGORITHMS = {"RING", "TREE"}


def resolution_fault(args: Mapping[str, Value], gpus: int, version: str = NEWEST) -> str:
    """Return the error that ends the launch before any process starts; empty if there is none."""
    how = manners(version)
    checks = (
        _layout_fault(args, gpus),
        _memory_fault(args),
        _speculation_fault(args, how) if args["speculative_algorithm"] is not None else "",
    )
    return next(filter(None, checks), "")


def _layout_fault(args: Mapping[str, Value], gpus: int) -> str:
    ranks = whole(args, "tp_size", 1) * whole(args, "pp_size", 1)
    if not 1 <= ranks <= gpus:
        return f"ValueError: tp_size {args['tp_size']} does not fit the {gpus} visible devices"
    return ""


def _memory_fault(args: Mapping[str, Value]) -> str:
    chunk, page = whole(args, "chunked_prefill_size", 0), whole(args, "page_size", 1)
    if chunk > 0 and chunk % page:
        return "AssertionError: chunked_prefill_size must be divisible by page_size"
    if args["enable_torch_compile"] and args["disable_cuda_graph_padding"]:
        return "AssertionError: CUDA graph padding cannot be off together with torch compile"
    return ""


def _speculation_fault(args: Mapping[str, Value], how: Manners) -> str:
    algorithm = str(args["speculative_algorithm"])
    if algorithm not in FLAGS["speculative_algorithm"].choices_in(how.version):
        return f"ValueError: Unknown speculative algorithm: {algorithm}"
    if whole(args, "pp_size", 1) > 1:
        return "AssertionError: speculative decoding is not supported with pipeline parallelism"
    match algorithm:
        case "NGRAM":
            return _ngram_fault(args, how)
        case "DFLASH":
            return _dflash_fault(args)
        case "UNO":
            if args["uno_lora_path"] is None or whole(args, "tp_size", 1) > 1:
                return "ValueError: UNO needs --uno-lora-path and tp_size 1"
            return ""
        case _:
            return _eagle_fault(args, how)


def _ngram_fault(args: Mapping[str, Value], how: Manners) -> str:
    checks = (
        _ngram_device_fault(str(args["device"]), how),
        _ngram_page_fault(args),
        _ngram_corpus_fault(args),
    )
    if fault := next(filter(None, checks), ""):
        return fault
    if args["enable_dp_attention"]:
        return "ValueError: Ngram speculative decoding does not support dp attention."
    if args.get("speculative_adaptive"):
        return "ValueError: speculative_adaptive is not supported with NGRAM"
    if args.get("speculative_use_block_verification"):
        return "ValueError: block verification is not supported with NGRAM"
    return ""


def _ngram_device_fault(device: str, how: Manners) -> str:
    devices = how.ngram_devices
    if device.startswith(devices):
        return ""
    names = [name.upper() for name in devices]
    listed = f"{', '.join(names[:-1])}, or {names[-1]}" if len(names) > 2 else " or ".join(names)
    plural = "devices" if len(names) > 1 else "device"
    return f"ValueError: Ngram speculative decoding only supports {listed} {plural}."


def _ngram_page_fault(args: Mapping[str, Value]) -> str:
    breadth = whole(args, "speculative_eagle_topk", 1)
    paged = whole(args, "page_size", 1) > 1
    if breadth > 1 and paged and args["attention_backend"] != "flashinfer":
        return (
            f"ValueError: speculative_eagle_topk({breadth}) > 1 with "
            f"page_size({args['page_size']}) > 1 needs the flashinfer attention backend."
        )
    return ""


def _ngram_corpus_fault(args: Mapping[str, Value]) -> str:
    if args.get("speculative_ngram_external_corpus_path") is None:
        return ""
    budget = whole(args, "speculative_ngram_external_sam_budget", 0)
    if not 0 < budget <= whole(args, "speculative_num_draft_tokens", 12) - 1:
        return "ValueError: the external SAM budget must lie in [1, draft tokens - 1]"
    if whole(args, "speculative_ngram_external_corpus_max_tokens", 1) < 1:
        return "ValueError: the external corpus token limit must be positive"
    return ""


def _dflash_fault(args: Mapping[str, Value]) -> str:
    block = args.get("speculative_dflash_block_size")
    if block is not None and block != args["speculative_num_draft_tokens"]:
        return "ValueError: the draft tokens and the DFLASH block size differ"
    return ""


def _eagle_fault(args: Mapping[str, Value], how: Manners) -> str:
    steps, topk = args["speculative_num_steps"], args["speculative_eagle_topk"]
    if steps is None:
        return (
            "AssertionError: speculative_num_steps is unset, so speculative_eagle_topk and "
            "speculative_num_draft_tokens must be unset too"
        )
    if topk is None:
        return "TypeError: '>' not supported between instances of 'NoneType' and 'int'"
    backend, tree = args["attention_backend"], whole(args, "speculative_eagle_topk", 1) > 1
    if tree and backend == "trtllm_mha":
        return "ValueError: trtllm_mha only supports speculative_eagle_topk 1"
    if tree and whole(args, "page_size", 1) > 1 and backend not in how.eagle_tree_backends:
        return (
            f"ValueError: speculative_eagle_topk > 1 with page_size > 1 needs one of "
            f"{', '.join(how.eagle_tree_backends)} as attention backend"
        )
    if args.get("speculative_use_rejection_sampling") and (tree or _relaxed(args)):
        return "ValueError: rejection sampling needs topk 1 and accept thresholds of 1.0"
    return ""


def _relaxed(args: Mapping[str, Value]) -> bool:
    names = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")
    return any(args[name] != 1.0 for name in names)


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
