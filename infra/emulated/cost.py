"""The time of one step on an emulated host, as a pure function of truth, settings and batch."""

from collections.abc import Iterator
from dataclasses import dataclass

from infra.emulated.settings import Algorithm, Settings
from infra.emulated.truth import (
    ALL_REDUCES_PER_FORWARD,
    BYTES_PER_ELEMENT,
    EXPERTS_PER_TOKEN,
    HIDDEN_WIDTH,
    KV_BYTES_PER_TOKEN,
    ROUTED_EXPERTS,
    HostTruth,
    Kernel,
    Links,
)

_REFERENCE_TP = 8
_IPC_SIZES = (2, 4, 8)
_CUSTOM_SIZES = (2, 4, 6, 8)
_NO_P2P_LEVELS = ("LOC", "NVL")
_BELOW_SYS = ("PIX", "PXB", "PHB")


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step of a given batch and width costs: all of it but the context that it reads."""

    forward_ms: float
    least_forward_ms: float
    host_ms: float
    kv_ms_per_token: float

    def duration_s(self, context_tokens: int) -> float:
        """Return host seconds; `context_tokens` is what all of the batch has in the KV cache."""
        forward_ms = self.forward_ms + self.kv_ms_per_token * context_tokens
        return (max(forward_ms, self.least_forward_ms) + self.host_ms) / 1000


def step_cost(truth: HostTruth, settings: Settings, *, batch: int, tokens: int) -> StepCost:
    """Price a step of `tokens` for each of `batch` requests, with the drafting."""
    total = batch * tokens
    forward_ms = compute_ms(truth, settings, total)
    if settings.tp_size > 1:
        forward_ms += ALL_REDUCES_PER_FORWARD * all_reduce_us(truth, settings, total) / 1000
    if settings.speculates:
        forward_ms += truth.verify_offset_ms
    eager = not settings.cuda_graph or batch > settings.graph_max_batch
    return StepCost(
        forward_ms,
        truth.eager_step_ms if eager else 0.0,
        host_ms(truth, settings, batch),
        KV_BYTES_PER_TOKEN / (truth.gpu.memory_gb_per_s * 1e6),
    )


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
    for kernel in _kernels(truth.links, settings, elements):
        if kib <= kernel.max_kib:
            return kernel.base_us + kernel.us_per_kib * kib
    names = _allowed_protocols(truth.links, settings, kib)
    return min(_protocol_us(truth.links, settings, name, kib) for name in names)


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
    free_gib = settings.mem_fraction * truth.gpu.memory_gib - truth.weights_gib
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


def _kernels(links: Links, settings: Settings, elements: int) -> Iterator[Kernel]:
    """Yield what SGLang tries before NCCL, in its order."""
    if links.custom and settings.custom_all_reduce and settings.tp_size in _CUSTOM_SIZES:
        yield links.custom
    limit = settings.pcie_ipc_max_elements
    fits = settings.tp_size in _IPC_SIZES and (not limit or elements <= limit)
    if links.pcie_ipc and settings.pcie_ipc and fits:
        yield links.pcie_ipc


def _allowed_protocols(links: Links, settings: Settings, kib: float) -> set[str]:
    """Return the protocols that NCCL chooses from: what it is told, or one by size."""
    if settings.nccl_proto:
        return named_protocols(settings.nccl_proto)
    return {"LL" if kib <= links.default_ll_max_kib else links.wide_protocol}


def _protocol_us(links: Links, settings: Settings, name: str, kib: float) -> float:
    protocol = links.protocols[name]
    hop_factor, slope_factor = _path_factors(links, settings)
    steps = 2 * (settings.tp_size - 1)
    tree = settings.nccl_algo and named_protocols(settings.nccl_algo, ("RING", "TREE")) == {"TREE"}
    hop = protocol.hop_us * (protocol.tree_hop_ratio if tree else 1.0)
    slope = protocol.us_per_kib * max(1.0, links.reference_channels / _channels(links, settings))
    return protocol.base_us + steps * hop * hop_factor + kib * slope * slope_factor


def _path_factors(links: Links, settings: Settings) -> tuple[float, float]:
    if settings.p2p_disable or settings.p2p_level in _NO_P2P_LEVELS:
        hop = links.loopback_hop if settings.shm_disable else links.p2p_off_hop
        return hop, links.p2p_off_slope
    return (links.cross_socket_hop if settings.p2p_level in _BELOW_SYS else 1.0), 1.0


def _channels(links: Links, settings: Settings) -> int:
    channels = links.reference_channels
    if settings.max_channels is not None:
        channels = min(channels, settings.max_channels)
    return max(channels, settings.min_channels or 1)
