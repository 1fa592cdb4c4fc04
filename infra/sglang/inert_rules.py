"""Which settings cannot matter beside others, or on a machine, as a table.

Sources: SGLang 0.5.2 to 0.5.23 (srt/server_args.py, srt/arg_groups/speculative_hook.py,
srt/entrypoints/engine.py, srt/distributed/device_communicators); NVIDIA's NCCL documentation. Only
what is certain stands here: a rule speaks of a machine only where the machine was described.
"""

from dataclasses import dataclass

from infra.machine import Interconnect
from infra.sglang.configuration import Configuration
from infra.sglang.flag import within
from infra.sglang.joint_rule import Test
from infra.sglang.variables import READ_IN
from sweeps.values import Value

_CUSTOM_SIZES = (2, 4, 6, 8)
_IPC_SIZES = (2, 4, 8)
_OWN_TREE_PATHS = ("triton", "flashinfer")
"""Attention backends whose verify reads the tree mask of n-gram drafts, and not the topk."""


@dataclass(frozen=True, slots=True)
class InertRule:
    """Settings that have no effect where `applies` holds, in the versions that the rule is of."""

    settings: tuple[str, ...]
    """Names as SGLang spells them; a final * stands for any end."""
    reason: str
    applies: Test
    reads: tuple[str, ...] = ()
    """What `applies` looks at, beside the machine."""
    values: tuple[Value, ...] = ()
    """Only these values are without effect; empty for all."""
    becomes: int | None = None
    """The value that stands for all of them; None for what the server has unasked."""
    first: str = "0.5.2"
    last: str | None = None
    partly: bool = False
    """Something of the setting still binds, as the reason says: it is told, never collapsed."""


def _always(c: Configuration) -> bool:
    return True


def _unread(name: str) -> Test:
    return lambda c: not within(c.version, *READ_IN[name])


def _off(switch: str) -> Test:
    return lambda c: not c.on(switch)


# speculation


def _plain(c: Configuration) -> bool:
    return not c.algorithm


def _drafts_from(algorithm: str) -> Test:
    return lambda c: c.algorithm == algorithm


def _ngram(holds: Test) -> Test:
    return lambda c: c.algorithm == "NGRAM" and holds(c)


def _by_recency(c: Configuration) -> bool:
    return c.text("speculative_ngram_match_type") == "BFS" or not c.since("0.5.10")


def _ignores_topk(c: Configuration) -> bool:
    """Tell whether verify is the same for any topk: on CUDA, FlashAttention alone has two ways."""
    names = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
    named = [c.text(name) for name in names if c.given(name) is not None]
    if named:
        return all(name in _OWN_TREE_PATHS for name in named)
    capability = c.machine.capability if c.machine else None
    return capability is not None and capability[0] != 9  # Hopper takes fa3 unasked


def _narrow(c: Configuration) -> bool:
    low = c.whole("speculative_ngram_min_bfs_breadth", 1)
    return low == 1 and _by_recency(c) and _ignores_topk(c)


def _one_draft(c: Configuration) -> bool:
    return c.draft_tokens == 2 and _ignores_topk(c)


def _eagle_chain(c: Configuration) -> bool:
    chain = c.given("speculative_eagle_topk") == 1
    known = c.given("speculative_num_steps") is not None
    return c.algorithm in ("EAGLE", "EAGLE3", "STANDALONE") and chain and known


_BREADTH = "speculative_ngram_max_bfs_breadth"
_BACKENDS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
_ALGORITHM = ("speculative_algorithm",)
_SHAPE = (
    *_ALGORITHM, *_BACKENDS, "speculative_ngram_min_bfs_breadth", "speculative_ngram_match_type",
)  # fmt: skip

SPECULATION_ROWS = (
    InertRule(
        (
            "speculative_num_*", "speculative_eagle_*", "speculative_accept_*",
            "speculative_draft_*", "speculative_ngram_*", "speculative_use_*",
            "speculative_adaptive*", "speculative_dflash_*", "speculative_dspark_*",
        ),
        "nothing is drafted", _plain, _ALGORITHM,
    ),
    InertRule(
        ("speculative_ngram_*",), "only NGRAM drafts from n-grams",
        lambda c: c.algorithm not in ("", "NGRAM"), _ALGORITHM,
    ),
    InertRule(
        ("speculative_eagle_topk",), "NGRAM overwrites it with its breadth",
        _drafts_from("NGRAM"), _ALGORITHM,
    ),
    InertRule(
        ("speculative_eagle_topk", "speculative_num_steps"), "DFLASH sets it to 1",
        _drafts_from("DFLASH"), _ALGORITHM,
    ),
    InertRule(
        ("speculative_num_draft_tokens",), "with topk 1 SGLang verifies num_steps + 1 draft tokens",
        _eagle_chain, (*_ALGORITHM, "speculative_eagle_topk", "speculative_num_steps"),
    ),
    InertRule(
        (_BREADTH,), "a breadth below 2 is taken as 1, and that of the largest breadth 2 always is",
        _ngram(_narrow), _SHAPE, values=(2,), becomes=1,
    ),
    InertRule(
        (_BREADTH, "speculative_ngram_min_bfs_breadth"),
        "of 2 draft tokens one is the root, and one draft leaves no room for breadth",
        _ngram(_one_draft),
        (*_SHAPE, "speculative_num_draft_tokens", "speculative_ngram_max_match_window_size"),
        becomes=1,
    ),
    InertRule(
        ("speculative_ngram_match_type",), "SGLang does not hand it to the trie before 0.5.10",
        _drafts_from("NGRAM"), _ALGORITHM, last="0.5.9",
    ),
    InertRule(
        ("speculative_ngram_min_bfs_breadth",), "match type PROB has one breadth only",
        _ngram(lambda c: c.text("speculative_ngram_match_type") == "PROB"),
        (*_ALGORITHM, "speculative_ngram_match_type"), first="0.5.10",
    ),
    InertRule(
        ("speculative_adaptive*",), "NGRAM does not adapt: SGLang switches it off",
        _drafts_from("NGRAM"), _ALGORITHM, first="0.5.23",
    ),
    InertRule(
        ("enable_mixed_chunk",), "NGRAM switches it off", _drafts_from("NGRAM"), _ALGORITHM,
    ),
    InertRule(
        ("disable_overlap_schedule",), "NGRAM switches the overlap schedule off before 0.5.14",
        _drafts_from("NGRAM"), _ALGORITHM, last="0.5.13",
    ),
)  # fmt: skip


# communication


def _one_rank(c: Configuration) -> bool:
    return c.ranks == 1 and c.whole("dp_size", 1) == 1 and c.whole("nnodes", 1) == 1


def _tp(c: Configuration) -> int:
    return c.whole("tp_size", 1)


def _custom_cannot_run(c: Configuration) -> bool:
    over_pcie = c.interconnect is Interconnect.PCIE and _tp(c) > 2
    return over_pcie or _tp(c) not in _CUSTOM_SIZES or _deterministic(c)


def _deterministic(c: Configuration) -> bool:
    return c.since("0.5.3") and c.on("enable_deterministic_inference") and _tp(c) > 1


def _no_nvswitch(c: Configuration) -> bool:
    return c.interconnect in (Interconnect.PCIE, Interconnect.NVLINK)


def _inside_one_node(c: Configuration) -> bool:
    loopback = c.on("NCCL_P2P_DISABLE") and c.on("NCCL_SHM_DISABLE")
    return c.whole("nnodes", 1) == 1 and not loopback


def _no_multicast(c: Configuration) -> bool:
    capability = c.machine.capability if c.machine else None
    old = capability is not None and capability[0] not in (9, 10)
    return old or c.interconnect is Interconnect.PCIE


def _ipc_off(c: Configuration) -> bool:
    return not c.on("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE")


def _ipc_cannot_run(c: Configuration) -> bool:
    return _tp(c) not in _IPC_SIZES or _deterministic(c)


def _mscclpp_cannot_run(sizes: tuple[int, ...]) -> Test:
    return lambda c: _tp(c) not in sizes


_TP = ("tp_size",)
_DETERMINISTIC = ("enable_deterministic_inference", "tp_size")

COMMUNICATION_ROWS = (
    InertRule(
        ("NCCL_*",), "one rank has nobody to talk to", _one_rank,
        ("tp_size", "pp_size", "dp_size", "nnodes"),
    ),
    InertRule(
        (
            "disable_custom_all_reduce", "enable_p2p_check", "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2",
        ),
        "SGLang's custom all-reduce does not run here: it needs 2, 4, 6 or 8 ranks, NVLink between "
        "all of them above two, and no deterministic inference",
        _custom_cannot_run, _DETERMINISTIC,
    ),
    InertRule(
        ("enable_p2p_check",), "it guards the custom all-reduce alone, which is off",
        lambda c: c.on("disable_custom_all_reduce"), ("disable_custom_all_reduce",),
    ),
    InertRule(
        ("enable_mscclpp",), "MSCCL++ runs on 8 or 16 ranks", _mscclpp_cannot_run((8, 16)), _TP,
        last="0.5.20",
    ),
    InertRule(
        ("enable_mscclpp",), "MSCCL++ runs on 4, 8, 16, 32 or 64 ranks",
        _mscclpp_cannot_run((4, 8, 16, 32, 64)), _TP, first="0.5.21",
    ),
    InertRule(
        ("enable_torch_symm_mem",),
        "symmetric memory of torch needs multicast and compute capability 9 or 10", _no_multicast,
        first="0.5.3",
    ),
    InertRule(
        ("NCCL_NVLS_ENABLE", "enable_nccl_nvls"), "NVLS reduces inside an NVSwitch: there is none",
        _no_nvswitch,
    ),
    InertRule(
        ("NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE"), "SGLang overwrites it before 0.5.5", _always,
        last="0.5.4",
    ),
    InertRule(
        ("NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE"), "enable_symm_mem overwrites it",
        lambda c: c.on("enable_symm_mem"), ("enable_symm_mem",), first="0.5.5",
    ),
    InertRule(
        ("NCCL_NVLS_ENABLE",), "enable_nccl_nvls overwrites it",
        lambda c: c.on("enable_nccl_nvls"), ("enable_nccl_nvls",), first="0.5.5",
    ),
    InertRule(
        ("NCCL_NET_GDR_LEVEL", "NCCL_IB_DISABLE"), "inside one node no network card is used",
        _inside_one_node, ("nnodes", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"),
    ),
    InertRule(
        ("NCCL_P2P_LEVEL",), "NCCL_P2P_DISABLE wins over the level",
        lambda c: c.on("NCCL_P2P_DISABLE"), ("NCCL_P2P_DISABLE",),
    ),
    InertRule(
        ("NCCL_ALGO",), "deterministic inference overwrites it", _deterministic, _DETERMINISTIC,
        first="0.5.3",
    ),
    InertRule(
        ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"), "deterministic inference overwrites it",
        _deterministic, _DETERMINISTIC, first="0.5.18",
    ),
    InertRule(
        ("SGLANG_DETERMINISTIC_NCCL_NCHANNELS",), "only deterministic inference reads it",
        lambda c: not _deterministic(c), _DETERMINISTIC,
    ),
    InertRule(
        ("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE",),
        "the PCIe-IPC all-reduce needs 2, 4 or 8 ranks and no deterministic inference",
        _ipc_cannot_run, _DETERMINISTIC, first="0.5.21",
    ),
    InertRule(
        ("SGLANG_PCIE_IPC_MAX_NUMEL",), "the PCIe-IPC all-reduce is off", _ipc_off,
        ("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE",), first="0.5.21",
    ),
    InertRule(
        ("SGLANG_SYMM_MEM_PREALLOC_GB_SIZE",), "symmetric memory is off", _off("enable_symm_mem"),
        ("enable_symm_mem",),
    ),
    InertRule(
        ("CUDA_DEVICE_MAX_CONNECTIONS",), "SGLang overwrites it", _always,
    ),
    InertRule(
        ("NCCL_*",),
        "the PCIe-IPC all-reduce takes the messages of decode and verify; NCCL keeps those of "
        "prefill, other collectives and what is no bfloat16",
        lambda c: not _ipc_off(c) and not _ipc_cannot_run(c),
        ("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", *_DETERMINISTIC), first="0.5.21", partly=True,
    ),
    *(
        InertRule((name,), "this version does not read it", _unread(name))
        for name in READ_IN
    ),
)  # fmt: skip


# switches that others hang on

_HANGS_ON = (
    ("hicache_*", "enable_hierarchical_cache", "there is no hierarchical cache"),
    ("prefill_delayer_*", "enable_prefill_delayer", "prefill is not delayed"),
    (
        "priority_scheduling_preemption_threshold", "enable_priority_scheduling",
        "requests have no priorities",
    ),
    (
        "schedule_low_priority_values_first", "enable_priority_scheduling",
        "requests have no priorities",
    ),
    (
        "tbo_token_distribution_threshold", "enable_two_batch_overlap",
        "batches do not overlap by two",
    ),
    ("torch_compile_max_bs", "enable_torch_compile", "nothing is compiled"),
    (
        "weight_loader_prefetch_num_threads", "weight_loader_prefetch_checkpoints",
        "nothing is fetched ahead",
    ),
    (
        "dynamic_batch_tokenizer_batch_size", "enable_dynamic_batch_tokenizer",
        "prompts are tokenized one by one",
    ),
)  # fmt: skip

SERVER_ROWS = (
    InertRule(
        ("num_continuous_decode_steps",), "SGLang takes it and never reads it", _always,
    ),
    InertRule(
        ("schedule_policy",), "without a radix cache these policies become fcfs",
        lambda c: c.on("disable_radix_cache"), ("disable_radix_cache",),
        values=("lpm", "dfs-weight"),
    ),
    *(
        InertRule((name,), reason, _off(switch), (switch,)) for name, switch, reason in _HANGS_ON
    ),
)  # fmt: skip

INERT_RULES: tuple[InertRule, ...] = (*SPECULATION_ROWS, *COMMUNICATION_ROWS, *SERVER_ROWS)
