"""The settings of an emulated server that change what it does, resolved as SGLang resolves them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from infra.emulated.resolution import (
    CHUNKED_PREFILL_TOKENS,
    MEM_FRACTION,
    PLAIN_MAX_RUNNING,
    TRUE,
    effective_environment,
    launch_digest,
    resolve,
    whole,
)
from infra.emulated.versions import Manners, manners
from infra.sglang.flags import version_key
from infra.sglang.ngram_form import INSERTS_BEHIND_SINCE
from sweeps.values import Value

MODEL_CONTEXT_TOKENS = 262_144
DEFAULT_GRAPH_MAX_BATCH = 32
"""Assumption: what a host of this memory captures when nothing is said."""
NGRAM_CAPACITY_NODES = 10_000_000

_GRAPH_FLAGS = ("cuda_graph_max_bs_decode", "cuda_graph_max_bs")
_GRAPH_LISTS = ("cuda_graph_bs_decode", "cuda_graph_bs")


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
    match_window: bool = False
    """Matches are bounded by `min_match` and `max_match` (up to 0.5.9)."""
    ngram_inserts_behind: bool = True
    """Accepted tokens enter the trie one verify later (from 0.5.14)."""
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
    page_tokens: int = 1
    overlap: bool = True
    sam_budget: int = 0
    """Draft nodes that are kept for external corpora."""
    corpus_limit_tokens: int = 10_000_000
    max_queued_requests: int | None = None
    conservativeness: float = 1.0
    launch: str = ""
    """Digest of everything given, inert settings too; it only tells launches apart."""

    @property
    def speculates(self) -> bool:
        """Tell whether each step verifies drafts."""
        return self.algorithm is not Algorithm.PLAIN


def make_settings(
    given: Mapping[str, Value], environment: Mapping[str, str], version: str
) -> Settings:
    """Resolve arguments (SGLang's names) and variables into what the emulation reads."""
    args = resolve(given, version, environment)
    environment = {**environment, **effective_environment(environment, args, version)}
    how = manners(version)
    algorithm = _algorithm(args["speculative_algorithm"])
    speculates = algorithm is not Algorithm.PLAIN
    depth, low, high = _match_lengths(args)
    prob = args.get("speculative_ngram_match_type") == "PROB"
    total, queued = args["max_total_tokens"], args["max_queued_requests"]
    return Settings(
        algorithm=algorithm,
        draft_tokens=whole(args, "speculative_num_draft_tokens", 1) if speculates else 1,
        draft_steps=whole(args, "speculative_num_steps", 0) if speculates else 0,
        topk=whole(args, "speculative_eagle_topk", 1) if speculates else 1,
        max_depth=depth,
        min_match=low,
        max_match=high,
        match_window="speculative_ngram_max_match_window_size" in args,
        ngram_inserts_behind=version_key(version) >= version_key(INSERTS_BEHIND_SINCE),
        min_breadth=whole(args, "speculative_ngram_min_bfs_breadth", 1),
        max_breadth=whole(args, "speculative_ngram_max_bfs_breadth", 10),
        match_type="PROB" if prob and how.ngram_prob else "BFS",
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
        cuda_graph=_captures_graphs(args),
        graph_max_batch=_largest_graph(args),
        nccl_proto=environment.get("NCCL_PROTO", ""),
        nccl_algo=_of_all_reduce(environment.get("NCCL_ALGO", "")),
        p2p_level=environment.get("NCCL_P2P_LEVEL", ""),
        p2p_disable=environment.get("NCCL_P2P_DISABLE", "0") == "1",
        shm_disable=environment.get("NCCL_SHM_DISABLE", "0") == "1",
        min_channels=_integer(environment.get("NCCL_MIN_NCHANNELS")),
        max_channels=_integer(environment.get("NCCL_MAX_NCHANNELS")),
        pcie_ipc=_uses_pcie_ipc(args, environment, how),
        pcie_ipc_max_elements=_integer(environment.get("SGLANG_PCIE_IPC_MAX_NUMEL")) or 0,
        custom_all_reduce=not args["disable_custom_all_reduce"],
        draft_model=str(args["speculative_draft_model_path"] or ""),
        page_tokens=max(1, whole(args, "page_size", 1)),
        overlap=not args["disable_overlap_schedule"],
        sam_budget=whole(args, "speculative_ngram_external_sam_budget", 0),
        corpus_limit_tokens=whole(
            args, "speculative_ngram_external_corpus_max_tokens", NGRAM_CAPACITY_NODES
        ),
        conservativeness=float(args["schedule_conservativeness"] or 1.0),
        max_queued_requests=queued if isinstance(queued, int) else None,
        launch=launch_digest(given, environment),
    )


def _captures_graphs(args: Mapping[str, Value]) -> bool:
    off = args["disable_cuda_graph"] or args.get("disable_decode_cuda_graph")
    return not off and args.get("cuda_graph_backend_decode") != "disabled"


def _largest_graph(args: Mapping[str, Value]) -> int:
    for name in _GRAPH_LISTS:
        if listed := str(args.get(name) or ""):
            return max(map(int, listed.split()))
    named = next((n for n in _GRAPH_FLAGS if args.get(n) is not None), "")
    return whole(args, named, DEFAULT_GRAPH_MAX_BATCH)


def _uses_pcie_ipc(args: Mapping[str, Value], environment: Mapping[str, str], how: Manners) -> bool:
    asked = environment.get("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "0") in TRUE
    return how.pcie_ipc and asked and not args.get("enable_deterministic_inference")


def _of_all_reduce(text: str) -> str:
    """Pick from NCCL_ALGO what it says of all-reduce: `allreduce:tree;…`, or all of it."""
    for part in text.split(";"):
        collective, colon, names = part.partition(":")
        if not colon:
            return part
        if collective.strip().lower() == "allreduce":
            return names
    return ""


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
