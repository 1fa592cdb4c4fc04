"""The flag table of SGLang by version: which settings exist, of which type, under which name.

Rows hold for the argument parsers of the wheels 0.5.2 to 0.5.23; `python -m infra.sglang_parsers`
compares them and writes the row of a new flag.
"""

from infra.sglang.flag import NEWEST, Choices, Flag, version_key, within
from infra.sglang.flag_choices import CHOICES
from infra.sglang.neutral import NEUTRAL, spelled
from infra.sglang.variables import ENVIRONMENT

__all__ = ["ENVIRONMENT", "FLAGS", "NEUTRAL", "NEWEST", "Flag", "spelled", "version_key", "within"]

_ALGORITHMS = Choices.of(
    "EAGLE EAGLE3 NEXTN STANDALONE",
    later={"0.5.3": "NGRAM", "0.5.11": "DFLASH", "0.5.16": "DSPARK", "0.5.20": "UNO"},
)
"""From 0.5.12 on, the parser takes any name and the start fails later on a wrong one."""
_GRAPH_BACKENDS = Choices.of(
    "full breakable tc_piecewise disabled", gone={"0.5.21": "tc_piecewise"}
)

FLAGS: dict[str, Flag] = {
    # speculation
    "speculative_algorithm": Flag(str, choices=_ALGORITHMS),
    "speculative_draft_model_path": Flag(str),
    "speculative_draft_model_revision": Flag(str),
    "speculative_draft_load_format": Flag(
        str, choices=CHOICES["speculative_draft_load_format"], first="0.5.4"
    ),
    "speculative_num_steps": Flag(int, low=0),
    "speculative_eagle_topk": Flag(int, low=1),
    "speculative_num_draft_tokens": Flag(int, low=1),
    "speculative_accept_threshold_single": Flag(float, 1.0, low=0),
    "speculative_accept_threshold_acc": Flag(float, 1.0, low=0),
    "speculative_token_map": Flag(str),
    "speculative_attention_mode": Flag(
        str, "prefill", choices=CHOICES["speculative_attention_mode"]
    ),
    "enable_beta_spec": Flag(bool, False, first="0.5.4", last="0.5.4"),
    "speculative_moe_runner_backend": Flag(
        str, choices=CHOICES["speculative_moe_runner_backend"], first="0.5.5"
    ),
    "speculative_moe_a2a_backend": Flag(
        str, choices=CHOICES["speculative_moe_a2a_backend"], first="0.5.6.post2"
    ),
    "speculative_draft_attention_backend": Flag(str, first="0.5.7"),
    "speculative_draft_model_quantization": Flag(
        str, choices=CHOICES["speculative_draft_model_quantization"], first="0.5.7"
    ),
    "enable_multi_layer_eagle": Flag(bool, False, first="0.5.7"),
    "speculative_adaptive": Flag(bool, False, first="0.5.11"),
    "speculative_adaptive_config": Flag(str, first="0.5.11"),
    "speculative_skip_dp_mlp_sync": Flag(bool, False, first="0.5.11", last="0.5.22"),
    "speculative_dflash_block_size": Flag(int, first="0.5.11", low=1),
    "speculative_dflash_draft_window_size": Flag(
        int, first="0.5.11", last="0.5.19", low=1, alias=("0.5.12", "speculative_draft_window_size")
    ),
    "speculative_draft_window_size": Flag(int, first="0.5.12", low=1),
    "speculative_use_rejection_sampling": Flag(bool, False, first="0.5.14"),
    "speculative_dspark_block_size": Flag(int, first="0.5.16", low=1),
    "speculative_dspark_sps_table_path": Flag(str, first="0.5.16"),
    "speculative_dspark_confidence_sts_path": Flag(str, first="0.5.16"),
    "speculative_dspark_align_verify_tokens_to_graph_tier": Flag(bool, False, first="0.5.16"),
    "speculative_draft_kv_cache_dtype": Flag(
        str, choices=CHOICES["speculative_draft_kv_cache_dtype"], first="0.5.18"
    ),
    "speculative_dsa_topk_backend": Flag(
        str, "sgl-kernel", choices=CHOICES["speculative_dsa_topk_backend"], first="0.5.19"
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
    "speculative_ngram_match_type": Flag(
        str, "BFS", choices=CHOICES["speculative_ngram_match_type"], first="0.5.3"
    ),
    "speculative_ngram_capacity": Flag(int, 10_000_000, first="0.5.3", low=1),
    "speculative_ngram_external_corpus_path": Flag(str, first="0.5.11"),
    "speculative_ngram_external_sam_budget": Flag(int, 0, first="0.5.11", low=0),
    "speculative_ngram_external_corpus_max_tokens": Flag(int, 10_000_000, first="0.5.11", low=1),
    "speculative_enable_w4a4_mxfp4_megamoe": Flag(bool, first="0.5.22"),
    # communication and layout
    "disable_custom_all_reduce": Flag(bool, False),
    "enable_mscclpp": Flag(bool, False),
    "enable_nccl_nvls": Flag(bool, False),
    "enable_symm_mem": Flag(bool, False),
    "enable_torch_symm_mem": Flag(bool, False, first="0.5.3"),
    "enable_p2p_check": Flag(bool, False),
    "enable_flashinfer_allreduce_fusion": Flag(bool, False),
    "flashinfer_allreduce_fusion_backend": Flag(
        str, choices=CHOICES["flashinfer_allreduce_fusion_backend"], first="0.5.14"
    ),
    "enforce_disable_flashinfer_allreduce_fusion": Flag(bool, False, first="0.5.10"),
    "enable_aiter_allreduce_fusion": Flag(bool, False, first="0.5.10"),
    "enable_fused_moe_sum_all_reduce": Flag(bool, False, first="0.5.10"),
    "boundary_reduction": Flag(str, "auto", choices=CHOICES["boundary_reduction"], first="0.5.21"),
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
    "dcp_comm_backend": Flag(
        str,
        "ag_rs",
        choices=CHOICES["dcp_comm_backend"],
        first="0.5.17",
        defaults=(("0.5.20", None),),
    ),
    "load_balance_method": Flag(
        str, "round_robin", choices=CHOICES["load_balance_method"], defaults=(("0.5.8", "auto"),)
    ),
    "moe_a2a_backend": Flag(str, "none", choices=CHOICES["moe_a2a_backend"]),
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
    "numa_node": Flag(int, low=0, many=True),
    "moe_runner_backend": Flag(str, "auto", choices=CHOICES["moe_runner_backend"]),
    "deepep_mode": Flag(str, "auto", choices=CHOICES["deepep_mode"]),
    "moe_dense_tp_size": Flag(int, low=1),
    "moe_dp_size": Flag(int, 1, first="0.5.9", low=1),
    "dcp_size": Flag(int, 1, first="0.5.15", low=1),
    "enable_prefill_cp": Flag(bool, False, first="0.5.14"),
    "cp_strategy": Flag(str, choices=CHOICES["cp_strategy"], first="0.5.14"),
    "enable_attn_tp_input_scattered": Flag(bool, False, first="0.5.6.post2"),
    "disable_attn_tp_gather": Flag(bool, False, first="0.5.13"),
    "enable_dp_attention_local_control_broadcast": Flag(bool, False, first="0.5.11"),
    "disable_aiter_allreduce_fusion_in_prefill": Flag(bool, False, first="0.5.21"),
    "disable_aiter_allreduce_fusion_in_decode": Flag(bool, False, first="0.5.21"),
    "enable_tp_lm_head_all_to_all": Flag(bool, False, first="0.5.18"),
    "enable_layernorm_sp": Flag(bool, False, first="0.5.19"),
    "enable_eplb": Flag(bool, False),
    "ep_num_redundant_experts": Flag(int, 0, low=0),
    "pp_async_batch_depth": Flag(int, 0, first="0.5.7", low=0),
    # memory and scheduling
    "mem_fraction_static": Flag(float, low=0),
    "max_running_requests": Flag(int, low=1),
    "max_queued_requests": Flag(int, 2**63 - 1, low=0, defaults=(("0.5.3", None),)),
    "max_total_tokens": Flag(int, low=1),
    "chunked_prefill_size": Flag(int),
    "max_prefill_tokens": Flag(int, 16384, low=1),
    "page_size": Flag(int, low=1),
    "schedule_policy": Flag(str, "fcfs", choices=CHOICES["schedule_policy"]),
    "schedule_conservativeness": Flag(float, 1.0, low=0),
    "disable_radix_cache": Flag(bool, False),
    "disable_overlap_schedule": Flag(bool, False),
    "enable_mixed_chunk": Flag(bool, False),
    "num_continuous_decode_steps": Flag(int, 1, low=1),
    "scheduler_recv_interval": Flag(int, 1, low=1),
    "stream_interval": Flag(int, 1, low=1),
    "prefill_max_requests": Flag(int, first="0.5.7", low=1),
    "min_free_slots_delay": Flag(int, first="0.5.15", low=0),
    "retraction_policy": Flag(str, "length", choices=CHOICES["retraction_policy"], first="0.5.16"),
    "enable_hierarchical_cache": Flag(bool, False),
    "hicache_ratio": Flag(float, 2.0, defaults=(("0.5.18", None),), low=0),
    "hicache_size": Flag(int, 0, low=0),
    "hicache_write_policy": Flag(str, "write_through", choices=CHOICES["hicache_write_policy"]),
    "hicache_io_backend": Flag(str, "kernel", choices=CHOICES["hicache_io_backend"]),
    "hicache_mem_layout": Flag(
        str,
        "layer_first",
        choices=CHOICES["hicache_mem_layout"],
        defaults=(("0.5.14", "page_first"),),
    ),
    "cpu_offload_gb": Flag(int, 0, low=0),
    "enable_memory_saver": Flag(bool, False),
    "enable_kv_cache_sharding": Flag(bool, False, first="0.5.22"),
    "mamba_full_memory_ratio": Flag(float, 0.9, first="0.5.4", defaults=(("0.5.20", None),), low=0),
    "max_mamba_cache_size": Flag(int, low=1),
    "disable_hybrid_swa_memory": Flag(bool, False),
    "radix_eviction_policy": Flag(
        str, "lru", choices=CHOICES["radix_eviction_policy"], first="0.5.3"
    ),
    "disable_chunked_prefix_cache": Flag(bool, False),
    "enable_page_major_kv_layout": Flag(bool, False, first="0.5.15"),
    "enable_unified_memory": Flag(bool, False, first="0.5.15"),
    "enable_priority_scheduling": Flag(bool, False, first="0.5.3"),
    "schedule_low_priority_values_first": Flag(bool, False, first="0.5.3"),
    "priority_scheduling_preemption_threshold": Flag(int, 10, first="0.5.3"),
    "enable_dynamic_chunking": Flag(bool, False, first="0.5.7"),
    "enable_prefill_delayer": Flag(bool, False, first="0.5.8"),
    "prefill_delayer_max_delay_passes": Flag(int, 30, first="0.5.8", low=1),
    "prefill_delayer_token_usage_low_watermark": Flag(float, first="0.5.8", low=0),
    "prefill_decode_interval": Flag(int, 0, first="0.5.19", defaults=(("0.5.20", None),), low=0),
    "prefill_decode_interval_min_bs": Flag(int, 0, first="0.5.23", low=0),
    "sleep_on_idle": Flag(bool, False),
    "enable_dynamic_batch_tokenizer": Flag(bool, False, first="0.5.3"),
    "dynamic_batch_tokenizer_batch_size": Flag(int, 32, first="0.5.3", low=1),
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
    "cuda_graph_backend_decode": Flag(str, choices=_GRAPH_BACKENDS, first="0.5.14"),
    "cuda_graph_backend_prefill": Flag(str, choices=_GRAPH_BACKENDS, first="0.5.14"),
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
        int,
        4096,
        first="0.5.4",
        last="0.5.19",
        low=1,
        defaults=(("0.5.7", None),),
        alias=("0.5.14", "cuda_graph_max_bs_prefill"),
    ),
    "enable_breakable_cuda_graph": Flag(bool, False, first="0.5.11", last="0.5.19"),
    "enable_torch_compile": Flag(bool, False),
    "torch_compile_max_bs": Flag(int, 32, low=1),
    "disable_flashinfer_autotune": Flag(bool, False, first="0.5.7"),
    "enable_deterministic_inference": Flag(bool, False, first="0.5.3"),
    "piecewise_cuda_graph_compiler": Flag(
        str,
        "eager",
        choices=CHOICES["piecewise_cuda_graph_compiler"],
        first="0.5.4",
        last="0.5.19",
        defaults=(("0.5.14", None),),
        alias=("0.5.14", "cuda_graph_tc_compiler"),
    ),
    "cuda_graph_tc_compiler": Flag(
        str, choices=CHOICES["cuda_graph_tc_compiler"], first="0.5.14", last="0.5.21"
    ),
    "cuda_graph_max_seq_len_prefill": Flag(int, first="0.5.21", low=1),
    "cuda_graph_prefill_max_context": Flag(int, first="0.5.21", low=1),
    # model and kernels
    "model_path": Flag(str),
    "tokenizer_path": Flag(str),
    "served_model_name": Flag(str),
    "context_length": Flag(int, low=1),
    "dtype": Flag(str, "auto", choices=CHOICES["dtype"]),
    "quantization": Flag(str, choices=CHOICES["quantization"]),
    "kv_cache_dtype": Flag(str, "auto", choices=CHOICES["kv_cache_dtype"]),
    "load_format": Flag(str, "auto", choices=CHOICES["load_format"]),
    "random_seed": Flag(int),
    "trust_remote_code": Flag(bool, False),
    "json_model_override_args": Flag(str, "{}"),
    "device": Flag(str),
    "attention_backend": Flag(str, choices=CHOICES["attention_backend"]),
    "prefill_attention_backend": Flag(str, choices=CHOICES["attention_backend"]),
    "decode_attention_backend": Flag(str, choices=CHOICES["attention_backend"]),
    "sampling_backend": Flag(str, choices=CHOICES["sampling_backend"]),
    "grammar_backend": Flag(str, choices=CHOICES["grammar_backend"]),
    "enable_tf32_matmul": Flag(bool, False, first="0.5.15"),
    "triton_attention_num_kv_splits": Flag(int, 8, low=1),
    "triton_attention_split_tile_size": Flag(int, first="0.5.3", low=1),
    "triton_attention_reduce_in_fp32": Flag(bool, False),
    "bf16_gemm_backend": Flag(str, "auto", choices=CHOICES["bf16_gemm_backend"], first="0.5.15"),
    "flashinfer_mla_disable_ragged": Flag(bool, False),
    "disable_shared_experts_fusion": Flag(bool, False),
    "enforce_shared_experts_fusion": Flag(bool, False, first="0.5.11"),
    "linear_attn_backend": Flag(
        str, "triton", choices=CHOICES["linear_attn_backend"], first="0.5.10"
    ),
    "linear_attn_decode_backend": Flag(str, choices=CHOICES["linear_attn_backend"], first="0.5.10"),
    "linear_attn_prefill_backend": Flag(
        str, choices=CHOICES["linear_attn_backend"], first="0.5.10"
    ),
    "mamba_backend": Flag(str, "triton", choices=CHOICES["mamba_backend"], first="0.5.9"),
    "dsa_prefill_backend": Flag(str, choices=CHOICES["dsa_prefill_backend"], first="0.5.13"),
    "dsa_decode_backend": Flag(str, choices=CHOICES["dsa_decode_backend"], first="0.5.13"),
    "revision": Flag(str),
    "tokenizer_mode": Flag(str, "auto", choices=CHOICES["tokenizer_mode"]),
    "chat_template": Flag(str),
    "download_dir": Flag(str),
    "model_loader_extra_config": Flag(str, "{}"),
    "weight_loader_disable_mmap": Flag(bool, False),
    "weight_loader_prefetch_checkpoints": Flag(bool, False, first="0.5.11"),
    "weight_loader_prefetch_num_threads": Flag(int, 4, first="0.5.11", low=1),
    "startup_weight_load_mode": Flag(
        str, "serial", choices=CHOICES["startup_weight_load_mode"], first="0.5.18"
    ),
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
    "reasoning_parser": Flag(str, choices=CHOICES["reasoning_parser"]),
    "tool_call_parser": Flag(str, choices=CHOICES["tool_call_parser"]),
    "log_level_http": Flag(str),
    "log_requests": Flag(bool, False),
    "enable_request_time_stats_logging": Flag(bool, False),
}
"""Argument name, as SGLang's own `ServerArgs` spells it, to what is known of it."""
