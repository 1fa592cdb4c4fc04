"""What is true of an emulated host: the constants that its step times, start and noise come from.

Three calibrations reproduce the same few published rates of an 8-GPU PCIe host and disagree about
everything else. They are told apart by varying the draft length and NCCL_PROTO together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

HIDDEN_WIDTH = 7168
"""Elements per token in one all-reduce (published model configuration)."""
BYTES_PER_ELEMENT = 2
ALL_REDUCES_PER_FORWARD = 122
"""61 layers, one after attention and one after the experts."""
ROUTED_EXPERTS = 384
EXPERTS_PER_TOKEN = 8
KV_BYTES_PER_TOKEN = 1152 * 61
"""MLA latent, replicated on every rank."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """One NCCL protocol on this host. The base is NCCL's own tuning constant."""

    base_us: float
    hop_us: float
    us_per_kib: float
    tree_hop_ratio: float = 1.0
    """Hop of the tree over hop of the ring; 1 makes NCCL_ALGO inert."""


@dataclass(frozen=True, slots=True)
class Span:
    """A duration that is drawn evenly between two bounds, in host seconds."""

    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True)
class StartPhases:
    """How long a start takes with weights in the page cache (published logs of this host class)."""

    spawn: Span = Span(8.0, 14.0)
    distributed_init: Span = Span(2.0, 5.0)
    weights: Span = Span(85.0, 95.0)
    memory_pool: Span = Span(8.0, 12.0)
    graph_per_size: Span = Span(3.0, 6.0)
    """Assumption; times 1 + 0.1 N/8 for a verify of N tokens."""
    eagle_graphs: Span = Span(30.0, 60.0)
    warm_up: Span = Span(5.0, 40.0)


@dataclass(frozen=True, slots=True)
class NoiseLevels:
    """Spread of step times; all of it an assumption, held against published repeat runs."""

    step_sigma: float = 0.02
    launch_sigma: float = 0.015
    drift_sigma: float = 0.01
    drift_time_s: float = 120.0
    stall_chance: float = 0.001
    stall: Span = Span(0.030, 0.150)


@dataclass(frozen=True, slots=True)
class HostTruth:
    """Constants of one host and model. Compute, experts and protocols are fits to known rates."""

    name: str
    protocols: Mapping[str, Protocol]
    default_ll_max_kib: float
    """Above this the untuned host leaves LL for Simple."""
    compute_1_ms: float
    """Compute of one token without communication."""
    ms_per_extra_expert: float = 0.0
    ms_per_extra_token: float = 0.0
    expert_overlap: float = 1.0
    """Share of tokens that route independently."""
    verify_offset_ms: float = 0.0
    """Launches outside a graph, per verify."""
    ngram_host_ms: float = 1.7
    host_per_extra_request_ms: float = 0.3
    eagle_step_ms: float = 0.5
    eagle_extend_ms: float = 0.5
    eagle_hit_rates: tuple[float, ...] = (0.70, 0.62, 0.55, 0.50, 0.46, 0.43)
    """Chance that each draft is right if all before it were; from the third on an assumption."""
    eagle_breadth_gain: float = 0.15
    """Assumption: share of the misses that each further candidate of a depth recovers."""
    eager_step_ms: float = 62.0
    """Least step without a CUDA graph (published log)."""
    memory_gb_per_s: float = 1400.0
    reference_channels: int = 4
    p2p_off_hop: float = 1.35
    p2p_off_slope: float = 1.5
    cross_socket_hop: float = 1.2
    loopback_hop: float = 20.0
    """Assumption: P2P and shared memory both off."""
    pcie_ipc_base_us: float = 4.0
    pcie_ipc_us_per_kib: float = 0.08
    prefill_tokens_per_s: float = 4000.0
    """Assumption."""
    prefill_base_s: float = 0.060
    """Assumption: tokenizing, scheduling and the first forward."""
    gpu_memory_gib: float = 94.97
    weights_gib: float = 72.83
    """Published log, 72.33 for the weights; the rest fits the KV room that it reports."""
    start: StartPhases = field(default_factory=StartPhases)
    noise: NoiseLevels = field(default_factory=NoiseLevels)


_LL = Protocol(6.6, 1.10, 0.10)
_LL128 = Protocol(14.0, 1.6, 0.05, tree_hop_ratio=1.9 / 2.5)
_SIMPLE = Protocol(8.4, 7.1, 0.04, tree_hop_ratio=4.0 / 5.7)
_FLAT = Protocol(6.6, 40.7 / 14, 1.408)

_M = HostTruth(
    name="M",
    protocols={"LL": _LL, "LL128": _LL128, "SIMPLE": _SIMPLE},
    default_ll_max_kib=32.0,
    compute_1_ms=9.34,
    ms_per_extra_expert=0.1327,
)

TRUTHS: dict[str, HostTruth] = {
    "S": HostTruth(
        name="S",
        protocols={"LL": _FLAT, "LL128": _FLAT, "SIMPLE": _FLAT},
        default_ll_max_kib=32.0,
        compute_1_ms=4.02,
        ms_per_extra_token=0.140,
    ),
    "M": _M,
    "G": replace(_M, name="G", default_ll_max_kib=float("inf"), verify_offset_ms=9.7),
}
"""S: slow links, all linear. M: experts, and a protocol that changes with size. G: no graph."""

DEFAULT_TRUTH = "M"
