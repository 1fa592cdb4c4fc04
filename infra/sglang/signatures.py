"""The table of what SGLang's last lines mean for a trial.

Phrases are those of SGLang 0.5.2 to 0.5.23, PyTorch, NCCL, the CUDA driver and glibc.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from sweeps.results import Outcome


class Moment(StrEnum):
    """When in a server's life a fault counts."""

    START = "start"
    CAPTURE = "graph capture"
    LOAD = "under load"


@dataclass(frozen=True, slots=True)
class Signature:
    """A text in the log and what it means for the trial."""

    name: str
    pattern: re.Pattern[str]
    outcome: Outcome
    reason: str
    hint: str = ""
    retry: bool = False
    """Nothing is wrong with the configuration: the trial may be started once more."""
    moments: tuple[Moment, ...] = ()
    """When it counts; empty: always."""
    codes: tuple[int, ...] = ()
    """Exit codes that mean the same where no text of the table is found."""

    def counts_in(self, moment: Moment) -> bool:
        """Tell whether the text means anything at a moment."""
        return not self.moments or moment in self.moments


def _row(
    name: str,
    outcome: Outcome,
    reason: str,
    pattern: str,
    hint: str = "",
    *,
    retry: bool = False,
    moments: tuple[Moment, ...] = (),
    codes: tuple[int, ...] = (),
) -> Signature:
    compiled = re.compile(pattern, re.MULTILINE)
    return Signature(name, compiled, outcome, reason, hint, retry, moments, codes)


_START, _CAPTURE, _LOAD = (Moment.START,), (Moment.CAPTURE,), (Moment.LOAD,)
_BAD, _FAILED, _HUNG = Outcome.INFEASIBLE, Outcome.FAILED, Outcome.HUNG
# An exception's own line: its type may have a module, and torch puts the rank before it.
_RAISED = r"^(?:\[[^\]\n]*\]:? ?)*(?:[\w.]+\.)?"
_OUT_OF_MEMORY = (
    r"(?P<what>(?:CUDA|HIP|XPU) out of memory(?:\. Tried to allocate [\d.]+ \w+)?"
    r"|CUDA(?: driver)? error: out of memory|\b(?:torch\.|cuda\.)*OutOfMemoryError\b"
    r"|cudaErrorMemoryAllocation)"
)

LOG_SIGNATURES: tuple[Signature, ...] = (
    _row("guard", _FAILED, "ended by its guard", r"^guard: (?P<what>.*)", retry=True),
    # The command line.
    _row("refused_flags", _BAD, "refused flags",
         r"error: unrecognized arguments: (?P<what>.*)", codes=(2,)),
    _row("ambiguous_flag", _BAD, "ambiguous flag", r"error: ambiguous option: (?P<what>.*)"),
    _row("refused_value", _BAD, "refused value", r"error: argument (?P<what>.*)"),
    # The host.
    _row("port_in_use", _FAILED, "port in use",
         r"(?P<what>(?i:address already in use)|\bEADDRINUSE\b|\w+ at \d+ is not available in \d+ "
         r"seconds)",
         "another process took the port between the check and the start", retry=True),
    _row("shared_memory_full", _FAILED, "shared memory is full",
         r"(?P<what>Error while creating shared memory segment [^\n]*"
         r"|failed to extend /dev/shm/[^\n]*|posix_fallocate failed ?: No space left on device"
         r"|/dev/shm/[^\n]*No space left on device|No space left on device[^\n]*/dev/shm"
         r"|unable to (?:write to|allocate|mmap)[^\n]*shared memory|insufficient shared memory)",
         "remove leftovers in /dev/shm, or make it larger", retry=True),
    _row("disk_full", _FAILED, "a disk is full", r"(?P<what>No space left on device[^\n]*)",
         "free space for logs and compile caches"),
    _row("gpu_lost", _FAILED, "a GPU is lost",
         r"(?P<what>has fallen off the bus|\bGPU is lost\b|NVRM: Xid [^\n]*"
         r"|uncorrectable (?:NVLink |ECC )error[^\n]*|no CUDA-capable device is detected"
         r"|CUDA unknown error)",
         "look at the kernel's log (Xid) before this host is used again"),
    _row("gpu_busy", _FAILED, "a GPU is not to be had",
         r"(?P<what>CUDA-capable device\(s\) is/are busy or unavailable)",
         "another process holds it", retry=True),
    _row("no_gpu_driver", _FAILED, "no GPU for SGLang",
         r"(?P<what>Found no NVIDIA driver on your system|No accelerator \([^\n]*is available"
         r"|Torch not compiled with CUDA enabled|has no attribute '_cuda_\w+')",
         "this interpreter's PyTorch sees no CUDA device"),
    _row("host_out_of_memory", _FAILED, "the kernel killed a process, as it does without memory",
         r"(?P<what>scheduler died during initialization \(exit code: -9\)"
         r"|Subprocess \S+ \(pid=\d+\) crashed with exit code -9|Out of memory: Killed process \d+"
         r"|oom-kill:|DefaultCPUAllocator: (?:can't|not enough) [^\n]*|std::bad_alloc"
         r"|^(?:\w+\.)*MemoryError\b)",
         "an n-gram trie of 10 million nodes takes 1.8 GB of RAM in each rank", retry=True),
    _row("compiler_missing", _FAILED, "a compiler is missing",
         r"(?P<what>Ninja is required to load C\+\+ extensions"
         r"|(?:No such file or directory|not found): ?'?(?:ninja|nvcc|g\+\+|c\+\+|gcc)\b"
         r"|\b(?:ninja|nvcc|g\+\+|c\+\+|gcc): (?:command )?not found|Could not find nvcc[^\n]*"
         r"|CUDA_HOME environment variable is not set|Failed to find C compiler)",
         "install ninja, g++ and the CUDA toolkit for the user of the server"),
    _row("compile_failed", _FAILED, "a kernel could not be compiled",
         r"(?P<what>Error building extension '[^'\n]*'|Ninja build failed[^\n]*"
         r"|Command '\['?\S*ninja[^\n]*non-zero exit status \d+|nvcc fatal[^\n]*"
         r"|(?:DeepGEMM|deep_gemm)[^\n]*(?:NVCC|JIT) compilation failed[^\n]*"
         r"|fatal error: \S+\.h: No such file or directory)",
         "the CUDA toolkit does not fit, or the compile cache is broken"),
    _row("model_unreadable", _FAILED, "the model could not be read",
         r"(?P<what>OSError: [^\n]*(?:Repo id must|couldn't connect|is not a local folder"
         r"|does not appear to have a file named|gated repo)[^\n]*"
         r"|Unrecognized model in [^\n]*|SafetensorError: [^\n]*|HeaderTooLarge"
         r"|Cannot find any model weights[^\n]*|Repository Not Found[^\n]*"
         r"|HFValidationError: [^\n]*|LocalEntryNotFoundError[^\n]*)"),
    # GPU memory: the same words mean something else before, during and after the capture.
    _row("nccl_memory", _BAD, "NCCL ran out of GPU memory",
         r"(?:Failed to CUDA (?:calloc|malloc)(?: async)? (?P<what>\d+ bytes)"
         r"|Cuda failure (?:\d+ )?'out of memory')",
         "lower mem_fraction_static or the number of channels"),
    _row("oom_capture", _BAD, "out of memory at graph capture", _OUT_OF_MEMORY,
         "lower mem_fraction_static, the draft width or the largest decode graph",
         moments=_CAPTURE),
    _row("oom_serving", _BAD, "out of memory under load", _OUT_OF_MEMORY,
         "lower mem_fraction_static, max_running_requests or the draft width", moments=_LOAD),
    _row("oom_load", _BAD, "out of memory while loading", _OUT_OF_MEMORY,
         "use more GPUs or a smaller dtype, or see who else is on the GPU", moments=_START),
    _row("no_kv_room", _BAD, "no memory left for the KV cache",
         r"(?P<what>Not enough memory\. Please try to increase --mem-fraction-static[^\n]*)",
         "raise mem_fraction_static"),
    _row("kv_exhausted", _BAD, "the KV cache is too small for one request",
         r"(?P<what>(?:Decode|Prefill) out of memory\. Try to lower your batch size"
         r"|No space left for only one request)",
         "raise mem_fraction_static or shorten the context", moments=_LOAD),
    # Communication.
    _row("custom_all_reduce", _BAD, "custom all-reduce failed",
         r"(?P<what>AttributeError: '\w*(?i:custom_?all_?reduce)\w*' object [^\n]*"
         r"|[^\s\"']*custom_all_reduce\.cuh?:\d+[^\n]*)",
         "it needs NVLink between all GPUs: set disable_custom_all_reduce"),
    _row("nccl_invalid_usage", _BAD, "NCCL refused its settings",
         r"(?:NCCL error.*?|nccl)(?P<what>invalid usage|invalid argument|InvalidUsage"
         r"|InvalidArgument)",
         "a name or number in an NCCL variable is wrong"),
    _row("nccl_no_algorithm", _BAD, "NCCL has no way to do it",
         r"(?P<what>no algorithm/protocol available)",
         "NCCL_ALGO and NCCL_PROTO leave nothing to choose"),
    _row("nccl_timeout", _HUNG, "ranks waited for each other in vain",
         r"(?P<what>Watchdog caught collective operation timeout[^\n]*"
         r"|Timed out after \d+\w* waiting for clients[^\n]*"
         r"|DistStoreError: (?i:timed out)[^\n]*|wait timeout after \d+ ?ms[^\n]*"
         r"|The client socket has timed out[^\n]*)",
         "peer-to-peer that does not work looks like this: try NCCL_P2P_DISABLE=1"),
    _row("nccl_system_error", _FAILED, "a system call of NCCL failed",
         r"(?:NCCL error.*?|nccl)(?P<what>unhandled system error|SystemError)",
         "NCCL_DEBUG=WARN names the call; often /dev/shm or a limit", retry=True),
    _row("nccl_cuda_error", _FAILED, "a CUDA call of NCCL failed",
         r"(?:NCCL error.*?|nccl)(?P<what>unhandled cuda error|UnhandledCudaError)",
         "NCCL_DEBUG=WARN names the call", retry=True),
    _row("nccl_error", _FAILED, "NCCL failed",
         r"(?P<what>NCCL error: (?!unhandled)[^\n]*|nccl(?:Internal|Remote)Error[^\n]*)",
         "NCCL_DEBUG=WARN says more; another rank may have died first", retry=True),
    _row("nccl_library", _FAILED, "no NCCL library",
         r"(?P<what>Failed to load NCCL library[^\n]*|libnccl\S*: cannot open shared object)"),
    # What was asked for does not go together.
    _row("ngram_device", _BAD, "this version has no n-gram speculation on this device",
         r"(?P<what>Ngram speculative decoding only supports [^\n]*)"),
    _row("ngram_range", _BAD, "n-gram settings out of range",
         r"(?P<what>[^\n]*(?:trie_depth|bfs_breadth|match_window_size|branch_length"
         r"|draft_token_num)\b[^\n]* (?:must be|too large)[^\n]*)"),
    _row("missing_kernel", _BAD, "a kernel is missing for this GPU",
         r"(?P<what>no kernel image is available[^\n]*|invalid device function"
         r"|Could not load any common_ops library[^\n]*|undefined symbol: [^\n]*"
         r"|No module named '(?:sgl_kernel|flashinfer|flash_attn|deep_gemm|flash_mla)[\w.]*'"
         r"|(?i:not supported on|requires) (?:this GPU|(?:compute capability|sm_?\d+))[^\n]*)",
         "choose another backend, or kernels that were built for this GPU"),
    _row("unsupported_backend", _BAD, "the backend cannot do this",
         _RAISED + r"(?:ValueError|AssertionError|NotImplementedError|RuntimeError): ?"
         r"(?P<what>[^\n]*(?i:backend)[^\n]*(?:support|Invalid|invalid|requires|only)[^\n]*"
         r"|[^\n]*(?:support|Invalid|invalid|requires)[^\n]*(?i:backend)[^\n]*)",
         "set attention_backend to one that supports it"),
    _row("capture_failed", _BAD, "graph capture failed",
         r"Capture [^\n]*(?:[Gg]raph|draft)[^\n]* failed: (?P<what>[^\n]*)"),
    # Generic ends, from the particular to the vague.
    _row("forward_hung", _HUNG, "a forward took longer than the server's watchdog allows",
         r"(?P<what>(?i:watchdog timeout) \((?![^\n]*soft=True)[^\n]*)"),
    _row("gpu_fault", _BAD, "a kernel failed",
         r"CUDA error: (?P<what>an illegal memory access|unspecified launch failure"
         r"|device-side assert|misaligned address|illegal instruction)"),
    _row("native_abort", _BAD, "aborted in native code",
         r"(?P<what>(?:munmap_chunk|free|malloc|realloc)\(\): [^\n]*"
         r"|double free or corruption[^\n]*|corrupted (?:size|double-linked)[^\n]*"
         r"|malloc_consolidate\(\): [^\n]*|terminate called after throwing[^\n]*"
         r"|Fatal Python error: Aborted|crashed with exit code -6)",
         codes=(-6, 134)),
    _row("segfault", _BAD, "crashed in native code",
         r"(?P<what>Fatal Python error: Segmentation fault|Segfault encountered"
         r"|crashed with exit code -11|Fatal Python error: Bus error)", codes=(-11, -7, 139)),
    _row("settings_refused", _BAD, "settings refused",
         _RAISED + r"(?:ValueError|AssertionError|pydantic\S*ValidationError):? ?(?P<what>.*)",
         moments=(*_START, *_CAPTURE)),
    _row("crashed", _BAD, "the server crashed",
         # What a dying rank leaves says nothing of the cause: that it was killed, perhaps.
         _RAISED + r"(?!RuntimeError: Rank \d+ scheduler died)"
         r"(?P<what>(?:Runtime|Attribute|Import|ModuleNotFound|NotImplemented|Type|Key"
         r"|Index|Name|ZeroDivision|Value|Assertion)Error(?:: .*|$))"),
    _row("worker_died", _FAILED, "a worker died",
         r"(?P<what>(?:Rank \d+ )?scheduler died during initialization [^\n]*"
         r"|Subprocess \S+ \(pid=\d+\) crashed with exit code -?\d+)", retry=True),
    _row("child_failed", _FAILED, "a child of the server failed and left no reason",
         r"(?P<what>Received sigquit from a child process|SIGQUIT received\.)"),
    _row("killed", _FAILED, "killed from outside", r"(?!)",
         "the kernel kills like this when memory runs out", retry=True, codes=(-9, 137)),
)  # fmt: skip
"""Searched in this order; the first that occurs anywhere in the last lines decides."""
