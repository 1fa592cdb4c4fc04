"""Which environment variables may be swept, over which values, and which versions read them."""

P2P_LEVELS = ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS")
_SWITCH = ("0", "1")

ENVIRONMENT: dict[str, tuple[str, ...]] = {
    "NCCL_PROTO": ("LL", "Simple", "LL,Simple", "^LL128"),
    "NCCL_ALGO": ("Ring", "Tree"),
    "NCCL_P2P_LEVEL": P2P_LEVELS,
    "NCCL_P2P_DISABLE": _SWITCH,
    "NCCL_SHM_DISABLE": _SWITCH,
    "NCCL_MIN_NCHANNELS": (),
    "NCCL_MAX_NCHANNELS": (),
    "NCCL_BUFFSIZE": (),
    "NCCL_NTHREADS": ("64", "96", "128", "192", "256", "384", "512"),
    "NCCL_CUMEM_ENABLE": _SWITCH,
    "NCCL_NVLS_ENABLE": ("0", "1", "2"),
    "NCCL_NET_GDR_LEVEL": P2P_LEVELS,
    "NCCL_IB_DISABLE": _SWITCH,
    "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": _SWITCH,
    "SGLANG_PCIE_IPC_MAX_NUMEL": (),
    "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2": _SWITCH,
    "SGLANG_ENABLE_SPEC_V2": _SWITCH,
    "SGLANG_NGRAM_FORCE_GREEDY_VERIFY": _SWITCH,
    "SGLANG_SYMM_MEM_PREALLOC_GB_SIZE": (),
    "SGLANG_SET_CPU_AFFINITY": _SWITCH,
    "SGLANG_AUTO_NUMA_BIND": _SWITCH,
    "SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH": _SWITCH,
    "SGLANG_DETERMINISTIC_NCCL_NCHANNELS": (),
    "SGLANG_NCCL_SO_PATH": (),
    "SGLANG_USE_CPU_ENGINE": _SWITCH,
    "TRTLLM_ENABLE_PDL": _SWITCH,
    "CUDA_DEVICE_MAX_CONNECTIONS": (),
    "CUDA_VISIBLE_DEVICES": (),
    "OMP_NUM_THREADS": (),
    "HF_HUB_OFFLINE": _SWITCH,
    "TRANSFORMERS_OFFLINE": _SWITCH,
}
"""Variable to the values worth trying on one PCIe host; empty where any value is.

LL128 is left out: NVIDIA's documentation warns of wrong data when it is forced on PCIe.
"""

READ_IN: dict[str, tuple[str, str | None]] = {
    "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": ("0.5.21", None),
    "SGLANG_PCIE_IPC_MAX_NUMEL": ("0.5.21", None),
    "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2": ("0.5.12", None),
    "SGLANG_ENABLE_SPEC_V2": ("0.5.5", "0.5.13"),
    "SGLANG_NGRAM_FORCE_GREEDY_VERIFY": ("0.5.6.post2", "0.5.13"),
    "SGLANG_SYMM_MEM_PREALLOC_GB_SIZE": ("0.5.9", None),
    "SGLANG_AUTO_NUMA_BIND": ("0.5.10", None),
    "SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH": ("0.5.16", None),
    "SGLANG_DETERMINISTIC_NCCL_NCHANNELS": ("0.5.18", None),
}
"""Variable to the first and the last version that reads it, where not all do."""
