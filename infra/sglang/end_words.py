"""What SGLang itself raises or logs when a server does not come up or ends, by version.

Read in the published wheels 0.5.2 to 0.5.23, in the files that a start passes through. Words of
PyTorch, NCCL, CUDA and Linux are in `infra.sglang.signatures` alone.
"""

from collections import defaultdict
from dataclasses import dataclass

from infra.sglang.flags import version_key

_FIRST = "0.5.2"


@dataclass(frozen=True, slots=True)
class Words:
    """A text and the releases that have it."""

    signature: str
    """The row of the signature table that it means."""
    text: str
    """As it stands in the log, with `{}` for each figure."""
    place: str
    """The file of the oldest release that has it, below `sglang/srt`."""
    since: str = _FIRST
    until: str | None = None
    """None: the newest release has it, too."""

    def holds(self, version: str) -> bool:
        """Tell whether a version says so."""
        at = version_key(version)
        last = version if self.until is None else self.until
        return version_key(self.since) <= at <= version_key(last)

    @property
    def sample(self) -> str:
        """Return it with figures."""
        return self.text.format_map(defaultdict(lambda: "7"))

    def lines(self, **figures: object) -> list[str]:
        """Return the lines that a server writes."""
        return self.text.format(**figures).splitlines()


_ENGINE, _RUNNER = "entrypoints/engine.py", "model_executor/model_runner.py"
_POOL, _HOST_POOL = "mem_cache/memory_pool.py", "mem_cache/memory_pool_host.py"
_BATCH, _WORKER = "managers/schedule_batch.py", "managers/tp_worker.py"
_UTILS = "utils.py"

END_WORDS: tuple[Words, ...] = (
    # Processes that end.
    Words("worker_died", "Rank {rank} scheduler is dead. Please check if there are relevant logs.\n"
          "Exit code: {code}", _ENGINE, until="0.5.9"),
    Words("worker_died", "RuntimeError: Rank {rank} scheduler died during initialization (exit "
                         "code:"
          " {code}). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg "
          "-T | grep -i oom` to check.", _ENGINE, since="0.5.10"),
    Words("worker_died", "Subprocess {name} (pid={pid}) crashed with exit code {code}. Triggering "
          "SIGQUIT for cleanup...", "utils/watchdog.py", since="0.5.10"),
    Words("worker_died", "Scheduler or DataParallelController {pid} terminated with {code}",
          _ENGINE),
    Words("child_failed", "Received sigquit from a child process. It usually means the child "
          "failed.", _ENGINE),
    Words("child_failed", "SIGQUIT received. signum={number}, frame={frame}. It usually means one "
          "child failed.", "managers/tokenizer_manager.py", since="0.5.3"),
    Words("forward_hung", "Watchdog timeout (self.watchdog_timeout={limit_s})",
          "managers/scheduler.py", until="0.5.6.post2"),
    Words("forward_hung", "Scheduler watchdog timeout (self.watchdog_timeout={limit_s}, "
          "self.soft=False)", "utils/watchdog.py", since="0.5.7"),
    # The host.
    Words("gpus_taken", "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied "
          "by other processes. min_per_gpu_memory={least}, local_gpu_memory={own}, local_gpu_memory"
          " * 0.9={limit}", _RUNNER, until="0.5.6.post2"),
    Words("gpus_taken", "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied"
          " by other processes. pre_model_load_memory={least}, local_gpu_memory={own}, "
          "local_gpu_memory * 0.9={limit}", _RUNNER, since="0.5.7"),
    Words("no_gpu_driver", "RuntimeError: No accelerator (CUDA, XPU, HPU) is available.", _UTILS,
          until="0.5.5"),
    Words("no_gpu_driver", "RuntimeError: No accelerator (CUDA, XPU, HPU, NPU) is available.",
          "utils/common.py", since="0.5.6.post2", until="0.5.8"),
    Words("no_gpu_driver", "RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) is "
          "available.", "utils/common.py", since="0.5.10", until="0.5.12"),
    Words("no_gpu_driver", "RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) or "
          "platform plugin is available.", "utils/common.py", since="0.5.13"),
    Words("no_gpu_driver", "RuntimeError: nvidia-smi not found. Ensure NVIDIA drivers are installed"
          " and accessible.", _UTILS, until="0.5.9"),
    Words("no_gpu_driver", "RuntimeError: nvidia-smi not found. No CUDA devices found via "
          "torch.cuda.", "utils/common.py", since="0.5.10"),
    Words("gpu_too_old", "RuntimeError: SGLang only supports sm75 and above.", _RUNNER),
    Words("port_in_use", "ValueError: {name} at {port} is not available in {limit_s} seconds. "
          "{error}", _UTILS),
    Words("port_in_use", "OSError: Could not bind port {port} on any configured address family",
          "utils/network.py", since="0.5.10"),
    Words("port_in_use", "RuntimeError: engine_info_bootstrap_port {port} is already in use. When "
          "running multiple instances on the same node, each instance must use a different "
          "--engine-info-bootstrap-port.", _ENGINE, since="0.5.10"),
    Words("package_outdated", "Exception: {name} is installed with version {version}, which is "
                              "less "
          "than the minimum required version {least}. Please reinstall the latest version",
          _UTILS),
    Words("compile_failed", "RuntimeError: Failed to build JIT module {name} in {folder}",
          "kernels/jit/utils/compile/ninja.py", since="0.5.18"),
    Words("nccl_library", "Failed to load NCCL library from {name} .",
          "distributed/device_communicators/pynccl_wrapper.py"),
    Words("host_out_of_memory", "RuntimeError: cudaHostRegister failed (rc={code}, {error})",
          _HOST_POOL, since="0.5.13"),
    Words("ranks_apart", "RuntimeError: Failed to receive worker ports from node 0 within timeout",
          "managers/data_parallel_controller.py", since="0.5.4"),
    Words("ranks_apart", "RuntimeError: timed out waiting for POSIX fd exchange",
          "distributed/device_communicators/custom_all_reduce_vmm_utils.py", since="0.5.14"),
    # Lack of memory.
    Words("no_kv_room", "RuntimeError: Not enough memory. Please try to increase "
          "--mem-fraction-static.", _RUNNER, until="0.5.2"),
    Words("no_kv_room", "RuntimeError: Not enough memory. Please try to increase "
          "--mem-fraction-static. Current value: self.server_args.mem_fraction_static={fraction}",
          _RUNNER, since="0.5.3", until="0.5.9"),
    Words("no_kv_room", "RuntimeError: Not enough memory. Please try to increase "
          "--mem-fraction-static. Current value: mem_fraction_static={fraction}",
          "model_executor/model_runner_kv_cache_mixin.py", since="0.5.10"),
    Words("no_kv_room", "AssertionError: Memory pool size is too small", _WORKER),
    Words("no_kv_room", "AssertionError: max_running_request is zero", _WORKER),
    Words("no_kv_room", "RuntimeError: SWA pool cap ({tokens} tokens, {size} GiB) leaves no room "
                        "for"
          " the full KV pool within the available {free} GiB. Reduce --max-running-requests, lower "
          "SGLANG_SWA_EVICTION_INTERVAL, or increase --mem-fraction-static.",
          "model_executor/pool_configurator.py", since="0.5.14"),
    Words("no_kv_room", "RuntimeError: UnifiedKVPool: sub-pool {name} fits only {slots} slots in "
          "{size} bytes, but min_slot_index={index} leaves no room for real data. Increase "
          "total_bytes.", "mem_cache/unified_memory_pool.py", since="0.5.15"),
    Words("no_state_room", "AssertionError: Not enough space for mamba cache, try to increase "
          "--max-mamba-cache-size.", _POOL, until="0.5.6.post2"),
    Words("no_state_room", "AssertionError: Not enough space for mamba cache, try to increase "
          "--mamba-full-memory-ratio or --max-mamba-cache-size. mid={middle}",
          _POOL, since="0.5.7"),
    Words("no_state_room", "AssertionError: Not enough space for mamba ping pong idx, try to "
          "increase --mamba-full-memory-ratio.", _POOL, since="0.5.7"),
    Words("no_state_room", "RuntimeError: Not enough GPU memory for hybrid "
                           "(mamba/linear-attention) "
          "state cache. Computed max_mamba_cache_size={slots} (total_rest_memory={free} GB, "
          "mamba_cache_per_req={size} MB). Try: (1) reduce --max-running-requests, (2) increase "
          "--mem-fraction-static, (3) reduce --speculative-num-draft-tokens, or (4) use GPUs with "
          "more memory.", "model_executor/model_runner_kv_cache_mixin.py", since="0.5.13"),
    Words("no_state_room", "RuntimeError: Hybrid (mamba/linear-attention) state cache is too small "
          "to serve any requests. max_mamba_cache_size={slots}, mamba_ratio={ratio}, resulting "
          "max_num_reqs={number}.", "model_executor/model_runner_kv_cache_mixin.py",
          since="0.5.13"),
    Words("no_state_room", "RuntimeError: int8 mamba checkpoint pool needs ~{size}GB but only "
          "{free}GB HBM is free. Lower --int8-mamba-ckpt-size (currently {slots}) or "
          "--mem-fraction-static.", "mem_cache/mamba_checkpoint_pool.py", since="0.5.14"),
    Words("no_state_room", "AssertionError: Capture batch needs {slots} request slots for {tokens} "
          "tokens, but the request pool has only {free}.",
          "model_executor/runner/prefill_cuda_graph_runner.py", since="0.5.17"),
    Words("no_state_room", "GluonPrefillUnavailableError: gluon prefill scratch of {pages} pages "
          "({size} MiB) does not fit; lower --mem-fraction-static",
          "layers/attention/minimax_sparse_ops/gluon_prefill.py", since="0.5.21"),
    Words("no_host_room", "ValueError: Not enough host memory available. Requesting {size} GB but "
          "only have {free} GB free. Please reduce the size of the hierarchical cache.",
          _HOST_POOL),
    Words("no_host_room", "RuntimeError: HiSparse host mem pool alloc failed for {pages} pages",
          _HOST_POOL, since="0.5.13"),
    Words("kv_exhausted", "RuntimeError: Prefill out of memory. Try to lower your batch size.\n"
          "Try to allocate {tokens} tokens.", _BATCH),
    Words("kv_exhausted", "RuntimeError: Decode out of memory. Try to lower your batch size.\n"
          "Try to allocate {tokens} tokens.", _BATCH),
    Words("kv_exhausted", "AssertionError: No space left for only one request, "
          "self.token_to_kv_pool_allocator.available_size()={free}", _BATCH, until="0.5.6.post2"),
    Words("kv_exhausted", "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller "
          "number for `--max-running-requests`.", _BATCH),
    Words("kv_exhausted", "RuntimeError: DFLASH draft OOM when allocating {tokens} block tokens.",
          "speculative/dflash_worker.py", since="0.5.11", until="0.5.13"),
    Words("kv_exhausted", "RuntimeError: Retraction host KV pool exhausted after reclaim: "
          "request={rid}, required_slots={slots}, available_slots={free}.",
          "mem_cache/unified_radix_cache.py", since="0.5.18"),
    # Graphs.
    Words("capture_failed", "Exception: Capture cuda graph failed: {error}",
          "model_executor/cuda_graph_runner.py"),
    Words("capture_failed", "Exception: Capture CPU graph failed: {error}",
          "model_executor/cpu_graph_runner.py"),
    Words("capture_failed", "Exception: Capture frozen-KV MTP cuda graph failed: {error}",
          "speculative/frozen_kv_mtp_cuda_graph_runner.py", since="0.5.12"),
    Words("capture_failed", "Exception: Capture prefill CUDA graph failed: {error}",
          "model_executor/runner/prefill_cuda_graph_runner.py", since="0.5.14", until="0.5.15"),
    Words("capture_failed", "RuntimeError: Capture prefill CUDA graph failed: {error}",
          "model_executor/runner/prefill_cuda_graph_runner.py", since="0.5.16"),
    Words("capture_failed", "Exception: Capture single-CG draft extend failed: {error}",
          "speculative/multi_layer_eagle_draft_extend_cuda_graph_runner.py", since="0.5.16"),
)  # fmt: skip


def rank_dead(version: str) -> Words:
    """Return what the launcher says of a rank that ended while it loaded."""
    return next(w for w in END_WORDS if w.signature == "worker_died" and w.holds(version))
