"""What SGLang makes of its arguments and its environment before it starts anything, by version."""

from collections.abc import Mapping

from infra.emulated.versions import Manners, manners
from infra.sglang.configuration import NGRAM_DRAFT_TOKENS, page_tokens
from infra.sglang.flags import ENVIRONMENT, FLAGS
from sweeps.values import Value, digest

SPECULATIVE_MAX_RUNNING = 48
"""SGLang's limit when speculation is on and none was given."""
PLAIN_MAX_RUNNING = 2048
DFLASH_DRAFT_TOKENS = 16
MEM_FRACTION = 0.88
CHUNKED_PREFILL_TOKENS = 8192
TRUE = ("1", "true", "True", "TRUE")

_SHOWN_VARIABLES = ("NCCL_", "SGLANG_", "CUDA_", "TRTLLM_")
_OF_THE_LAUNCH = ("NCCL_", "SGLANG_", "OMP_")
"""What other variables say is of the place, or the same for every launch."""
_NOT_OF_THE_LAUNCH = ("host", "port", "nccl_port", "log_level")
_RESOLVED_LATE: Mapping[str, Value] = {
    "speculative_moe_runner_backend": "auto",
    "dcp_comm_backend": "ag_rs",
    "hicache_ratio": 2.0,
    "mamba_full_memory_ratio": 0.9,
    "prefill_decode_interval": 0,
}
_SPEC_V2_SINCE = {"EAGLE": "0.5.5", "EAGLE3": "0.5.7", "STANDALONE": "0.5.8"}
_DETERMINISTIC_CHANNELS = "8"


def resolve(
    given: Mapping[str, Value], version: str, environment: Mapping[str, str] | None = None
) -> dict[str, Value]:
    """Return all arguments of a version by SGLang's names, with its silent rewrites applied."""
    args: dict[str, Value] = {
        name: flag.default_in(version)
        for name, flag in FLAGS.items()
        if flag.exists_in(version) and not flag.stands_for(version)
    }
    args.update({name: value for name, value in given.items() if value is not None})
    args["tokenizer_path"] = args["tokenizer_path"] or args["model_path"]
    args["served_model_name"] = args["served_model_name"] or args["model_path"]
    args["mem_fraction_static"] = args["mem_fraction_static"] or MEM_FRACTION
    args["chunked_prefill_size"] = args["chunked_prefill_size"] or CHUNKED_PREFILL_TOKENS
    args["device"] = args["device"] or "cuda"
    args["attention_backend"] = args["attention_backend"] or "triton"
    args["sampling_backend"] = args["sampling_backend"] or "flashinfer"
    args["grammar_backend"] = args["grammar_backend"] or "xgrammar"
    for name, value in _RESOLVED_LATE.items():
        if name in args and args[name] is None:
            args[name] = value
    args["page_size"] = page_tokens(whole(args, "page_size", 1), str(args["attention_backend"]))
    args["random_seed"] = args["random_seed"] or int(launch_digest(given, {}), 16) % 2**30
    _resolve_speculation(args, manners(version), environment or {})
    if args["max_running_requests"] is None:
        speculates = args["speculative_algorithm"] is not None
        args["max_running_requests"] = SPECULATIVE_MAX_RUNNING if speculates else PLAIN_MAX_RUNNING
    if args.get("enable_deterministic_inference") and whole(args, "tp_size", 1) > 1:
        args["disable_custom_all_reduce"] = True
    return args


def _resolve_speculation(
    args: dict[str, Value], how: Manners, environment: Mapping[str, str]
) -> None:
    if args["speculative_algorithm"] == "NEXTN":
        args["speculative_algorithm"] = "EAGLE"
    match args["speculative_algorithm"]:
        case None:
            return
        case "NGRAM":
            _resolve_ngram(args, how)
        case "DFLASH":
            _resolve_dflash(args)
        case _:
            _resolve_eagle(args, how)
    if not _keeps_overlap(args, how, environment):
        args["disable_overlap_schedule"] = True
    if args["speculative_algorithm"] == "NGRAM" or not how.since("0.5.23"):
        args["enable_mixed_chunk"] = False
    if args["speculative_draft_model_path"] is not None and how.since("0.5.6"):
        args["speculative_draft_model_revision"] = (
            args["speculative_draft_model_revision"] or "main"
        )


def _resolve_ngram(args: dict[str, Value], how: Manners) -> None:
    breadth = whole(args, "speculative_ngram_max_bfs_breadth", 10)
    args["speculative_eagle_topk"] = breadth
    if args["speculative_num_draft_tokens"] is None:
        window = args.get("speculative_ngram_max_match_window_size", NGRAM_DRAFT_TOKENS)
        args["speculative_num_draft_tokens"] = window
    if args["speculative_num_steps"] is None and how.ngram_derives_steps:
        tokens = whole(args, "speculative_num_draft_tokens", NGRAM_DRAFT_TOKENS)
        args["speculative_num_steps"] = tokens // max(1, breadth)
    if how.since("0.5.23"):
        args["speculative_adaptive"] = False


def _resolve_dflash(args: dict[str, Value]) -> None:
    args["speculative_num_steps"] = args["speculative_eagle_topk"] = 1
    block = args.get("speculative_dflash_block_size")
    if args["speculative_num_draft_tokens"] is None:
        args["speculative_num_draft_tokens"] = block or DFLASH_DRAFT_TOKENS


def _resolve_eagle(args: dict[str, Value], how: Manners) -> None:
    chosen = how.eagle_defaults
    if args["speculative_algorithm"] == "STANDALONE":
        chosen = manners("0.5.23").eagle_defaults
    asked = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
    if all(args[name] is None for name in asked):
        args["speculative_num_steps"] = chosen.num_steps
        args["speculative_eagle_topk"] = chosen.topk
        args["speculative_num_draft_tokens"] = chosen.draft_tokens
    if args["speculative_eagle_topk"] == 1:
        steps = whole(args, "speculative_num_steps", chosen.num_steps)
        args["speculative_num_draft_tokens"] = steps + 1


def _keeps_overlap(args: Mapping[str, Value], how: Manners, environment: Mapping[str, str]) -> bool:
    """Tell whether the overlap scheduler stays as the user has it."""
    algorithm = str(args["speculative_algorithm"])
    if str(args["device"]).startswith("cpu") and how.since("0.5.16"):
        return False
    if algorithm in ("NGRAM", "DFLASH") or how.since("0.5.14"):
        return how.ngram_overlaps
    if how.since("0.5.11"):
        flat = how.since("0.5.13") or whole(args, "speculative_eagle_topk", 1) == 1
        return flat and environment.get("SGLANG_ENABLE_SPEC_V2", "1") in TRUE
    if not how.since("0.5.5"):
        return bool(args.get("enable_beta_spec"))
    first = _SPEC_V2_SINCE.get(algorithm)
    flat = not how.since("0.5.7") or whole(args, "speculative_eagle_topk", 1) == 1
    asked = environment.get("SGLANG_ENABLE_SPEC_V2", "0") in TRUE
    return first is not None and how.since(first) and flat and asked


def effective_environment(
    environment: Mapping[str, str], args: Mapping[str, Value], version: str
) -> dict[str, str]:
    """Return the variables that matter, with those that SGLang itself sets at launch."""
    how = manners(version)
    shown = {n: v for n, v in environment.items() if n.startswith(_SHOWN_VARIABLES)}
    symmetric, nvls = bool(args.get("enable_symm_mem")), bool(args.get("enable_nccl_nvls"))
    overwrites = not how.keeps_collective_environment
    if overwrites or symmetric or "NCCL_CUMEM_ENABLE" not in shown:
        shown["NCCL_CUMEM_ENABLE"] = str(int(symmetric))
    if overwrites or symmetric or nvls or "NCCL_NVLS_ENABLE" not in shown:
        shown["NCCL_NVLS_ENABLE"] = str(int(nvls or symmetric))
    shown["CUDA_DEVICE_MAX_CONNECTIONS"] = how.max_connections
    if how.module_loading:
        shown["CUDA_MODULE_LOADING"] = "AUTO"
    if shown.get("TRTLLM_ENABLE_PDL") != "0":
        shown["TRTLLM_ENABLE_PDL"] = "1"
    if args.get("enable_deterministic_inference") and whole(args, "tp_size", 1) > 1:
        shown["NCCL_ALGO"] = "allreduce:tree"
        if how.pins_channels:
            channels = environment.get(
                "SGLANG_DETERMINISTIC_NCCL_NCHANNELS", _DETERMINISTIC_CHANNELS
            )
            shown["NCCL_MIN_NCHANNELS"] = shown["NCCL_MAX_NCHANNELS"] = channels
    return dict(sorted(shown.items()))


def whole(args: Mapping[str, Value], name: str, default: int) -> int:
    """Return a whole number among arguments; the default where it is unset."""
    value = args.get(name)
    return int(value) if isinstance(value, int | float) else default


def launch_digest(given: Mapping[str, Value], environment: Mapping[str, str]) -> str:
    """Return what tells one launch from another."""
    flags = {n: v for n, v in given.items() if n not in _NOT_OF_THE_LAUNCH}
    told = [n for n in environment if n in ENVIRONMENT and n.startswith(_OF_THE_LAUNCH)]
    variables = {name: environment[name] for name in told}
    return digest([flags, variables])
