"""The flag table of SGLang by version: which settings exist, of which type, under which name.

Rows are read from the argument definitions of the published wheels 0.5.2 to 0.5.23.
"""

from dataclasses import dataclass

from sweeps.values import Value

NEWEST = "0.5.23"

_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "UNO")
_POLICIES = ("lpm", "random", "fcfs", "dfs-weight", "lof")
_BACKENDS = (
    "triton", "torch_native", "cutlass_mla", "fa3", "flashinfer", "flashmla", "trtllm_mla",
    "trtllm_mha", "dual_chunk_flash_attn", "aiter", "wave", "intel_amx", "ascend",
)  # fmt: skip
_LATER_BACKENDS = (
    ("fa4", "0.5.3"), ("flex_attention", "0.5.3"), ("nsa", "0.5.3"), ("intel_xpu", "0.5.4"),
    ("compressed", "0.5.12"), ("dsv4", "0.5.12"), ("tokenspeed_mla", "0.5.12"),
    ("cutedsl_mla", "0.5.13"), ("dsa", "0.5.13"), ("hpc_ops", "0.5.17"), ("qsa", "0.5.20"),
)  # fmt: skip
_P2P_LEVELS = ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS")


@dataclass(frozen=True, slots=True)
class Flag:
    """One setting. `kind` bool is a flag without a value; `last` None: it is still there."""

    kind: type
    default: Value = None
    choices: tuple[str, ...] = ()
    first: str = "0.5.2"
    last: str | None = None
    low: float | None = None
    later: tuple[tuple[str, str], ...] = ()
    """Choices that came after the flag, each with its first version."""
    many: bool = False
    """It takes several values in a row."""
    defaults: tuple[tuple[str, Value], ...] = ()
    """Defaults that replaced the first one, each with its first version, oldest first."""
    alias: tuple[str, str] | None = None
    """From a version on, a deprecated spelling of another flag: version and name."""

    def exists_in(self, version: str) -> bool:
        """Tell whether a version knows the flag."""
        at = version_key(version)
        return version_key(self.first) <= at and (self.last is None or at <= version_key(self.last))

    def choices_in(self, version: str) -> tuple[str, ...]:
        """Return what a version accepts; empty where any value is."""
        at = version_key(version)
        return (*self.choices, *(c for c, first in self.later if version_key(first) <= at))

    def default_in(self, version: str) -> Value:
        """Return a version's default."""
        at = version_key(version)
        fitting = [value for first, value in self.defaults if version_key(first) <= at]
        return fitting[-1] if fitting else self.default

    def stands_for(self, version: str) -> str:
        """Return the flag that this one is only a spelling of in a version; empty for itself."""
        if self.alias and version_key(version) >= version_key(self.alias[0]):
            return self.alias[1]
        return ""


def _backend(first: str = "0.5.2") -> Flag:
    return Flag(str, choices=_BACKENDS, later=_LATER_BACKENDS, first=first)


FLAGS: dict[str, Flag] = {
    # speculation
    "speculative_algorithm": Flag(
        str,
        choices=_ALGORITHMS[:4],
        later=(("NGRAM", "0.5.3"), ("DFLASH", "0.5.11"), ("DSPARK", "0.5.16"), ("UNO", "0.5.20")),
    ),
    "speculative_draft_model_path": Flag(str),
    "speculative_draft_model_revision": Flag(str),
    "speculative_draft_load_format": Flag(str, first="0.5.4"),
    "speculative_num_steps": Flag(int, low=0),
    "speculative_eagle_topk": Flag(int, low=1),
    "speculative_num_draft_tokens": Flag(int, low=1),
    "speculative_accept_threshold_single": Flag(float, 1.0, low=0),
    "speculative_accept_threshold_acc": Flag(float, 1.0, low=0),
    "speculative_token_map": Flag(str),
    "speculative_attention_mode": Flag(str, "prefill", ("prefill", "decode")),
    "enable_beta_spec": Flag(bool, False, first="0.5.4", last="0.5.4"),
    "speculative_moe_runner_backend": Flag(str, first="0.5.5"),
    "speculative_moe_a2a_backend": Flag(str, first="0.5.6.post2"),
    "speculative_draft_attention_backend": Flag(str, first="0.5.7"),
    "speculative_draft_model_quantization": Flag(str, first="0.5.7"),
    "enable_multi_layer_eagle": Flag(bool, False, first="0.5.7"),
    "speculative_adaptive": Flag(bool, False, first="0.5.11"),
    "speculative_adaptive_config": Flag(str, first="0.5.11"),
    "speculative_skip_dp_mlp_sync": Flag(bool, False, first="0.5.11", last="0.5.22"),
    "speculative_dflash_block_size": Flag(int, first="0.5.11", low=1),
    "speculative_dflash_draft_window_size": Flag(int, first="0.5.11", last="0.5.19", low=1),
    "speculative_draft_window_size": Flag(int, first="0.5.12", low=1),
    "speculative_use_rejection_sampling": Flag(bool, False, first="0.5.14"),
    "speculative_dspark_block_size": Flag(int, first="0.5.16", low=1),
    "speculative_dspark_sps_table_path": Flag(str, first="0.5.16"),
    "speculative_dspark_confidence_sts_path": Flag(str, first="0.5.16"),
    "speculative_dspark_align_verify_tokens_to_graph_tier": Flag(bool, False, first="0.5.16"),
    "speculative_draft_kv_cache_dtype": Flag(
        str,
        choices=("auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16"),
        first="0.5.18",
    ),
    "speculative_dsa_topk_backend": Flag(
        str, "sgl-kernel", ("sgl-kernel", "torch", "flashinfer"), first="0.5.19"
    ),
    "speculative_domino_candidate_pool_size": Flag(int, 2048, first="0.5.20", low=0),
    "uno_lora_path": Flag(str, first="0.5.20"),
    "speculative_draft_sink_size": Flag(int, first="0.5.21", low=0),
    "speculative_use_block_verification": Flag(bool, False, first="0.5.22"),
    "speculative_ngram_min_match_window_size": Flag(int, 1, first="0.5.3", last="0.5.9", low=1),
    "speculative_ngram_max_match_window_size": Flag(int, 12, first="0.5.3", last="0.5.9", low=1),
    "speculative_ngram_branch_length": Flag(int, 18, first="0.5.3", last="0.5.9", low=2),
    "speculative_ngram_max_trie_depth": Flag(int, 18, first="0.5.10", low=2),
    "speculative_ngram_min_bfs_breadth": Flag(int, 1, first="0.5.3", low=1),
    "speculative_ngram_max_bfs_breadth": Flag(int, 10, first="0.5.3", low=1),
    "speculative_ngram_match_type": Flag(str, "BFS", ("BFS", "PROB"), first="0.5.3"),
    "speculative_ngram_capacity": Flag(int, 10_000_000, first="0.5.3", low=1),
    "speculative_ngram_external_corpus_path": Flag(str, first="0.5.11"),
    "speculative_ngram_external_sam_budget": Flag(int, 0, first="0.5.11", low=0),
    "speculative_ngram_external_corpus_max_tokens": Flag(int, 10_000_000, first="0.5.11", low=1),
    # communication and layout
    "disable_custom_all_reduce": Flag(bool, False),
    "enable_mscclpp": Flag(bool, False),
    "enable_nccl_nvls": Flag(bool, False),
    "enable_symm_mem": Flag(bool, False),
    "enable_torch_symm_mem": Flag(bool, False, first="0.5.3"),
    "enable_p2p_check": Flag(bool, False),
    "enable_flashinfer_allreduce_fusion": Flag(bool, False),
    "flashinfer_allreduce_fusion_backend": Flag(
        str, choices=("auto", "trtllm", "mnnvl"), later=(("cutedsl", "0.5.21"),), first="0.5.14"
    ),
    "enforce_disable_flashinfer_allreduce_fusion": Flag(bool, False, first="0.5.10"),
    "enable_aiter_allreduce_fusion": Flag(bool, False, first="0.5.10"),
    "enable_fused_moe_sum_all_reduce": Flag(bool, False, first="0.5.10"),
    "boundary_reduction": Flag(str, "auto", ("auto", "ar", "rs", "rsv", "rs+rsv"), first="0.5.21"),
    "pre_warm_nccl": Flag(bool, False, first="0.5.10"),
    "enable_quant_communications": Flag(bool, False, first="0.5.11"),
    "tp_size": Flag(int, 1, low=1),
    "pp_size": Flag(int, 1, low=1),
    "dp_size": Flag(int, 1, low=1),
    "ep_size": Flag(int, 1, low=1),
    "enable_dp_attention": Flag(bool, False),
    "attn_dp_size": Flag(int, 1, first="0.5.22", low=1),
    "enable_dp_lm_head": Flag(bool, False),
    "attn_cp_size": Flag(int, 1, first="0.5.9", low=1),
    "dcp_comm_backend": Flag(str, "ag_rs", first="0.5.17", defaults=(("0.5.20", None),)),
    "load_balance_method": Flag(str, "round_robin", defaults=(("0.5.8", "auto"),)),
    "moe_a2a_backend": Flag(str, "none"),
    "enable_two_batch_overlap": Flag(bool, False),
    "tbo_token_distribution_threshold": Flag(float, 0.48, low=0),
    "enable_single_batch_overlap": Flag(bool, False, first="0.5.3"),
    "nccl_port": Flag(int, low=1),
    "dist_init_addr": Flag(str),
    "dist_timeout": Flag(int, low=1),
    "nnodes": Flag(int, 1, low=1),
    "node_rank": Flag(int, 0, low=0),
    "base_gpu_id": Flag(int, 0, low=0),
    "gpu_id_step": Flag(int, 1, low=1),
    "numa_node": Flag(int, many=True, low=0),
    # memory and scheduling
    "mem_fraction_static": Flag(float, low=0),
    "max_running_requests": Flag(int, low=1),
    "max_queued_requests": Flag(int, low=0),
    "max_total_tokens": Flag(int, low=1),
    "chunked_prefill_size": Flag(int),
    "max_prefill_tokens": Flag(int, 16384, low=1),
    "page_size": Flag(int, low=1),
    "schedule_policy": Flag(
        str,
        "fcfs",
        _POLICIES,
        later=(
            ("priority", "0.5.3"),
            ("routing-key", "0.5.8"),
            ("hrrn", "0.5.20"),
            ("shortest-prefill-first", "0.5.21"),
        ),
    ),
    "schedule_conservativeness": Flag(float, 1.0, low=0),
    "disable_radix_cache": Flag(bool, False),
    "disable_overlap_schedule": Flag(bool, False),
    "enable_mixed_chunk": Flag(bool, False),
    "num_continuous_decode_steps": Flag(int, 1, low=1),
    "scheduler_recv_interval": Flag(int, 1, low=1),
    "stream_interval": Flag(int, 1, low=1),
    "prefill_max_requests": Flag(int, first="0.5.7", low=1),
    "min_free_slots_delay": Flag(int, first="0.5.15", low=0),
    "retraction_policy": Flag(str, "length", first="0.5.16"),
    # graphs and compilation
    "cuda_graph_max_bs": Flag(
        int, last="0.5.19", low=1, alias=("0.5.14", "cuda_graph_max_bs_decode")
    ),
    "cuda_graph_max_bs_decode": Flag(int, first="0.5.14", low=1),
    "cuda_graph_max_bs_prefill": Flag(int, first="0.5.14", low=1),
    "cuda_graph_bs": Flag(
        int, last="0.5.19", low=1, many=True, alias=("0.5.14", "cuda_graph_bs_decode")
    ),
    "cuda_graph_bs_decode": Flag(int, first="0.5.14", low=1, many=True),
    "cuda_graph_bs_prefill": Flag(int, first="0.5.14", low=1, many=True),
    "cuda_graph_backend_decode": Flag(
        str, choices=("full", "breakable", "tc_piecewise", "disabled"), first="0.5.14"
    ),
    "cuda_graph_backend_prefill": Flag(
        str, choices=("full", "breakable", "tc_piecewise", "disabled"), first="0.5.14"
    ),
    "cuda_graph_config": Flag(str, first="0.5.14"),
    "disable_cuda_graph": Flag(bool, False),
    "disable_decode_cuda_graph": Flag(bool, False, first="0.5.14"),
    "disable_prefill_cuda_graph": Flag(bool, False, first="0.5.14"),
    "disable_cuda_graph_padding": Flag(bool, False),
    "enable_profile_cuda_graph": Flag(bool, False),
    "enable_cudagraph_gc": Flag(bool, False),
    "debug_cuda_graph": Flag(bool, False, first="0.5.11"),
    "enable_piecewise_cuda_graph": Flag(bool, False, first="0.5.4", last="0.5.13"),
    "disable_piecewise_cuda_graph": Flag(bool, False, first="0.5.10", last="0.5.19"),
    "enforce_piecewise_cuda_graph": Flag(bool, False, first="0.5.10", last="0.5.19"),
    "piecewise_cuda_graph_max_tokens": Flag(
        int, first="0.5.4", last="0.5.19", low=1, alias=("0.5.14", "cuda_graph_max_bs_prefill")
    ),
    "enable_breakable_cuda_graph": Flag(bool, False, first="0.5.11", last="0.5.19"),
    "enable_torch_compile": Flag(bool, False),
    "torch_compile_max_bs": Flag(int, 32, low=1),
    "disable_flashinfer_autotune": Flag(bool, False, first="0.5.7"),
    "enable_deterministic_inference": Flag(bool, False, first="0.5.3"),
    # model and kernels
    "model_path": Flag(str),
    "tokenizer_path": Flag(str),
    "served_model_name": Flag(str),
    "context_length": Flag(int, low=1),
    "dtype": Flag(str, "auto"),
    "quantization": Flag(str),
    "kv_cache_dtype": Flag(str, "auto"),
    "load_format": Flag(str, "auto"),
    "random_seed": Flag(int),
    "trust_remote_code": Flag(bool, False),
    "json_model_override_args": Flag(str, "{}"),
    "device": Flag(str),
    "attention_backend": _backend(),
    "prefill_attention_backend": _backend(),
    "decode_attention_backend": _backend(),
    "sampling_backend": Flag(str),
    "grammar_backend": Flag(str),
    # serving
    "host": Flag(str, "127.0.0.1"),
    "port": Flag(int, 30000, low=1),
    "api_key": Flag(str),
    "admin_api_key": Flag(str, first="0.5.8"),
    "tokenizer_worker_num": Flag(int, 1, low=1),
    "detokenizer_worker_num": Flag(int, 1, first="0.5.12", low=1),
    "skip_server_warmup": Flag(bool, False),
    "warmups": Flag(str),
    "watchdog_timeout": Flag(float, 300, low=0),
    "soft_watchdog_timeout": Flag(float, first="0.5.7", low=0),
    "decode_log_interval": Flag(int, 40, low=1),
    "enable_metrics": Flag(bool, False),
    "enable_metrics_for_all_schedulers": Flag(bool, False),
    "enable_mfu_metrics": Flag(bool, False, first="0.5.10"),
    "enable_cache_report": Flag(bool, False),
    "stream_output": Flag(
        bool, False, last="0.5.19", alias=("0.5.10", "incremental_streaming_output")
    ),
    "incremental_streaming_output": Flag(bool, False, first="0.5.10"),
    "weight_version": Flag(str, "default"),
    "log_level": Flag(str, "info"),
    "reasoning_parser": Flag(str),
    "tool_call_parser": Flag(str),
}
"""Argument name, as SGLang's own `ServerArgs` spells it, to what is known of it."""

ENVIRONMENT: dict[str, tuple[str, ...]] = {
    "NCCL_PROTO": ("LL", "Simple", "LL,Simple", "^LL128"),
    "NCCL_ALGO": ("Ring", "Tree"),
    "NCCL_P2P_LEVEL": _P2P_LEVELS,
    "NCCL_P2P_DISABLE": ("0", "1"),
    "NCCL_SHM_DISABLE": ("0", "1"),
    "NCCL_MIN_NCHANNELS": (),
    "NCCL_MAX_NCHANNELS": (),
    "NCCL_BUFFSIZE": (),
    "NCCL_NTHREADS": ("64", "96", "128", "192", "256", "384", "512"),
    "NCCL_CUMEM_ENABLE": ("0", "1"),
    "NCCL_NVLS_ENABLE": ("0", "1", "2"),
    "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": ("0", "1"),
    "SGLANG_PCIE_IPC_MAX_NUMEL": (),
    "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2": ("0", "1"),
    "SGLANG_NCCL_SO_PATH": (),
    "SGLANG_USE_CPU_ENGINE": ("0", "1"),
    "CUDA_VISIBLE_DEVICES": (),
    "OMP_NUM_THREADS": (),
    "HF_HUB_OFFLINE": ("0", "1"),
    "TRANSFORMERS_OFFLINE": ("0", "1"),
}
"""Variable to the values worth trying on one PCIe host; empty where any value is.

LL128 is left out: NVIDIA's documentation warns of wrong data when it is forced on PCIe.
"""


@dataclass(frozen=True, slots=True)
class Spelling:
    """The flag that a neutral setting becomes, from its first to its last version."""

    first: str
    last: str | None
    flag: str


NEUTRAL: dict[str, tuple[Spelling, ...]] = {
    "ngram_match_depth": (
        Spelling("0.5.3", "0.5.9", "speculative_ngram_max_match_window_size"),
        Spelling("0.5.10", None, "speculative_ngram_max_trie_depth"),
    ),
    "decode_graph_max_batch": (
        Spelling("0.5.2", "0.5.13", "cuda_graph_max_bs"),
        Spelling("0.5.14", None, "cuda_graph_max_bs_decode"),
    ),
}
"""Names of ours for a knob that SGLang renamed."""


def version_key(version: str) -> tuple[int, ...]:
    """Order versions: `0.5.6.post2` comes after `0.5.6` and before `0.5.7`."""
    parts = version.replace("post", "").split(".")
    return tuple(int(part) for part in parts if part.isdigit())


def spelled(name: str, version: str) -> str:
    """Return the flag that a name stands for in a version: itself, unless it is neutral."""
    at = version_key(version)
    for spelling in NEUTRAL.get(name, ()):
        last = spelling.last
        if version_key(spelling.first) <= at and (last is None or at <= version_key(last)):
            return spelling.flag
    return name
