"""Plain decode against n-gram drafts on the real SGLang, with a tiny model on a CPU.

`make sweep-real` builds the environment and the model. The rates say nothing about GPUs; the accept
lengths are real, and so is every part of the path that a sweep on GPUs takes.
"""

from search_spaces.speculation import NGRAM, NGRAM_RULES
from sweeps import Budget, Choice, EngineName, HostSpec, IntRange, Model, Sweep, Workload

sweep = Sweep(
    name="cpu_tiny",
    model=Model("./.sglang-cpu/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 12, NGRAM, log=True),
        Choice("speculative_ngram_max_bfs_breadth", [1, 2, 4, 8], NGRAM),
        # The default of ten million trie nodes takes 1.8 GB and seconds to fill.
        Choice("speculative_ngram_capacity", [100_000], NGRAM),
    ],
    rules=NGRAM_RULES,
    fixed={
        "device": "cpu",
        "dtype": "float32",
        "mem_fraction_static": 0.1,
        "max_total_tokens": 8192,
        # Pinned, since speculation would change both by itself.
        "max_running_requests": 8,
        "disable_overlap_schedule": True,
        # Lines that cover few steps, so that the log can be held against our own counts.
        "decode_log_interval": 4,
        # The same attention in both arms; the default cannot verify drafts.
        "prefill_attention_backend": "intel_amx",
        "decode_attention_backend": "intel_amx",
    },
    workload=Workload(
        prompts="code",
        max_tokens=256,
        cold_prompts=2,
        measured_prompts=24,
        measure_s=60.0,
        # The model's context holds 2,048 tokens.
        probe_s=5.0,
        probe_tokens=1024,
    ),
    budget=Budget(trials=8, start_s=240.0, trial_s=600.0, stop_grace_s=15.0),
    hosts=[
        HostSpec(
            "cpu",
            engine=EngineName.SGLANG,
            python="./.sglang-cpu/env/bin/python",
            gpus=0,
            version="0.5.23",
            env={
                "SGLANG_USE_CPU_ENGINE": "1",
                "SGLANG_CACHE_DIR": "./.sglang-cpu/env/cache",
                "SGLANG_JIT_CACHE_DIR": "./.sglang-cpu/env/cache/jit",
                # No toolkit is needed; the n-gram code is compiled for the one that is named.
                "CUDA_HOME": "/nonexistent",
                "HF_HUB_OFFLINE": "1",
                "TRANSFORMERS_OFFLINE": "1",
                "OMP_NUM_THREADS": "1",
            },
        )
    ],
    early_stopping=False,
    seed=7,
)
