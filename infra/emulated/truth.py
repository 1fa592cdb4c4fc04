"""What is true of an emulated host: the constants that its step times, start and noise come from.

Three calibrations reproduce the same few published rates of an 8-GPU PCIe host and disagree about
everything else. They are told apart by varying the draft length and NCCL_PROTO together. Two more
hosts carry the same model on other links.

Sources: [N] NVIDIA/nccl, src/graph/tuning.cc; [K] local-inference-lab/rtx6kpro, measurements of
hosts of this class; [L] magik6k/glm-kimi-sm120-rtx6000bw, logs of this model on such a host;
[F] published rates of the host that is emulated, which the constants are fitted to; [A] assumption.
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
    """One NCCL protocol on these links: base + 2 (ranks - 1) hops + payload."""

    base_us: float
    hop_us: float
    us_per_kib: float
    tree_hop_ratio: float = 1.0
    """Hop of the tree over hop of the ring; 1 makes NCCL_ALGO inert."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """An all-reduce beside NCCL's: one shot, so that only the payload grows."""

    base_us: float
    us_per_kib: float
    max_kib: float = float("inf")


@dataclass(frozen=True, slots=True)
class Links:
    """How the GPUs of a host reach each other."""

    sockets: int
    protocols: Mapping[str, Protocol]
    default_ll_max_kib: float
    """Above this the untuned host leaves LL for Simple; see `wide_protocol`."""
    wide_protocol: str = "SIMPLE"
    reference_channels: int = 4
    """[K] tuned hosts; half of them double the slope."""
    p2p_off_hop: float = 1.35
    p2p_off_slope: float = 1.5
    """[K] fitted to the loss of a host that switched P2P off."""
    cross_socket_hop: float = 1.2
    """[A] P2P levels below SYS make only the hops between the sockets slower."""
    loopback_hop: float = 20.0
    """[A] P2P and shared memory both off."""
    pcie_ipc: Kernel | None = None
    """FlashInfer's kernel; None: it is not to be had here and SGLang falls back to NCCL."""
    custom: Kernel | None = None
    """SGLang's custom all-reduce; None: it switches itself off, as on more than two PCIe GPUs."""


@dataclass(frozen=True, slots=True)
class Span:
    """A duration that is drawn evenly between two bounds, in host seconds."""

    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True)
class StartPhases:
    """How long a start takes (published logs of this host class)."""

    spawn: Span = Span(8.0, 14.0)
    distributed_init: Span = Span(2.0, 5.0)
    weights: Span = Span(85.0, 95.0)
    """From the page cache."""
    cold_weights: Span = Span(250.0, 450.0)
    memory_pool: Span = Span(8.0, 12.0)
    graph_per_size: Span = Span(3.0, 6.0)
    """Assumption; times 1 + 0.1 N/8 for a verify of N tokens."""
    eagle_graphs: Span = Span(30.0, 60.0)
    warm_up: Span = Span(4.0, 6.0)
    """With all kernels compiled."""
    cold_warm_up: Span = Span(35.0, 45.0)


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
class GpuModel:
    """One device of a host."""

    name: str
    memory_gib: float
    memory_gb_per_s: float
    """What a kernel reaches, not the data sheet."""


@dataclass(frozen=True, slots=True)
class HostTruth:
    """Constants of one host and the model on it."""

    name: str
    profile: str
    """The hardware, in words."""
    gpu: GpuModel
    links: Links
    compute_1_ms: float
    """Compute of one token without communication [F]."""
    ms_per_extra_expert: float = 0.0
    """[F] 0.186 GB of weights at 1.4 TB/s."""
    ms_per_extra_token: float = 0.0
    expert_overlap: float = 1.0
    """[A] Share of tokens that route independently; published values lie from 0.6 to 1."""
    verify_offset_ms: float = 0.0
    """Launches outside a graph, per verify [F]."""
    ngram_host_ms: float = 1.7
    """[F] Drafting, mask and synchronisation."""
    host_per_extra_request_ms: float = 0.3
    """[A]"""
    eagle_step_ms: float = 0.6
    eagle_extend_ms: float = 0.5
    """[A] Both, within what such drafters take."""
    eagle_breadth_gain: float = 0.15
    """[A] Share of the misses that each further candidate of a depth recovers."""
    eager_step_ms: float = 62.0
    """[L] Least step without a CUDA graph."""
    prefill_tokens_per_s: float = 4000.0
    """[A]"""
    prefill_base_s: float = 0.060
    """[A] Tokenizing, scheduling and the first forward."""
    weights_gib: float = 72.83
    """[L] 72.33 for the weights; the rest fits the KV room that it reports."""
    start: StartPhases = field(default_factory=StartPhases)
    noise: NoiseLevels = field(default_factory=NoiseLevels)

    @property
    def gpu_memory_gib(self) -> float:
        """Return the memory of one device."""
        return self.gpu.memory_gib


_OWN_DRAFTER = (0.62, 0.45, 0.35, 0.30, 0.28, 0.26)
DRAFT_MODELS: Mapping[str, tuple[float, ...]] = {"kimi-k2-instruct-eagle3": (0.34,)}
"""Part of a draft model's path to the chance that each draft is right if all before it were.

[F] The first figure of each follows from its published accept length; the rest is [A]. The last one
holds for all further positions.
"""


def hit_rates(draft_model: str) -> tuple[float, ...]:
    """Return a drafter's hit rates by position; one that is not known was trained for the model."""
    path = draft_model.casefold()
    return next((r for part, r in DRAFT_MODELS.items() if part in path), _OWN_DRAFTER)


_RTX_PRO_6000 = GpuModel("NVIDIA RTX PRO 6000 Blackwell Server Edition", 94.97, 1400.0)
"""[L] memory; 1,400 of 1,792 GB/s is [A]."""
_H200 = GpuModel("NVIDIA H200", 139.81, 3750.0)
"""Data sheet; 3,750 of 4,800 GB/s in the same proportion is [A]."""

_PROTOCOLS = {
    "LL": Protocol(6.6, 1.10, 0.10),
    "LL128": Protocol(14.0, 1.6, 0.05, tree_hop_ratio=1.9 / 2.5),
    "SIMPLE": Protocol(8.4, 7.1, 0.04, tree_hop_ratio=4.0 / 5.7),
}
"""Bases and tree ratios [N]; hops and slopes fitted to [F] within what [K] found."""
_FLAT = Protocol(6.6, 40.7 / 14, 1.408)
"""[F] Slow links of which the payload is all that counts."""
_IPC = Kernel(4.0, 0.08)
"""Fitted to SGLang's own figures (0.5.23, device_communicators/pcie_ipc_ar.py)."""

_TWO_SOCKETS = Links(2, _PROTOCOLS, 32.0, pcie_ipc=_IPC)
_SLOW = Links(2, dict.fromkeys(_PROTOCOLS, _FLAT), 32.0)
_SWITCH = Links(
    1,
    {**_PROTOCOLS, "LL": Protocol(6.6, 1.24, 0.015)},
    default_ll_max_kib=float("inf"),
    cross_socket_hop=1.0,
    pcie_ipc=_IPC,
)
"""LL fitted to [K], PCIe switches under one CPU: 24 us from 4 to 64 KiB, 28 us at 256."""
_NVLINK = Links(
    2,
    {
        "LL": Protocol(6.6, 0.6, 0.03),
        "LL128": Protocol(14.0, 1.9, 0.006, tree_hop_ratio=1.25 / 1.9),
        "SIMPLE": Protocol(8.4, 3.4, 0.004),
    },
    default_ll_max_kib=64.0,
    wide_protocol="LL128",
    cross_socket_hop=1.0,
    custom=Kernel(5.0, 0.012, max_kib=8192.0),
)
"""Bases and hops [N]; slopes and the custom kernel [A]."""

_M = HostTruth(
    name="M",
    profile="8x RTX PRO 6000, two sockets",
    gpu=_RTX_PRO_6000,
    links=_TWO_SOCKETS,
    compute_1_ms=9.34,
    ms_per_extra_expert=0.1327,
)
_BANDWIDTH_RATIO = _RTX_PRO_6000.memory_gb_per_s / _H200.memory_gb_per_s

TRUTHS: dict[str, HostTruth] = {
    "S": replace(
        _M,
        name="S",
        links=_SLOW,
        compute_1_ms=4.02,
        ms_per_extra_expert=0.0,
        ms_per_extra_token=0.140,
        # [A] A draft model's own all-reduces go over the same links.
        eagle_step_ms=1.5,
        eagle_extend_ms=0.8,
    ),
    "M": _M,
    "G": replace(
        _M,
        name="G",
        links=replace(_TWO_SOCKETS, default_ll_max_kib=float("inf")),
        verify_offset_ms=9.7,
    ),
    "switch": replace(
        _M, name="switch", profile="8x RTX PRO 6000, PCIe switches, one socket", links=_SWITCH
    ),
    "nvlink": replace(
        _M,
        name="nvlink",
        profile="8x H200, NVLink",
        gpu=_H200,
        links=_NVLINK,
        # [A] Decode reads weights: the same bytes at the other bandwidth.
        compute_1_ms=9.34 * _BANDWIDTH_RATIO,
        ms_per_extra_expert=0.1327 * _BANDWIDTH_RATIO,
    ),
}
"""S: slow links, all linear. M: experts, and a protocol that changes with size. G: no graph.

These three are the same hardware under three explanations [F]; the others are other hardware.
"""

DEFAULT_TRUTH = "M"
