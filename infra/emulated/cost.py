"""The time of one step on an emulated host, as a pure function of truth, settings and batch."""

from infra.emulated.settings import Algorithm, Settings
from infra.emulated.truth import (
    ALL_REDUCES_PER_FORWARD,
    BYTES_PER_ELEMENT,
    EXPERTS_PER_TOKEN,
    HIDDEN_WIDTH,
    KV_BYTES_PER_TOKEN,
    ROUTED_EXPERTS,
    HostTruth,
    Protocol,
)

_REFERENCE_TP = 8
_IPC_SIZES = (2, 4, 8)
_NO_P2P_LEVELS = ("LOC", "NVL")
_BELOW_SYS = ("PIX", "PXB", "PHB")


def step_s(
    truth: HostTruth, settings: Settings, *, batch: int, tokens: int, context_tokens: int
) -> float:
    """Return host seconds of one step: `tokens` for each of `batch` requests, and the drafting.

    `context_tokens` is what all of the batch has in the KV cache together.
    """
    total = batch * tokens
    forward_ms = compute_ms(truth, settings, total) + _kv_ms(truth, context_tokens)
    if settings.tp_size > 1:
        forward_ms += ALL_REDUCES_PER_FORWARD * all_reduce_us(truth, settings, total) / 1000
    if settings.speculates:
        forward_ms += truth.verify_offset_ms
    if not settings.cuda_graph or batch > settings.graph_max_batch:
        forward_ms = max(forward_ms, truth.eager_step_ms)
    return (forward_ms + host_ms(truth, settings, batch)) / 1000


def compute_ms(truth: HostTruth, settings: Settings, tokens: int) -> float:
    """Return the compute of a forward: weights that all tokens share, and further experts."""
    extra = distinct_experts(tokens * truth.expert_overlap) - EXPERTS_PER_TOKEN
    ms = (
        truth.compute_1_ms
        + truth.ms_per_extra_expert * max(0.0, extra)
        + truth.ms_per_extra_token * (tokens - 1)
    )
    return ms * _REFERENCE_TP / settings.tp_size


def distinct_experts(tokens: float) -> float:
    """Return how many experts of a layer are expected to be read if tokens route independently."""
    missed = 1 - EXPERTS_PER_TOKEN / ROUTED_EXPERTS
    return float(ROUTED_EXPERTS * (1 - missed**tokens))


def all_reduce_us(truth: HostTruth, settings: Settings, tokens: int) -> float:
    """Return one all-reduce over the tensor-parallel group in microseconds."""
    elements = HIDDEN_WIDTH * tokens
    kib = elements * BYTES_PER_ELEMENT / 1024
    if _uses_ipc(settings, elements):
        return truth.pcie_ipc_base_us + truth.pcie_ipc_us_per_kib * kib
    names = _allowed_protocols(truth, settings, kib)
    return min(_protocol_us(truth, settings, truth.protocols[name], kib) for name in names)


def host_ms(truth: HostTruth, settings: Settings, batch: int) -> float:
    """Return the drafter's part of a cycle: building drafts, masks and waiting for them."""
    match settings.algorithm:
        case Algorithm.PLAIN:
            return 0.0
        case Algorithm.NGRAM:
            return truth.ngram_host_ms + truth.host_per_extra_request_ms * (batch - 1)
        case Algorithm.EAGLE:
            return truth.eagle_step_ms * settings.draft_steps + truth.eagle_extend_ms


def kv_room_tokens(truth: HostTruth, settings: Settings) -> int:
    """Return how many tokens the KV cache holds; zero or less means that the model does not fit."""
    free_gib = settings.mem_fraction * truth.gpu_memory_gib - truth.weights_gib
    room = int(free_gib * 2**30 / KV_BYTES_PER_TOKEN)
    if settings.max_total_tokens is not None:
        return min(room, settings.max_total_tokens)
    return room


def named_protocols(text: str, known: tuple[str, ...] = ("LL", "LL128", "SIMPLE")) -> set[str]:
    """Read NCCL_PROTO or NCCL_ALGO: names with commas, `^` in front excludes. Empty means all."""
    excluded = text.startswith("^")
    names = {part.strip().upper() for part in text.removeprefix("^").split(",") if part.strip()}
    if not names:
        return set(known)
    return set(known) - names if excluded else names


def _uses_ipc(settings: Settings, elements: int) -> bool:
    limit = settings.pcie_ipc_max_elements
    return settings.pcie_ipc and settings.tp_size in _IPC_SIZES and (not limit or elements <= limit)


def _allowed_protocols(truth: HostTruth, settings: Settings, kib: float) -> set[str]:
    if settings.nccl_proto:
        return named_protocols(settings.nccl_proto)
    return {"LL"} if kib <= truth.default_ll_max_kib else {"SIMPLE"}


def _protocol_us(truth: HostTruth, settings: Settings, protocol: Protocol, kib: float) -> float:
    hop_factor, slope_factor = _path_factors(truth, settings)
    steps = 2 * (settings.tp_size - 1)
    tree = settings.nccl_algo and named_protocols(settings.nccl_algo, ("RING", "TREE")) == {"TREE"}
    hop = protocol.hop_us * (protocol.tree_hop_ratio if tree else 1.0)
    channels = _channels(truth, settings)
    slope = protocol.us_per_kib * max(1.0, truth.reference_channels / channels)
    return protocol.base_us + steps * hop * hop_factor + kib * slope * slope_factor


def _path_factors(truth: HostTruth, settings: Settings) -> tuple[float, float]:
    if settings.p2p_disable or settings.p2p_level in _NO_P2P_LEVELS:
        hop = truth.loopback_hop if settings.shm_disable else truth.p2p_off_hop
        return hop, truth.p2p_off_slope
    return (truth.cross_socket_hop if settings.p2p_level in _BELOW_SYS else 1.0), 1.0


def _channels(truth: HostTruth, settings: Settings) -> int:
    channels = truth.reference_channels
    if settings.max_channels is not None:
        channels = min(channels, settings.max_channels)
    return max(channels, settings.min_channels or 1)


def _kv_ms(truth: HostTruth, context_tokens: int) -> float:
    return context_tokens * KV_BYTES_PER_TOKEN / (truth.memory_gb_per_s * 1e6)
