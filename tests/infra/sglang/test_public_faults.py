"""How servers ended for others: what their programs wrote, and whose fault that is.

Each row names the public thread that the lines are taken from. Only what programs wrote is quoted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.sglang.end_words import END_WORDS, rank_dead
from infra.sglang.logs import ExitReason, explain_exit
from infra.sglang.signature import Moment
from infra.sglang.signatures import AMOUNTS, HOST_FAULTS, LOG_SIGNATURES
from infra.sglang.version_range import RELEASES
from sweeps.results import Outcome

LOGS = Path(__file__).parents[2] / "data/logs"
START, CAPTURE, LOAD = Moment.START, Moment.CAPTURE, Moment.LOAD
HIT = "[2026-01-01 00:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):"
FRAME = '  File "/opt/sglang/srt/managers/scheduler.py", line 1, in run_scheduler_process'
SIGQUIT = "[2026-01-01 00:00:01] Received sigquit from a child process. It usually means one."
DURING = "During handling of the above exception, another exception occurred:"
COUNT = (
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions "
    "before calling NumCudaDevices() that might have already set an error? "
)
BY_NAME = {row.name: row for row in LOG_SIGNATURES}


def raised(*lines: str) -> list[str]:
    """Put an exception where SGLang logs it."""
    return [HIT, FRAME, "    scheduler = Scheduler(", *lines, SIGQUIT]


@dataclass(frozen=True)
class Report:
    """A thread and what a program wrote there."""

    thread: str
    """Repository and number."""
    signature: str
    lines: Sequence[str]
    told: str
    """What the reason must hold."""
    moment: Moment = START
    code: int = -9


HOSTS = [
    Report("huggingface/huggingface_hub 4134", "fabric_manager",
           raised(COUNT + "Error 802: system not yet initialized"), "nvidia-fabricmanager"),
    Report("pytorch/pytorch 35710", "fabric_manager",
           raised("RuntimeError: cuda runtime error (802) : system not yet initialized at "
                  "/opt/conda/conda-bld/THC/THCGeneral.cpp:50"), "nvidia-fabricmanager"),
    Report("microsoft/lisa 2823", "fabric_manager",
           ["/x/torch/cuda/__init__.py:80: UserWarning: CUDA initialization: Unexpected error from "
            "cudaGetDeviceCount(). Error 802: system not yet initialized (Triggered internally)",
            "RuntimeError: No accelerator (CUDA, XPU, HPU) is available."], "Error 802", code=1),
    Report("gpustack/gpustack 4678", "driver_mismatch",
           raised(COUNT + "Error 803: system has unsupported display driver / cuda driver "
                  "combination"), "Error 803"),
    Report("Laft02/ComfyUI-notebook-for-SageMaker-Studio-Lab 3", "driver_mismatch",
           raised("RuntimeError: The NVIDIA driver on your system is too old (found version "
                  "11040). "
                  "Please update your GPU driver"), "found version 11040"),
    Report("rapidsai/dask-cuda 949", "driver_mismatch",
           raised("pynvml.nvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version "
                  "mismatch."), "reboot"),
    Report("mozilla/translations 1167", "driver_mismatch",
           ["Failed to initialize NVML: Driver/library version mismatch",
            "NVML library version: 550.144"], "reboot", code=1),
    Report("divelab/GraphBP 2", "driver_mismatch",
           raised("RuntimeError: CUDA error: the provided PTX was compiled with an unsupported "
                  "toolchain."), "unsupported toolchain", CAPTURE),
    Report("triton-lang/triton 8539", "compiler_old",
           raised("triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen "
                  "error",
                  "`ptxas` stderr:",
                  "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'"),
           "TRITON_PTXAS_PATH", CAPTURE),
    Report("deepseek-ai/DeepGEMM 157", "compiler_old",
           ["Warning: please use at least NVCC 12.9 for the best DeepGEMM performance"
            "NVCC compilation failed: nvcc fatal   : Unsupported gpu architecture 'sm_100f'",
            *raised('RuntimeError: Assertion error (csrc/jit/compiler.hpp:176): false and "NVCC '
                    'compilation failed"')], "sm_100f"),
    Report("flashinfer-ai/flashinfer 1658", "compiler_old",
           raised("RuntimeError: Ninja build failed. Ninja output:",
                  "nvcc fatal   : Unsupported gpu architecture 'compute_90a'",
                  "ninja: build stopped: subcommand failed."), "compute_90a"),
    Report("sgl-project/sglang 3226", "ranks_apart",
           raised("RuntimeError: Gloo connectFullMesh failed with "
                  "[../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error"),
           "GLOO_SOCKET_IFNAME"),
    Report("pytorch/pytorch 75512", "ranks_apart",
           raised("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection "
                  "closed by peer [18.25.6.30]:28048"), "Connection closed by peer"),
    Report("pytorch/pytorch 15592", "ranks_apart",
           ["terminate called after throwing an instance of 'gloo::IoException'",
            "  what():  [/opt/conda/third_party/gloo/gloo/transport/tcp/pair.cc:724] connect "
            "[127.0.1.1]:3210: Connection refused"], "Connection refused", code=-6),
    Report("sgl-project/sglang 4205", "ranks_apart",
           ["[t] Capture cuda graph begin.", *raised(
               "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection "
               "closed by peer [10.0.0.1]:1", "", DURING, "", "Traceback (most recent call last):",
               FRAME, "Exception: Capture cuda graph failed: "
               "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer")],
           "Connection closed by peer", CAPTURE),
    Report("vllm-project/vllm 7920", "too_many_files",
           raised("zmq.error.ZMQError: Too many open files"), "ulimit -n"),
    Report("datalab-to/marker 181", "too_many_files",
           raised("RuntimeError: unable to open shared memory object </torch_7_1> in read-write "
                  "mode:"
                  " Too many open files (24)"), "ulimit -n"),
    Report("kuleshov-group/caduceus 58", "too_many_files",
           raised("OSError: [Errno 24] Too many open files"), "LimitNOFILE"),
    Report("Ziems/arbor 48", "too_many_files",
           ["thread 'actix-rt|system:0|arbiter:242' panicked at src/worker.rs:429:30: called "
            '`Result::unwrap()` on an `Err` value: Os { code: 24, kind: Uncategorized, message: '
            '"Too '
            'many open files" }'], "ulimit -n"),
    Report("PaddlePaddle/PaddleSeg 1184", "too_many_threads",
           raised("RuntimeError: can't start new thread"), "ulimit -u"),
    Report("vladmandic/sdnext 2642", "too_many_threads",
           ["OpenBLAS blas_thread_init: pthread_create failed for thread 34 of 64: Resource "
            "temporarily unavailable", *raised("KeyboardInterrupt")], "ulimit -u"),
    Report("pytorch/pytorch 130181", "gpu_missing",
           raised("torch.cuda.DeferredCudaCallError: CUDA call failed lazily at initialization "
                  "with error: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED"),
           "num_gpus"),
    Report("facebookresearch/metaseq 52", "ranks_apart",
           raised("RuntimeError: Timed out initializing process group in store based barrier on "
                  "rank: 4330, for key: store_based_barrier_key:522 (world_size=2048, "
                  "worker_count=1792, timeout=0:30:00)"), "worker_count=1792"),
    Report("sgl-project/sglang 37183", "package_outdated",
           raised("ValueError: The checkpoint you are trying to load has model type `glm5_next` "
                  "but Transformers does not recognize this architecture."), "glm5_next"),
    Report("sgl-project/sglang 1533", "gpus_taken",
           raised("ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by "
                  "other "
                  "processes."), "nvidia-smi"),
]  # fmt: skip

KILLED = [
    Report("sgl-project/sglang 15235", "host_out_of_memory",
           ["[12-16 14:27:08] Rank 0 scheduler is dead. Please check if there are relevant logs.",
            "[12-16 14:27:10] Exit code: -9", "Traceback (most recent call last):",
            '  File "/x/bin/sglang", line 10, in <module>', "EOFError"], "without memory", code=1),
    Report("sgl-project/sglang 5762", "host_out_of_memory",
           ["Process Process-6:", "Traceback (most recent call last):", FRAME,
            "    faulthandler.enable()", "OSError: [Errno 12] Cannot allocate memory"],
           "Cannot allocate memory", code=1),
    Report("vllm-project/vllm 2391", "host_out_of_memory",
           raised("RuntimeError: unable to mmap 18329065000 bytes from file </m/model.safetensors>:"
                  " Cannot allocate memory (12)"), "18329065000"),
]  # fmt: skip

COMPILED = [
    Report("sgl-project/sglang 1240", "compile_failed",
           raised("subprocess.CalledProcessError: Command '['/usr/bin/gcc', "
                  "'/tmp/tmpx4yubctp/main.c', '-O3', '-shared', '-fPIC', '-lcuda']' returned "
                  "non-zero exit status 1."), "/usr/bin/gcc"),
]  # fmt: skip

ENDED_OTHERWISE = [
    Report("sgl-project/sglang 5770", "segfault",
           ["[t] Rank 0 scheduler is dead. Please check if there are relevant logs.",
            "[t] Child process unexpectedly failed with an exit code 11. pid=293198",
            "[t] Exit code: -11", "Traceback (most recent call last):",
            '  File "/usr/lib/python3.10/runpy.py", line 196, in _run_module_as_main', "EOFError"],
           "crashed in native code", code=1),
    Report("sgl-project/sglang 3451", "segfault",
           ["Fatal Python error: Segmentation fault", "Current thread (most recent call first):"],
           "Segmentation fault"),
]  # fmt: skip

LACKS = [
    Report("fal-ai/fal 478", "oom_load",
           raised('RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at '
                  '"../c10/cuda/CUDACachingAllocator.cpp":830, please report a bug to PyTorch.'),
           "NVML_SUCCESS"),
    Report("EleutherAI/lm-evaluation-harness 1689", "oom_load",
           raised("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
                  "`cublasCreate(handle)`"), "cublasCreate"),
    Report("sgl-project/sglang 10408", "kv_exhausted",
           raised("RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number "
                  "for"
                  " `--max-running-requests`. self.req_to_token_pool.available_size()=1,"),
           "--max-running-requests", LOAD),
    Report("sgl-project/sglang 34676", "kv_exhausted",
           raised("RuntimeError: Prefill out of memory. Try to lower your batch size.",
                  "Try to allocate 8192 tokens.", "Available mamba: 760 (available_size=57)"),
           "Try to lower your batch size", LOAD),
    Report("sgl-project/sglang 2102", "workspace_full",
           raised("RuntimeError: Failed to allocate memory for batch_prefill_tmp_v with size "
                  "435814400 and alignment 16 in AlignedAllocator"), "435814400", LOAD),
    Report("flashinfer-ai/flashinfer 362", "workspace_full",
           raised("RuntimeError: RuntimeError: Out of workspace memory in AlignedAlloactor"),
           "SGLANG_FLASHINFER_WORKSPACE_SIZE", LOAD),
    Report("DeepMotionAIResearch/DenseMatchingBenchmark 20", "oom_load",
           raised("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
                  "`cublasCreate(handle)`"), "CUBLAS_STATUS_ALLOC_FAILED"),
    Report("vllm-project/vllm 2140", "oom_load",  # in a container, its own process has a number
           raised("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 518.00 MiB. "
                  "GPU 0 has a total capacty of 21.67 GiB of which 4.06 MiB is free. Process "
                  "2417585"
                  " has 21.65 GiB memory in use. Of the allocated memory 21.32 GiB is allocated by "
                  "PyTorch"), "518.00 MiB"),
]  # fmt: skip

OF_ANY_TYPE = [
    Report("sgl-project/sglang 3370", "crashed",
           raised("triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: "
                  "114688, Hardware limit: 101376. Reducing block sizes or `num_stages` may help."),
           "OutOfResources: out of resource: shared memory, Required: 114688"),
    Report("state-spaces/mamba 387", "crashed",
           raised("triton.runtime.autotuner.OutOfResources: out of resource: shared memory, "
                  "Required: 663808, Hardware limit: 101376."), "Required: 663808", CAPTURE),
    Report("sgl-project/sglang 29562", "crashed",
           raised("tvm.error.InternalError: Error in function 'TllmGenFmhaRunner' at "
                  "/workspace/fmhaRunner.cuh:37: Unsupported architecture"),
           "InternalError: Error in function 'TllmGenFmhaRunner'"),
    Report("kijai/ComfyUI-HunyuanVideoWrapper 116", "crashed",
           raised("triton.compiler.errors.CompilationError: at 8:11:",
                  "def triton_(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):",
                  "    xnumel = 56623104", "           ^"), "CompilationError: at 8:11:"),
    Report("facebookresearch/blt 124", "crashed",
           raised("triton.compiler.errors.CompilationError: at 3:4:", "    x = s10", "        ^",
                  "NameError('s10 is not defined')"), "NameError('s10 is not defined')"),
    Report("pytorch/pytorch 187337", "crashed",
           raised("torch._inductor.exc.InductorError: AssertionError: vr must not be None for "
                  "symbol "
                  "q3"), "InductorError: AssertionError: vr must not be None"),
    Report("vllm-project/vllm 11564", "system_error",
           raised("zmq.error.ZMQError: Operation not supported"), "Operation not supported"),
]  # fmt: skip

ALL = [*HOSTS, *KILLED, *COMPILED, *ENDED_OTHERWISE, *LACKS, *OF_ANY_TYPE]


def explained(report: Report) -> ExitReason:
    return explain_exit(report.code, report.lines, report.moment)


@pytest.mark.parametrize("report", ALL, ids=lambda report: report.thread)
def test_what_others_met_is_told_in_the_programs_own_words(report: Report) -> None:
    why = explained(report)
    assert why.signature == report.signature, why.reason
    assert report.told in why.reason


@pytest.mark.parametrize("report", [*HOSTS, *KILLED, *COMPILED], ids=lambda report: report.thread)
def test_a_fault_of_the_host_fails_the_trial_and_is_tried_again(report: Report) -> None:
    why = explained(report)
    assert (why.outcome, why.retry) == (Outcome.FAILED, True)
    assert BY_NAME[why.signature].hint in why.reason


@pytest.mark.parametrize("report", LACKS, ids=lambda report: report.thread)
def test_a_lack_of_memory_is_an_amount(report: Report) -> None:
    why = explained(report)
    assert why.outcome is Outcome.INFEASIBLE
    assert why.signature in AMOUNTS
    assert BY_NAME[why.signature].hint in why.reason


def test_a_hint_says_what_to_do_and_speaks_of_no_algorithm_that_may_not_run() -> None:
    assert all(BY_NAME[name].hint for name in (*AMOUNTS, *HOST_FAULTS))
    assert not [row.name for row in LOG_SIGNATURES if "gram" in row.hint.lower()]


GIVEN: Mapping[str, tuple[str, Outcome, str]] = {
    "unbalanced_old.txt": ("gpus_taken", Outcome.FAILED, "min_per_gpu_memory=8.88"),
    "unbalanced_new.txt": ("gpus_taken", Outcome.FAILED, "pre_model_load_memory=147.9"),
    "error802.txt": ("fabric_manager", Outcome.FAILED, "Error 802"),
    "gloo_mesh.txt": ("ranks_apart", Outcome.FAILED, "connectFullMesh"),
    "mamba_room.txt": ("no_state_room", Outcome.INFEASIBLE, "total_rest_memory=0.41 GB"),
    "out_of_resources_start.txt": ("crashed", Outcome.INFEASIBLE, "Hardware limit: 101376"),
    "rank_dead_-9.txt": ("host_out_of_memory", Outcome.FAILED, "Exit code: -9"),
}


@pytest.mark.parametrize("name", GIVEN)
def test_logs_that_were_kept_whole(name: str) -> None:
    head, *lines = (LOGS / name).read_text().splitlines()
    code = int(head.split("exit code ")[1].split(",")[0])
    why = explain_exit(code, lines, START)
    assert (why.signature, why.outcome) == GIVEN[name][:2]
    assert GIVEN[name][2] in why.reason


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.17 GiB. GPU 3 has a total "
    "capacity of 79.11 GiB of which 1.01 GiB is free. "
)
OURS = "Including non-PyTorch memory, this process has 40.10 GiB memory in use. "


@pytest.mark.parametrize(
    ("told", "signature"),
    [
        ("Process 3175 has 37.90 GiB memory in use. " + OURS, "gpus_taken"),
        (OURS + "Process 3175 has 37.90 GiB memory in use. ", "gpus_taken"),
        # In a container every process has a number: of two large ones, one is not ours.
        ("Process 3175 has 37.90 GiB memory in use. Process 8233 has 40.10 GiB memory in use. ",
         "gpus_taken"),
        # Other ranks of ours keep a context of up to 2.1 GiB on the first GPU.
        ("Process 3175 has 2.04 GiB memory in use. Process 3176 has 516.00 MiB memory in use. "
         + OURS, "oom_load"),
        ("Process 3175 has 78.10 GiB memory in use. ", "oom_load"),
    ],
)  # fmt: skip
def test_memory_that_another_process_holds_is_no_lack_of_the_configuration(
    told: str, signature: str
) -> None:
    assert explain_exit(-9, raised(OOM + told), START).signature == signature


def test_a_warning_of_taken_gpus_explains_the_memory_that_then_runs_out() -> None:
    warned = (
        "[t TP3] The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
        "pre_model_load_memory=40.1, local_gpu_memory=78.2, local_gpu_memory * 0.9=70.4"
    )
    lack = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
    assert explain_exit(-9, [warned, *raised(lack)], START).signature == "gpus_taken"
    assert explain_exit(-9, [warned, *raised("ValueError: x")], START).signature != "gpus_taken"


def test_the_first_cause_counts_and_not_what_other_ranks_say_of_it() -> None:
    gone = raised(
        "RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
    )
    cause = raised("ValueError: page size 3 is not a power of two")
    for lines in ([*gone, *cause], [*cause, *gone]):
        assert explain_exit(-9, lines, START).signature == "settings_refused"
    assert explain_exit(-9, gone, START).signature == "ranks_apart"


def test_a_traceback_that_was_only_logged_is_not_taken_for_the_cause() -> None:
    logged = [
        "[t] NVLink detection failed. This is normal if your machine has no NVLink equipped.",
        "Traceback (most recent call last):", FRAME, "KeyError: 'links'",
    ]  # fmt: skip
    why = explain_exit(-9, [*logged, *raised("IndexError: list index out of range")], START)
    assert "list index out of range" in why.reason


def test_an_exception_without_text_is_told_with_its_place() -> None:
    why = explain_exit(-9, raised("NotImplementedError"), LOAD)
    assert why.signature == "crashed"
    assert "NotImplementedError: (in run_scheduler_process, scheduler.py line 1)" in why.reason


def test_no_reason_is_said_of_silence_alone() -> None:
    assert "left no reason" in explain_exit(-9, [SIGQUIT], START).reason
    for report in ALL:
        assert "left no reason" not in explained(report).reason


@pytest.mark.parametrize("words", END_WORDS, ids=lambda words: f"{words.text[:40]} {words.since}")
def test_sglangs_own_words_mean_what_the_table_says(words: object) -> None:
    assert words in END_WORDS
    found = next(each for each in END_WORDS if each is words)
    moment = LOAD if found.signature == "kv_exhausted" else START
    lines = found.sample.splitlines()
    lines = raised(*lines) if "Error: " in found.sample or "Exception: " in found.sample else lines
    why = explain_exit(1, lines, moment)
    assert why.signature == found.signature, why.reason
    assert BY_NAME[why.signature].outcome is why.outcome


def test_every_release_has_words_for_a_rank_that_died_and_for_a_lack_of_memory() -> None:
    for release in RELEASES:
        assert rank_dead(release).holds(release)
        held = {words.signature for words in END_WORDS if words.holds(release)}
        assert {"no_kv_room", "gpus_taken", "kv_exhausted", "forward_hung"} <= held
    assert "is dead" in rank_dead("0.5.9").text
    assert "died during" in rank_dead("0.5.10").text


def test_hosts_are_set_aside_for_faults_of_theirs_alone() -> None:
    assert not HOST_FAULTS & AMOUNTS
    assert all(BY_NAME[name].retry and BY_NAME[name].hint for name in HOST_FAULTS)
