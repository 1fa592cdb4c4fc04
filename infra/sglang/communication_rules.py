"""What goes wrong between settings of communication, memory and graphs.

Sources: SGLang 0.5.2 to 0.5.23, srt/server_args.py and srt/entrypoints/engine.py; NVIDIA's NCCL
documentation of environment variables, and NCCL 2.30.7 where that is silent.
"""

from infra.machine import Interconnect
from infra.sglang.configuration import Configuration
from infra.sglang.joint_rule import JointRule, both_on
from infra.sglang.variables import P2P_LEVELS


def _broken_pages(c: Configuration) -> bool:
    chunk = c.whole("chunked_prefill_size")
    return chunk > 0 and chunk % c.page_tokens != 0


def _more_ranks_than_gpus(c: Configuration) -> bool:
    if c.machine is None or not c.machine.gpus or not c.on_cuda:
        return False
    return c.ranks > c.machine.gpus * c.whole("nnodes", 1)


def _fewer_channels_allowed(c: Configuration) -> bool:
    low, high = c.whole("NCCL_MIN_NCHANNELS"), c.whole("NCCL_MAX_NCHANNELS")
    return low > 0 and high > 0 and low > high


def _misspelt_level(c: Configuration) -> bool:
    level = c.text("NCCL_P2P_LEVEL")
    return bool(level) and level not in P2P_LEVELS


def _ll128_on_pcie(c: Configuration) -> bool:
    words = c.text("NCCL_PROTO").upper()
    named = not words.startswith("^") and "LL128" in words.split(",")
    return named and c.interconnect not in (Interconnect.NVLINK, Interconnect.NVSWITCH)


def _odd_threads(c: Configuration) -> bool:
    threads = c.given("NCCL_NTHREADS")
    count = c.whole("NCCL_NTHREADS", -1)
    return threads is not None and not (64 <= count <= 512 and count % 32 == 0)


def _no_usable_algorithm(c: Configuration) -> bool:
    words = c.text("NCCL_ALGO").upper()
    if not words or ":" in words:
        return False
    excludes, named = words.startswith("^"), set(words.lstrip("^").split(","))
    return {"RING", "TREE"} <= named if excludes else not {"RING", "TREE"} & named


def _deterministic(c: Configuration) -> bool:
    return c.on("enable_deterministic_inference") and c.whole("tp_size", 1) > 1


def _algorithm_of_another(c: Configuration) -> bool:
    return _deterministic(c) and c.given("NCCL_ALGO") is not None


def _channels_of_another(c: Configuration) -> bool:
    names = ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")
    return _deterministic(c) and any(c.given(name) is not None for name in names)


_LOW, _HIGH = "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"

SERVER_RULES = (
    JointRule(
        "chunk_of_pages", ("chunked_prefill_size", "page_size", "attention_backend"), _broken_pages,
        "a chunk of prefill must be whole pages",
        "Make chunked_prefill_size a multiple of the page size.",
    ),
    JointRule(
        "compiled_graph_padding", ("enable_torch_compile", "disable_cuda_graph_padding"),
        both_on("enable_torch_compile", "disable_cuda_graph_padding"),
        "compiled graphs need padded batches",
        "Leave one of the two out.",
    ),
    JointRule(
        "hierarchical_without_radix", ("enable_hierarchical_cache", "disable_radix_cache"),
        both_on("enable_hierarchical_cache", "disable_radix_cache"),
        "the hierarchical cache is a radix cache",
        "Leave one of the two out.",
    ),
    JointRule(
        "shortest_prefill_without_radix", ("schedule_policy", "disable_radix_cache"),
        lambda c: c.text("schedule_policy") == "shortest-prefill-first"
        and c.on("disable_radix_cache"),
        "the shortest prefill is known from the radix cache alone",
        "Leave disable_radix_cache out.",
        first="0.5.21",
    ),
    JointRule(
        "ranks_on_gpus", ("tp_size", "pp_size"), _more_ranks_than_gpus,
        "there are more ranks than GPUs",
        "Lower tp_size or pp_size.",
    ),
)  # fmt: skip

NCCL_RULES = (
    JointRule(
        "nccl_channels_ordered", (_LOW, _HIGH), _fewer_channels_allowed,
        "NCCL lets the minimum of channels win over a smaller maximum",
        f"Keep {_LOW} <= {_HIGH}.",
    ),
    JointRule(
        "nccl_p2p_level_spelled", ("NCCL_P2P_LEVEL",), _misspelt_level,
        "NCCL silently ignores a level that it does not know",
        f"Use {', '.join(P2P_LEVELS)}, in capitals.",
    ),
    JointRule(
        "nccl_p2p_disabled_with_level", ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"),
        lambda c: c.on("NCCL_P2P_DISABLE") and c.given("NCCL_P2P_LEVEL") is not None,
        "with peer-to-peer off, its level means nothing",
        "Set one of the two.",
    ),
    JointRule(
        "nccl_no_transport", ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"),
        both_on("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"),
        "without peer-to-peer and shared memory, all traffic goes through the loopback network",
        "Leave one of the two on.",
    ),
    JointRule(
        "nccl_ll128_on_pcie", ("NCCL_PROTO",), _ll128_on_pcie,
        "LL128 that is forced over PCIe can corrupt data, as NVIDIA warns",
        "Use LL, Simple, LL,Simple or ^LL128.",
    ),
    JointRule(
        "nccl_threads", ("NCCL_NTHREADS",), _odd_threads,
        "NCCL replaces a number of threads that is no multiple of 32 from 64 to 512",
        "Use 64, 128, 256 or 512.",
    ),
    JointRule(
        "nccl_algorithm_usable", ("NCCL_ALGO",), _no_usable_algorithm,
        "in one node without NVSwitch only Ring and Tree can reduce",
        "Use Ring or Tree.",
    ),
    JointRule(
        "nccl_algorithm_deterministic", ("enable_deterministic_inference", "NCCL_ALGO"),
        _algorithm_of_another,
        "deterministic inference sets NCCL_ALGO itself",
        "Leave NCCL_ALGO out.",
        first="0.5.3",
    ),
    JointRule(
        "nccl_channels_deterministic", ("enable_deterministic_inference", _LOW, _HIGH),
        _channels_of_another,
        "deterministic inference sets the number of channels itself",
        "Leave both numbers of channels out.",
        first="0.5.18",
    ),
)  # fmt: skip
