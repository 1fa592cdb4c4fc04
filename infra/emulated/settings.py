"""The settings of an emulated server that change what it does, resolved as SGLang resolves them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from infra.sglang.flags import ENVIRONMENT, FLAGS, version_key
from sweeps.values import Value, digest

SPECULATIVE_MAX_RUNNING = 48
"""SGLang's limit when speculation is on and none was given."""
PLAIN_MAX_RUNNING = 2048
MODEL_CONTEXT_TOKENS = 262_144
DEFAULT_GRAPH_MAX_BATCH = 32
"""Assumption: what a host of this memory captures when nothing is said."""
PCIE_IPC_SINCE = "0.5.21"
PROB_SINCE = "0.5.10"
NGRAM_DRAFT_TOKENS = 12
NGRAM_CAPACITY_NODES = 10_000_000
MEM_FRACTION = 0.88
CHUNKED_PREFILL_TOKENS = 8192

_GRAPH_FLAGS = ("cuda_graph_max_bs_decode", "cuda_graph_max_bs")
_SHOWN_VARIABLES = ("NCCL_", "SGLANG_", "CUDA_DEVICE_MAX_CONNECTIONS")
_NOT_OF_THE_LAUNCH = ("host", "port", "nccl_port", "log_level")


class Algorithm(StrEnum):
    """Who drafts."""

    PLAIN = "PLAIN"
    NGRAM = "NGRAM"
    EAGLE = "EAGLE"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the cost model, the drafter and the scheduler read. Inert settings are not here."""

    algorithm: Algorithm = Algorithm.PLAIN
    draft_tokens: int = 1
    """Tokens that one verify processes per request, the root included."""
    draft_steps: int = 0
    topk: int = 1
    max_depth: int = 18
    min_match: int = 1
    max_match: int = 18
    min_breadth: int = 1
    max_breadth: int = 10
    match_type: str = "BFS"
    capacity_nodes: int = NGRAM_CAPACITY_NODES
    tp_size: int = 8
    max_running_requests: int = PLAIN_MAX_RUNNING
    context_tokens: int = MODEL_CONTEXT_TOKENS
    chunked_prefill_tokens: int = CHUNKED_PREFILL_TOKENS
    radix_cache: bool = True
    stream_interval: int = 1
    decode_log_interval: int = 40
    mem_fraction: float = MEM_FRACTION
    max_total_tokens: int | None = None
    cuda_graph: bool = True
    graph_max_batch: int = DEFAULT_GRAPH_MAX_BATCH
    nccl_proto: str = ""
    nccl_algo: str = ""
    p2p_level: str = ""
    p2p_disable: bool = False
    shm_disable: bool = False
    min_channels: int | None = None
    max_channels: int | None = None
    pcie_ipc: bool = False
    pcie_ipc_max_elements: int = 0
    custom_all_reduce: bool = True
    """Not disabled; whether it acts is the host's."""
    draft_model: str = ""
    launch: str = ""
    """Digest of everything given, inert settings too; it only tells launches apart."""

    @property
    def speculates(self) -> bool:
        """Tell whether each step verifies drafts."""
        return self.algorithm is not Algorithm.PLAIN


def resolve(given: Mapping[str, Value], version: str) -> dict[str, Value]:
    """Return all arguments of a version by SGLang's names, with its silent rewrites applied."""
    known = {n: f.default for n, f in FLAGS.items() if f.exists_in(version)}
    args: dict[str, Value] = {**known, **{n: v for n, v in given.items() if v is not None}}
    args["tokenizer_path"] = args["tokenizer_path"] or args["model_path"]
    args["served_model_name"] = args["served_model_name"] or args["model_path"]
    args["mem_fraction_static"] = args["mem_fraction_static"] or MEM_FRACTION
    args["chunked_prefill_size"] = args["chunked_prefill_size"] or CHUNKED_PREFILL_TOKENS
    args["page_size"] = args["page_size"] or 1
    args["device"] = args["device"] or "cuda"
    args["attention_backend"] = args["attention_backend"] or "triton"
    args["random_seed"] = args["random_seed"] or int(_launch_digest(given, {}), 16) % 2**30
    _resolve_speculation(args, version)
    if args["max_running_requests"] is None:
        speculates = args["speculative_algorithm"] is not None
        args["max_running_requests"] = SPECULATIVE_MAX_RUNNING if speculates else PLAIN_MAX_RUNNING
    return args


def _resolve_speculation(args: dict[str, Value], version: str) -> None:
    if args["speculative_algorithm"] == "NEXTN":
        args["speculative_algorithm"] = "EAGLE"
    match args["speculative_algorithm"]:
        case None:
            return
        case "NGRAM":
            breadth = whole(args, "speculative_ngram_max_bfs_breadth", 10)
            args["speculative_eagle_topk"] = breadth
            if args["speculative_num_draft_tokens"] is None:
                window = args.get("speculative_ngram_max_match_window_size", NGRAM_DRAFT_TOKENS)
                args["speculative_num_draft_tokens"] = window
            if args["speculative_num_steps"] is None and version_key(version) >= (0, 5, 14):
                tokens = whole(args, "speculative_num_draft_tokens", NGRAM_DRAFT_TOKENS)
                args["speculative_num_steps"] = tokens // max(1, breadth)
            args["disable_overlap_schedule"] = bool(
                args["disable_overlap_schedule"]
            ) or version_key(version) < (0, 5, 14)
        case _:
            _resolve_eagle(args)


def _resolve_eagle(args: dict[str, Value]) -> None:
    if args["speculative_num_steps"] is None:
        args["speculative_num_steps"] = 3
        args["speculative_eagle_topk"] = 1
        args["speculative_num_draft_tokens"] = 4
    if args["speculative_eagle_topk"] == 1:
        args["speculative_num_draft_tokens"] = whole(args, "speculative_num_steps", 3) + 1


def make_settings(
    given: Mapping[str, Value], environment: Mapping[str, str], version: str
) -> Settings:
    """Resolve arguments (SGLang's names) and variables into what the emulation reads."""
    args = resolve(given, version)
    algorithm = _algorithm(args["speculative_algorithm"])
    speculates = algorithm is not Algorithm.PLAIN
    depth, low, high = _match_lengths(args)
    prob = args.get("speculative_ngram_match_type") == "PROB"
    graph = next((n for n in _GRAPH_FLAGS if args.get(n) is not None), "")
    has_ipc = version_key(version) >= version_key(PCIE_IPC_SINCE)
    total = args["max_total_tokens"]
    return Settings(
        algorithm=algorithm,
        draft_tokens=whole(args, "speculative_num_draft_tokens", 1) if speculates else 1,
        draft_steps=whole(args, "speculative_num_steps", 0) if speculates else 0,
        topk=whole(args, "speculative_eagle_topk", 1) if speculates else 1,
        max_depth=depth,
        min_match=low,
        max_match=high,
        min_breadth=whole(args, "speculative_ngram_min_bfs_breadth", 1),
        max_breadth=whole(args, "speculative_ngram_max_bfs_breadth", 10),
        match_type="PROB" if prob and version_key(version) >= version_key(PROB_SINCE) else "BFS",
        capacity_nodes=whole(args, "speculative_ngram_capacity", NGRAM_CAPACITY_NODES),
        tp_size=max(1, whole(args, "tp_size", 1)),
        max_running_requests=max(1, whole(args, "max_running_requests", PLAIN_MAX_RUNNING)),
        context_tokens=whole(args, "context_length", MODEL_CONTEXT_TOKENS),
        chunked_prefill_tokens=whole(args, "chunked_prefill_size", CHUNKED_PREFILL_TOKENS),
        radix_cache=not args["disable_radix_cache"],
        stream_interval=whole(args, "stream_interval", 1),
        decode_log_interval=whole(args, "decode_log_interval", 40),
        mem_fraction=float(args["mem_fraction_static"] or 0.0),
        max_total_tokens=total if isinstance(total, int) else None,
        cuda_graph=not args["disable_cuda_graph"],
        graph_max_batch=whole(args, graph, DEFAULT_GRAPH_MAX_BATCH),
        nccl_proto=environment.get("NCCL_PROTO", ""),
        nccl_algo=environment.get("NCCL_ALGO", ""),
        p2p_level=environment.get("NCCL_P2P_LEVEL", ""),
        p2p_disable=environment.get("NCCL_P2P_DISABLE", "0") == "1",
        shm_disable=environment.get("NCCL_SHM_DISABLE", "0") == "1",
        min_channels=_integer(environment.get("NCCL_MIN_NCHANNELS")),
        max_channels=_integer(environment.get("NCCL_MAX_NCHANNELS")),
        pcie_ipc=has_ipc and environment.get("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "0") in _TRUE,
        pcie_ipc_max_elements=_integer(environment.get("SGLANG_PCIE_IPC_MAX_NUMEL")) or 0,
        custom_all_reduce=not args["disable_custom_all_reduce"],
        draft_model=str(args["speculative_draft_model_path"] or ""),
        launch=_launch_digest(given, environment),
    )


_TRUE = ("1", "true", "True", "TRUE")


def effective_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that matter, with those that SGLang itself sets at launch."""
    shown = {n: v for n, v in environment.items() if n.startswith(_SHOWN_VARIABLES)}
    shown.setdefault("NCCL_CUMEM_ENABLE", "0")
    shown.setdefault("NCCL_NVLS_ENABLE", "0")
    shown["CUDA_DEVICE_MAX_CONNECTIONS"] = "8"
    return dict(sorted(shown.items()))


def whole(args: Mapping[str, Value], name: str, default: int) -> int:
    """Return a whole number among arguments; the default where it is unset."""
    value = args.get(name)
    return int(value) if isinstance(value, int | float) else default


def _algorithm(name: Value) -> Algorithm:
    match name:
        case None:
            return Algorithm.PLAIN
        case "NGRAM":
            return Algorithm.NGRAM
        case _:
            return Algorithm.EAGLE


def _match_lengths(args: Mapping[str, Value]) -> tuple[int, int, int]:
    """Return trie depth, shortest and longest match, for old and new flags."""
    depth = whole(args, "speculative_ngram_max_trie_depth", 0)
    if depth:
        return depth, 1, depth
    return (
        whole(args, "speculative_ngram_branch_length", 18),
        whole(args, "speculative_ngram_min_match_window_size", 1),
        whole(args, "speculative_ngram_max_match_window_size", 12),
    )


def _integer(text: str | None) -> int | None:
    """Read a number as NCCL does: text that is none counts as 0, and 0 as unset."""
    if text is None:
        return None
    try:
        return int(text, 0) or None
    except ValueError:
        return None


def _launch_digest(given: Mapping[str, Value], environment: Mapping[str, str]) -> str:
    flags = {n: v for n, v in given.items() if n not in _NOT_OF_THE_LAUNCH}
    variables = {n: v for n, v in environment.items() if n in ENVIRONMENT}
    return digest([flags, variables])
