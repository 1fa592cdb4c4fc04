"""Each row of the table on words as they are really written, and on words that only look so."""

import re

import pytest

from infra.sglang.logs import explain_exit
from infra.sglang.signature import Moment
from infra.sglang.signatures import LOG_SIGNATURES
from sweeps.results import Outcome

START, CAPTURE, LOAD = Moment.START, Moment.CAPTURE, Moment.LOAD
HIT = "[2026-11-30 01:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):"
SIGQUIT = "[2026-11-30 01:00:01] SIGQUIT received. signum=3, frame=None. It usually means one."
BEGUN = "[2026-11-30 01:00:00 TP0] Capture cuda graph begin. avail mem=4.11 GB"
ENDED = "[2026-11-30 01:00:09 TP0] Capture cuda graph end. Time elapsed: 9.10 s."
ADVICE = "Possible solutions:\n1. set --mem-fraction-static to a smaller value"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.17 GiB. GPU 3 has a total"

CASES: list[tuple[str, int | None, Moment, list[str]]] = [
    ("guard", -15, START, ["guard: lost; the server was killed with it"]),
    ("refused_flags", 2, START, ["sglang serve: error: unrecognized arguments: --branch 1"]),
    ("refused_flags", 2, START, ["usage: launch_server.py [-h]"]),
    ("ambiguous_flag", 2, START, ["x: error: ambiguous option: --cuda-graph-max-bs could match"]),
    ("refused_value", 2, START, ["x: error: argument --tp-size: invalid int value: 'eight'"]),
    ("refused_value", 2, START, ["x: error: argument --dtype: invalid choice: 'f8' (choose from"]),
    ("port_in_use", None, START,
     ["[t] ERROR: [Errno 98] error while attempting to bind on address ('127.0.0.1', 31000): "
      "address already in use", "[t] INFO:     Waiting for application shutdown."]),
    ("port_in_use", -9, START,
     [HIT, "torch.distributed.DistNetworkError: The server socket has failed to listen on any local"
      " network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE", SIGQUIT]),
    ("port_in_use", 1, START, ["ValueError: init_port at 29500 is not available in 9 seconds"]),
    ("shared_memory_full", -9, START,
     ["h:97:183 [0] misc/shmutils.cc:132 NCCL WARN Error while creating shared memory segment "
      "/dev/shm/nccl-WU88OE (size 9637888), error: No space left on device (28)",
      HIT, "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO)"]),
    ("shared_memory_full", -9, START,
     ["h:97 [0] NCCL WARN Call to posix_fallocate failed : No space left on device"]),
    ("disk_full", 1, START, ["OSError: [Errno 28] No space left on device: '/data/cache/x.so'"]),
    ("gpu_lost", -9, LOAD, [HIT, "RuntimeError: CUDA error: uncorrectable ECC error encountered"]),
    ("gpu_lost", -9, LOAD, ["NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus."]),
    ("gpu_busy", -9, START,
     ["RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"]),
    ("no_gpu_driver", 1, START,
     ["RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) is available."]),
    ("no_gpu_driver", -9, START,
     [HIT, "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'"]),
    ("host_out_of_memory", 1, START,
     ["RuntimeError: Rank 5 scheduler died during initialization (exit code: -9). If exit"]),
    ("host_out_of_memory", -9, START, [HIT, "MemoryError: std::bad_alloc"]),
    ("compiler_missing", -9, START,
     [HIT, "RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)"]),
    ("compiler_missing", -9, START,
     ["FileNotFoundError: [Errno 2] No such file or directory: 'nvcc'"]),
    ("compiler_missing", -9, START, ["/bin/sh: 1: g++: not found"]),
    ("compiler_missing", -9, CAPTURE,
     ["RuntimeError: Failed to find C compiler. Please specify via CC environment variable."]),
    ("compile_failed", -9, CAPTURE,
     [BEGUN, HIT, "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit "
      "status 1.", "Exception: Capture cuda graph failed: Error building extension 'sampling'",
      ADVICE]),
    ("model_unreadable", 1, START, ["OSError: Repo id must be in the form 'repo_name'"]),
    ("model_unreadable", 1, START,
     ["OSError: We couldn't connect to 'https://huggingface.co' to load the files"]),
    ("model_unreadable", 1, START, ["ValueError: Unrecognized model in /m. Should have"]),
    ("model_unreadable", -9, START,
     [HIT, "safetensors_rust.SafetensorError: Error while deserializing header", SIGQUIT]),
    ("nccl_memory", -9, START, ["ncclInternalError: Failed to CUDA calloc 10485760 bytes"]),
    ("nccl_memory", -9, CAPTURE, [BEGUN, "NCCL WARN Cuda failure 2 'out of memory'"]),
    ("oom_load", -9, START, [HIT, OOM, SIGQUIT]),
    ("oom_capture", -9, CAPTURE, [HIT, f"Exception: Capture cuda graph failed: {OOM}", ADVICE]),
    ("oom_capture", -9, START,
     [HIT, "Exception: Capture prefill CUDA graph failed: CUDA out of memory. Tried", ADVICE]),
    ("oom_capture", -9, CAPTURE, [BEGUN, HIT, OOM]),
    ("oom_serving", -9, LOAD, [HIT, OOM, SIGQUIT]),
    ("no_kv_room", -9, START,
     [HIT, "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
      "Current value: mem_fraction_static=0.5"]),
    ("kv_exhausted", -9, LOAD,
     ["RuntimeError: Decode out of memory. Try to lower your batch size.", SIGQUIT]),
    ("custom_all_reduce", -9, CAPTURE,
     [BEGUN, HIT, "AttributeError: 'CustomAllReduceV2' object has no attribute 'obj'",
      "Exception: Capture cuda graph failed: 'CustomAllReduceV2' object has no attribute 'obj'"]),
    ("custom_all_reduce", -9, CAPTURE,
     [BEGUN, "RuntimeError: Runtime check failed at /x/distributed/custom_all_reduce.cuh:37: CUDA "
      "error: invalid argument"]),
    ("nccl_invalid_usage", -9, START,
     [HIT, "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)"]),
    ("nccl_invalid_usage", -9, START,
     ["torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:3356, invalid "
      "usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.27.3"]),
    ("nccl_no_algorithm", -9, START,
     ["RuntimeError: NCCL error: internal error, no algorithm/protocol available"]),
    ("nccl_timeout", -9, LOAD,
     ["[rank3]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType="
      "ALLREDUCE) ran for 600010 milliseconds", "terminate called after throwing an instance of "
      "'c10::DistBackendError'", "Fatal Python error: Aborted"]),
    ("ranks_apart", -9, START,
     ["torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 7/8"]),
    ("ranks_apart", -9, START,
     [HIT, "RuntimeError: Gloo connectFullMesh failed with [../gloo/tcp/pair.cc:144] no error"]),
    ("gpus_taken", -9, START,
     [HIT, "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other "
      "processes. pre_model_load_memory=1.0, local_gpu_memory=2.0"]),
    ("fabric_manager", 1, START, ["RuntimeError: CUDA error: system not yet initialized"]),
    ("driver_mismatch", 1, START,
     ["RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version"]),
    ("driver_mismatch", 1, START,
     ["RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility "
      "was attempted on non supported HW"]),
    ("gpu_missing", -9, START, [HIT, "torch.AcceleratorError: CUDA error: invalid device ordinal"]),
    ("gpu_busy", -9, START,
     ["RuntimeError: CUDA error: MPS client failed to connect to the MPS control daemon"]),
    ("gpu_lost", -9, START, [HIT, "RuntimeError: CUDA error: unknown error"]),
    ("gpu_too_old", -9, START, [HIT, "RuntimeError: SGLang only supports sm75 and above."]),
    ("cuda_unusable", 1, START,
     ["RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 2: out of memory"]),
    ("too_many_files", -9, START, [HIT, "OSError: [Errno 24] Too many open files: '/dev/shm/x'"]),
    ("too_many_threads", 1, START,
     ["BlockingIOError: [Errno 11] Resource temporarily unavailable"]),
    ("shared_memory_full", -9, LOAD, ["Fatal Python error: Bus error", SIGQUIT]),
    ("disk_full", 1, START, ["OSError: [Errno 122] Disk quota exceeded: '/home/x/.triton'"]),
    ("storage_failed", 1, START, ["OSError: [Errno 116] Stale file handle: '/models/x'"]),
    ("compiler_old", -9, CAPTURE,
     [HIT, "RuntimeError: ptxas /tmp/x.ptx, line 5; fatal   : Unsupported .version 8.6; current "
      "version is '8.4'"]),
    ("package_outdated", 1, START,
     ["Exception: sglang-kernel is installed with version 0.3.1, which is less than the minimum "
      "required version 0.3.14. "]),
    ("no_host_room", -9, START,
     [HIT, "ValueError: Not enough host memory available. Requesting 90.00 GB but only have 40"]),
    ("no_state_room", -9, START,
     [HIT, "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. "
      "Computed max_mamba_cache_size=0 (total_rest_memory=0.41 GB)."]),
    ("workspace_full", -9, LOAD,
     ["RuntimeError: Buffer overflow when allocating memory for batch_prefill_tmp_v with size 7"]),
    ("file_missing", 1, START,
     ["FileNotFoundError: [Errno 2] No such file or directory: '/data/corpus.jsonl'"]),
    ("library_missing", 1, START,
     ["ImportError: libnuma.so.1: cannot open shared object file: No such file or directory"]),
    ("system_error", 1, START, ["PermissionError: [Errno 13] Permission denied: '/var/cache'"]),
    ("system_error", -9, START, [HIT, "requests.exceptions.ProxyError: HTTPConnectionPool"]),
    ("driver_mismatch", -9, CAPTURE,
     [BEGUN, HIT, "RuntimeError: Triton Error [CUDA]: device kernel image is invalid"]),
    ("cuda_unusable", -9, START, [HIT, "RuntimeError: CUDA error: initialization error"]),
    ("no_gpu_driver", -9, START,
     [HIT, "RuntimeError: 0 active drivers ([]). There should only be one."]),
    ("gpu_too_old", -9, START,
     [HIT, "RuntimeError: FlashInfer requires GPUs with sm75 or higher"]),
    ("compiler_old", -9, CAPTURE,
     [HIT, "RuntimeError: Ninja build failed. Ninja output:", "#error -- unsupported GNU version! "
      "gcc versions later than 13 are not supported!"]),
    ("compiler_old", -9, CAPTURE,
     [HIT, "RuntimeError: No supported CUDA architectures found for major versions [9]."]),
    ("compiler_missing", -9, CAPTURE,
     ["torch._inductor.exc.InvalidCxxCompiler: No working C++ compiler found in []"]),
    ("shared_memory_full", 135, LOAD, ["[t] Decode batch", "Bus error (core dumped)"]),
    ("worker_died", 1, START,
     ["[t] Rank 0 scheduler is dead. Please check if there are relevant logs.", "EOFError"]),
    ("no_state_room", -9, START,
     [HIT, "RuntimeError: Failed to allocate 12.50 GiB for the draft's cache"]),
    ("oom_load", -9, START,
     [HIT, "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"]),
    ("oom_capture", -9, CAPTURE,
     [BEGUN, HIT, "RuntimeError: Triton Error [CUDA]: out of memory"]),
    ("ranks_apart", -9, START,
     [HIT, "torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving "
      "ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: "
      "Connection reset by peer"]),
    ("bus_error", -7, LOAD, ["[t] Decode batch, #running-req: 1"]),
    ("crashed", -9, LOAD, [HIT, "queue.Empty", SIGQUIT]),
    ("nccl_system_error", -9, START,
     ["RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"]),
    ("nccl_cuda_error", -9, START,
     ["torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled cuda error"]),
    ("nccl_error", -9, START, ["ncclRemoteError: A call failed possibly due to a network error"]),
    ("nccl_library", -9, START, ["Failed to load NCCL library from libnccl.so.2. It is expected"]),
    ("ngram_device", 1, START,
     ["ValueError: Ngram speculative decoding only supports CUDA device."]),
    ("ngram_range", -9, START,
     [HIT, "RuntimeError: param_.max_trie_depth must be greater than 1, current value: 1"]),
    ("ngram_range", -9, START,
     [HIT, "RuntimeError: max_match_window_size must be less than branch_length, current"]),
    ("ngram_range", -9, START,
     ["RuntimeError: min_bfs_breadth must be less than or equal to max_bfs_breadth, current"]),
    ("missing_kernel", -9, CAPTURE,
     [BEGUN, "RuntimeError: CUDA error: no kernel image is available for execution on the device"]),
    ("missing_kernel", -9, START, ["ModuleNotFoundError: No module named 'sgl_kernel.spec'"]),
    ("unsupported_backend", 1, START,
     ["ValueError: TRTLLM MLA backend is only supported on Blackwell GPUs (SM100/SM12x)."]),
    ("unsupported_backend", 1, START, ["ValueError: Invalid attention backend: fa9"]),
    ("capture_failed", -9, CAPTURE,
     [HIT, "Exception: Capture cuda graph failed: CUDA error: operation not permitted", ADVICE]),
    ("capture_failed", -9, CAPTURE,
     ["Exception: Capture single-CG draft extend failed: shape mismatch", ADVICE]),
    ("forward_hung", -9, LOAD,
     ["[t TP0] Scheduler watchdog timeout (self.watchdog_timeout=300.0, self.soft=False)"]),
    ("gpu_fault", -9, LOAD, [HIT, "RuntimeError: CUDA error: an illegal memory access was"]),
    ("native_abort", -9, LOAD,
     ["munmap_chunk(): invalid pointer", "Fatal Python error: Aborted", SIGQUIT]),
    ("native_abort", -9, LOAD, ["free(): invalid pointer", SIGQUIT]),
    ("native_abort", -6, LOAD, ["[t] Decode batch, #running-req: 1"]),
    ("native_abort", -9, LOAD,
     ["[t] Subprocess scheduler_0 (pid=77) crashed with exit code -6. Triggering SIGQUIT"]),
    ("segfault", -9, LOAD, ["Fatal Python error: Segmentation fault", SIGQUIT]),
    ("settings_refused", 1, START, ["AssertionError: tp_size must divide the number of heads"]),
    ("settings_refused", 1, START, ["[rank0]: ValueError: page size 3 is not a power of two"]),
    ("crashed", -9, LOAD, [HIT, "ValueError: not enough values to unpack", SIGQUIT]),
    ("crashed", -9, START,
     ["AttributeError: 'NoneType' object has no attribute 'endswith'", SIGQUIT]),
    ("worker_died", 1, START,
     ["RuntimeError_: x", "Rank 2 scheduler died during initialization (exit code: 1)."]),
    ("worker_died", 1, START,
     ["RuntimeError: Rank 0 scheduler died during initialization (exit code: -15)."]),
    ("child_failed", -9, START,
     ["[t] Received sigquit from a child process. It usually means the child failed."]),
    ("killed", -9, START, ["[t TP0] Load weight begin. avail mem=140.10 GB"]),
]  # fmt: skip

NEAR_MISSES: list[tuple[str, int, Moment, list[str]]] = [
    ("oom_capture", -9, CAPTURE,
     [BEGUN, HIT, "Exception: Capture cuda graph failed: no such operator", ADVICE]),
    ("oom_serving", -9, LOAD, ["[t] KV cache pool is full. Retract requests. #retracted_reqs: 1"]),
    ("oom_load", -9, START, ["[t] To avoid out of memory, chunked_prefill_size is set to 2048"]),
    ("oom_load", 1, START, ["[t] server_args=ServerArgs(note='CUDA out of memory')"]),
    ("port_in_use", 1, START, ["[t] port 31000 is in use. Waiting for 3 seconds for x"]),
    ("nccl_timeout", -9, START, ["[t] dist_timeout=600, watchdog_timeout=300"]),
    ("nccl_invalid_usage", -9, START, ["[t] sglang is using nccl==2.27.3", "invalid usage of x"]),
    ("shared_memory_full", 1, START, ["OSError: [Errno 28] No space left on device: '/data/x'"]),
    ("custom_all_reduce", -9, START,
     ["[t TP1] Custom allreduce is disabled because it's not supported on more than two PCIe-only "
      "GPUs. To silence this warning, specify disable_custom_all_reduce=True explicitly."]),
    ("custom_all_reduce", -9, CAPTURE,
     ['  File "/x/custom_all_reduce.py", line 256, in capture', "RuntimeError: boom"]),
    ("missing_kernel", 1, START,
     ["[t] Ignore import error when loading models.x: No module named 'flash_attn.ops'"]),
    ("compiler_missing", -9, START, ["[t] Using ninja 1.11 and g++ 13 for the n-gram corpus"]),
    ("native_abort", 1, START, ["[t] the request was aborted: free() of slot 3"]),
    ("forward_hung", -9, LOAD,
     ["[t] Scheduler watchdog timeout (self.watchdog_timeout=30, self.soft=True)"]),
    ("settings_refused", -9, START, ["[t] this raises ValueError: x if the depth is wrong"]),
    ("gpu_lost", 1, START, ["[t] NCCL_DEBUG=INFO: Xid is logged by the kernel"]),
    ("model_unreadable", 1, START, ["OSError: [Errno 5] Input/output error"]),
    ("unsupported_backend", 1, START, ["[t] Attention backend not specified. Use fa3 backend"]),
    ("killed", -15, START, ["[t] Load weight begin"]),
    ("host_out_of_memory", -9, START, [OOM]),
    ("gpus_taken", -9, START,
     ["[t] The memory capacity is unbalanced. Some GPUs may be occupied by other processes.", HIT,
      "ValueError: page size 3 is not a power of two"]),
    ("compiler_old", -9, START,
     ["Warning: please use at least NVCC 12.9 for the best DeepGEMM performance"]),
    ("too_many_files", 1, START, ["[t] Fail to set RLIMIT_NOFILE: not allowed to raise"]),
    ("ranks_apart", -9, LOAD, ["[t] INFO: 127.0.0.1:5 - client disconnected"]),
    ("system_error", -9, START,
     ["[t] The request failed: TimeoutError: x", HIT, "KeyError: 'layers'"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "moment", "tail"), CASES)
def test_recognises(name: str, code: int | None, moment: Moment, tail: list[str]) -> None:
    why = explain_exit(code, tail, moment)
    assert why.signature == name, why.reason
    row = next(row for row in LOG_SIGNATURES if row.name == name)
    assert (why.outcome, why.retry) == (row.outcome, row.retry)
    assert why.reason.startswith(row.reason)
    assert row.hint in why.reason


@pytest.mark.parametrize(("name", "code", "moment", "tail"), NEAR_MISSES)
def test_is_not_fooled(name: str, code: int, moment: Moment, tail: list[str]) -> None:
    assert explain_exit(code, tail, moment).signature != name


def test_every_row_has_a_name_of_its_own_and_a_case() -> None:
    names = [row.name for row in LOG_SIGNATURES]
    assert len(names) == len(set(names))
    assert set(names) == {name for name, *_ in CASES}
    assert all(re.fullmatch(r"[a-z_]+", name) for name in names)


def test_only_faults_that_are_not_the_configurations_are_retried() -> None:
    assert all(row.outcome is Outcome.FAILED for row in LOG_SIGNATURES if row.retry)


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ([OOM], "oom_load"),
        ([BEGUN, OOM], "oom_capture"),
        ([BEGUN, ENDED, OOM], "oom_load"),
        ([BEGUN, ENDED, "The server is fired up and ready to roll!", OOM], "oom_serving"),
        (["[t] Decode batch, #running-req: 1, #token: 38", OOM], "oom_serving"),
    ],
)
def test_without_being_told_the_moment_is_read_from_the_lines(lines: list[str], name: str) -> None:
    assert explain_exit(-9, lines).signature == name


def test_an_unknown_end_keeps_its_last_line_and_no_name() -> None:
    why = explain_exit(3, ["something", "  odd  ", ""])
    assert (why.outcome, why.signature, why.retry) == (Outcome.FAILED, "", False)
    assert why.reason == "the server ended with 3: odd"
