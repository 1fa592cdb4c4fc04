"""Which values the flags of SGLang take, by version.

Written by `python -m infra.sglang_parsers --choices`, from the parsers of 0.5.2 to 0.5.23.
"""

from infra.sglang.flag import Choices

# fmt: off
CHOICES: dict[str, Choices] = {
    "speculative_draft_load_format": Choices.of(
        (
            "auto bitsandbytes dummy gguf layered npcache pt remote remote_instance safetensors "
            "sharded_state "
        ),
        later={
            "0.5.6.post2": "flash_rl private",
            "0.5.7": "fastsafetensors",
            "0.5.10": "mistral runai_streamer",
            "0.5.17": "presharded",
            "0.5.19": "expert_pack",
            "0.5.22": "instanttensor",
        },
    ),
    "speculative_attention_mode": Choices.of(
        "decode prefill",
    ),
    "speculative_moe_runner_backend": Choices.of(
        (
            "auto cutlass deep_gemm flashinfer_cutedsl flashinfer_cutlass flashinfer_mxfp4 "
            "flashinfer_trtllm triton triton_kernel "
        ),
        later={
            "0.5.10": "flashinfer_trtllm_routed",
            "0.5.11": "aiter",
            "0.5.12": "marlin",
            "0.5.13": "experimental_sgl_trtllm",
            "0.5.16": "experimental_sgl_marlin humming",
            "0.5.17": "hpc_ops",
            "0.5.18": "megamoe",
            "0.5.19": "intel_xpu",
            "0.5.20": "flashinfer_megamoe",
            "0.5.23": "lora_cutedsl lora_marlin lora_triton",
        },
    ),
    "speculative_moe_a2a_backend": Choices.of(
        "ascend_fuseep deepep mooncake none",
        later={
            "0.5.9": "flashinfer mori",
            "0.5.10": "nixl",
            "0.5.12": "megamoe",
            "0.5.16": "ascend_tp",
            "0.5.17": "pplx",
            "0.5.19": "deepep_v2",
        },
    ),
    "speculative_draft_model_quantization": Choices.of(
        (
            "auto-round awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq gptq_marlin "
            "marlin modelopt modelopt_fp4 modelopt_fp8 modelslim moe_wna16 mxfp4 petit_nvfp4 qoq "
            "unquant w4afp8 w8a8_fp8 w8a8_int8 "
        ),
        later={
            "0.5.8": "quark_int4fp8_moe",
            "0.5.9": "mxfp8",
            "0.5.10": "modelopt_mixed",
            "0.5.12": "mlx_q4 mlx_q8 quark",
            "0.5.13": "quark_mxfp4",
            "0.5.14": "nvfp4_online",
            "0.5.15": "auto-round-int8 mxfp_w4a8",
            "0.5.16": "humming",
        },
        gone={
            "0.5.15": "qoq",
            "0.5.19": "marlin",
        },
    ),
    "speculative_draft_kv_cache_dtype": Choices.of(
        "auto bf16 bfloat16 fp8_e4m3 fp8_e5m2",
    ),
    "speculative_dsa_topk_backend": Choices.of(
        "flashinfer sgl-kernel torch",
    ),
    "speculative_ngram_match_type": Choices.of(
        "BFS PROB",
    ),
    "flashinfer_allreduce_fusion_backend": Choices.of(
        "auto mnnvl trtllm",
        later={
            "0.5.21": "cutedsl",
        },
    ),
    "boundary_reduction": Choices.of(
        "ar auto rs rs+rsv rsv",
    ),
    "dcp_comm_backend": Choices.of(
        "a2a ag_rs fi_a2a",
    ),
    "load_balance_method": Choices.of(
        "minimum_tokens round_robin shortest_queue",
        later={
            "0.5.7": "decode_round_robin",
            "0.5.8": "auto follow_bootstrap_room total_requests total_tokens",
        },
        gone={
            "0.5.7": "decode_round_robin minimum_tokens shortest_queue",
        },
    ),
    "moe_a2a_backend": Choices.of(
        "deepep none",
        later={
            "0.5.4": "mooncake",
            "0.5.6.post2": "ascend_fuseep",
            "0.5.9": "flashinfer mori",
            "0.5.10": "nixl",
            "0.5.12": "megamoe",
            "0.5.16": "ascend_tp",
            "0.5.17": "pplx",
            "0.5.19": "deepep_v2",
            "0.5.20": "flashinfer_megamoe",
        },
    ),
    "schedule_policy": Choices.of(
        "dfs-weight fcfs lof lpm random",
        later={
            "0.5.3": "priority",
            "0.5.8": "routing-key",
            "0.5.20": "hrrn",
            "0.5.21": "shortest-prefill-first",
        },
    ),
    "retraction_policy": Choices.of(
        "length priority",
    ),
    "dtype": Choices.of(
        "auto bfloat16 float float16 float32 half",
    ),
    "quantization": Choices.of(
        (
            "awq awq_marlin bitsandbytes fp8 gguf gptq gptq_marlin marlin modelopt modelopt_fp4 "
            "moe_wna16 mxfp4 petit_nvfp4 qoq w4afp8 w8a8_fp8 w8a8_int8 "
        ),
        later={
            "0.5.4": "compressed-tensors modelopt_fp8",
            "0.5.5": "auto-round",
            "0.5.6.post2": "modelslim",
            "0.5.8": "quark_int4fp8_moe",
            "0.5.9": "mxfp8",
            "0.5.10": "modelopt_mixed",
            "0.5.11": "unquant",
            "0.5.12": "mlx_q4 mlx_q8 quark",
            "0.5.13": "quark_mxfp4",
            "0.5.14": "nvfp4_online",
            "0.5.15": "auto-round-int8 mxfp_w4a8",
            "0.5.16": "humming",
        },
        gone={
            "0.5.15": "qoq",
            "0.5.19": "marlin",
        },
    ),
    "kv_cache_dtype": Choices.of(
        "auto fp8_e4m3 fp8_e5m2",
        later={
            "0.5.4": "bf16 bfloat16",
            "0.5.5": "fp4_e2m1",
            "0.5.16": "fp4_mx_block16 mxfp8 nvfp4",
        },
        gone={
            "0.5.20": "fp4_e2m1",
        },
    ),
    "load_format": Choices.of(
        "auto bitsandbytes dummy gguf layered npcache pt remote safetensors sharded_state",
        later={
            "0.5.3": "remote_instance",
            "0.5.6.post2": "flash_rl private",
            "0.5.7": "fastsafetensors",
            "0.5.10": "mistral runai_streamer",
            "0.5.17": "presharded",
            "0.5.19": "expert_pack",
            "0.5.22": "instanttensor",
        },
    ),
    "attention_backend": Choices.of(
        (
            "aiter ascend cutlass_mla dual_chunk_flash_attn fa3 flashinfer flashmla "
            "hybrid_linear_attn intel_amx torch_native triton trtllm_mha trtllm_mla wave "
        ),
        later={
            "0.5.3": "fa4 flex_attention nsa",
            "0.5.4": "intel_xpu",
            "0.5.12": "compressed dsv4 tokenspeed_mla",
            "0.5.13": "cutedsl_mla dsa",
            "0.5.17": "hpc_ops",
            "0.5.19": "minicpm_flashattn minicpm_flashinfer",
            "0.5.20": "qsa",
            "0.5.22": "llada2_cfg_flashinfer",
        },
        gone={
            "0.5.2": "hybrid_linear_attn",
            "0.5.19": "cutlass_mla dual_chunk_flash_attn",
        },
    ),
    "sampling_backend": Choices.of(
        "flashinfer pytorch",
        later={
            "0.5.6.post2": "ascend",
            "0.5.21": "intel_xpu",
        },
    ),
    "grammar_backend": Choices.of(
        "llguidance none outlines xgrammar",
    ),
    "reasoning_parser": Choices.of(
        "deepseek-r1 deepseek-v3 glm45 gpt-oss kimi qwen3 qwen3-thinking step3",
        later={
            "0.5.5": "kimi_k2 minimax minimax-append-think",
            "0.5.7": "interns1 nano_v3",
            "0.5.9": "step3p5",
            "0.5.10": "mimo mistral nemotron_3",
            "0.5.11": "gemma4 hunyuan",
            "0.5.12": "auto deepseek-v4 poolside_v1",
            "0.5.13": "apertus2509 cohere_command4",
            "0.5.16": "inkling minimax-m3",
            "0.5.17": "kimi_k3",
            "0.5.18": "muse",
            "0.5.19": "dots ling3",
            "0.5.20": "granite_thinking_parser k2_horizon nanbeige",
            "0.5.21": "deepseek-v41 gigachat35 iquest_q1",
            "0.5.23": "beam response_template",
        },
        gone={
            "0.5.9": "nano_v3",
        },
    ),
    "tool_call_parser": Choices.of(
        (
            "deepseekv3 deepseekv31 glm45 gpt-oss kimi_k2 llama3 mistral pythonic qwen25 "
            "qwen3_coder step3 "
        ),
        later={
            "0.5.4": "glm qwen",
            "0.5.5": "minimax-m2",
            "0.5.6.post2": "deepseekv32",
            "0.5.7": "glm47 interns1 mimo",
            "0.5.8": "trinity",
            "0.5.9": "gigachat3 hermes lfm2 step3p5",
            "0.5.11": "gemma4 hunyuan",
            "0.5.12": "auto deepseekv4 poolside_v1",
            "0.5.13": "apertus2509 cohere_command4 minicpm5",
            "0.5.16": "inkling minimax-m3",
            "0.5.17": "kimi_k3",
            "0.5.18": "muse",
            "0.5.19": "dots ling3 spark25",
            "0.5.20": "k2_horizon nanbeige",
            "0.5.21": "deepseekv41 gigachat35 iquest_q1",
            "0.5.23": "beam response_template",
        },
    ),
    "moe_runner_backend": Choices.of(
        "auto flashinfer_cutlass flashinfer_mxfp4 flashinfer_trtllm triton triton_kernel",
        later={
            "0.5.3": "flashinfer_cutedsl",
            "0.5.4": "cutlass deep_gemm",
            "0.5.10": "flashinfer_trtllm_routed",
            "0.5.11": "aiter",
            "0.5.12": "marlin",
            "0.5.13": "experimental_sgl_trtllm",
            "0.5.16": "experimental_sgl_marlin humming",
            "0.5.17": "hpc_ops",
            "0.5.18": "megamoe",
            "0.5.19": "intel_xpu",
            "0.5.20": "flashinfer_megamoe",
            "0.5.23": "lora_cutedsl lora_marlin lora_triton",
        },
    ),
    "deepep_mode": Choices.of(
        "auto low_latency normal",
    ),
    "cp_strategy": Choices.of(
        "interleave zigzag",
    ),
    "hicache_write_policy": Choices.of(
        "write_back write_through write_through_selective",
    ),
    "hicache_io_backend": Choices.of(
        "direct kernel",
        later={
            "0.5.6.post2": "kernel_ascend",
        },
    ),
    "hicache_mem_layout": Choices.of(
        "layer_first page_first",
        later={
            "0.5.3": "page_first_direct",
            "0.5.6.post2": "page_first_kv_split page_head",
        },
    ),
    "radix_eviction_policy": Choices.of(
        "lfu lru",
        later={
            "0.5.10": "slru",
            "0.5.11": "priority",
            "0.5.21": "tlru",
        },
    ),
    "piecewise_cuda_graph_compiler": Choices.of(
        "eager inductor",
    ),
    "cuda_graph_tc_compiler": Choices.of(
        "eager inductor",
    ),
    "fp8_gemm_backend": Choices.of(
        "aiter auto cutlass deep_gemm flashinfer_trtllm triton",
        later={
            "0.5.9": "flashinfer_deepgemm",
            "0.5.10": "flashinfer_cutlass",
            "0.5.18": "flashinfer_cutedsl",
        },
    ),
    "fp4_gemm_backend": Choices.of(
        "auto flashinfer_cudnn flashinfer_cutlass flashinfer_trtllm",
        later={
            "0.5.10": "cutlass",
            "0.5.12": "flashinfer_cutedsl",
            "0.5.13": "marlin",
        },
        gone={
            "0.5.15": "cutlass",
        },
    ),
    "bf16_gemm_backend": Choices.of(
        "auto cutedsl",
        later={
            "0.5.17": "torch",
            "0.5.19": "flashinfer_pr4266 gemv",
        },
        gone={
            "0.5.19": "flashinfer_pr4266",
        },
    ),
    "linear_attn_backend": Choices.of(
        "cutedsl flashinfer triton",
        later={
            "0.5.15": "flashkda",
            "0.5.17": "nvidia_kda ptx_kda",
            "0.5.18": "helion",
            "0.5.19": "intel_xpu",
        },
    ),
    "mamba_backend": Choices.of(
        "flashinfer triton",
    ),
    "dsa_prefill_backend": Choices.of(
        "aiter fa3 flashmla_auto flashmla_kv flashmla_sparse tilelang trtllm",
        later={
            "0.5.16": "flashmla_sparse_q8",
            "0.5.17": "flashinfer_sparse_mla",
            "0.5.20": "triton",
            "0.5.22": "intel_xpu triton_sparse_mla",
        },
    ),
    "dsa_decode_backend": Choices.of(
        "aiter fa3 flashmla_auto flashmla_kv flashmla_sparse tilelang trtllm",
        later={
            "0.5.16": "flashmla_sparse_q8",
            "0.5.17": "flashinfer_sparse_mla",
            "0.5.20": "triton",
            "0.5.22": "intel_xpu",
        },
    ),
    "tokenizer_mode": Choices.of(
        "auto slow",
    ),
    "startup_weight_load_mode": Choices.of(
        "overlap serial",
    ),
}
# fmt: on
