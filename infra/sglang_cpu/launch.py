"""With which flags and variables SGLang 0.5.23 starts in this environment."""

from pathlib import Path

from infra.sglang_cpu.layout import EnvLayout

# Both arms carry the same attention flags: these two, because `--attention-backend intel_amx` is
# rewritten to torch_native on a CPU without AMX, and torch_native cannot verify drafts
# (srt/arg_groups/overrides.py). Float32, because bfloat16 near-ties let the arms' outputs part.
COMMON_FLAGS = (
    "--device",
    "cpu",
    "--dtype",
    "float32",
    "--prefill-attention-backend",
    "intel_amx",
    "--decode-attention-backend",
    "intel_amx",
    "--mem-fraction-static",
    "0.1",
    "--max-total-tokens",
    "8192",
)

# The capacity is of trie nodes; the default of ten million takes 1.8 GB.
NGRAM_FLAGS = (
    "--speculative-algorithm",
    "NGRAM",
    "--speculative-num-draft-tokens",
    "8",
    "--speculative-ngram-capacity",
    "100000",
)


def server_argv(env: EnvLayout, model: Path, *, port: int, flags: tuple[str, ...]) -> list[str]:
    """Return the command line of a server on the loopback address."""
    return [
        str(env.python),
        "-m",
        "sglang.launch_server",
        "--model-path",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        *flags,
    ]


def server_variables(env: EnvLayout) -> dict[str, str]:
    """Return what a server's environment needs beside PATH, by which it finds the C++ compiler.

    PATH is needed only where NGRAM's corpus is not compiled yet. HOME is not needed.
    """
    return {
        "SGLANG_USE_CPU_ENGINE": "1",  # without it the rotary embedding asks for CUDA or vLLM
        "SGLANG_CACHE_DIR": str(env.caches),
        "SGLANG_JIT_CACHE_DIR": str(env.caches / "jit"),  # does not follow SGLANG_CACHE_DIR
        # The key of what is compiled names the CUDA toolkit, which is looked for on PATH unless
        # told; none is needed (kernels/jit/utils/compile/toolchain.py).
        "CUDA_HOME": "/nonexistent",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",  # more threads only wait for each other on a busy machine
    }
