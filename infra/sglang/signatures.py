"""The table of what SGLang's last lines mean for a trial.

Phrases are those of SGLang 0.5.2 to 0.5.23 (`infra.sglang.end_words` has them with their versions),
PyTorch, Triton, NCCL, Gloo, the CUDA driver, Linux and glibc.
"""

import re
from typing import Any

from infra.sglang.signature import Moment, Signature
from sweeps.results import Outcome


def _row(
    name: str, outcome: Outcome, reason: str, pattern: str, hint: str = "", **more: Any
) -> Signature:
    return Signature(name, re.compile(pattern, re.MULTILINE), outcome, reason, hint, **more)


def _host(name: str, reason: str, pattern: str, hint: str) -> Signature:
    """Return a row for a fault of the host: it fails the trial, which is tried again."""
    return _row(name, Outcome.FAILED, reason, pattern, hint, retry=True, of_host=True)


def _died(code: int) -> str:
    """Match what SGLang says of a process that ended with a code: 0.5.2 to 0.5.9, then later."""
    return (
        rf"scheduler is dead[^\n]*\n(?:[^\n]*\n){{0,20}}?[^\n]*Exit code: {code}\b"
        rf"|scheduler died during initialization \(exit code: {code}\)"
        rf"|crashed with exit code {code}\b|terminated with {code}\b"
    )


_START, _CAPTURE, _LOAD = (Moment.START,), (Moment.CAPTURE,), (Moment.LOAD,)
_BAD, _FAILED, _HUNG = Outcome.INFEASIBLE, Outcome.FAILED, Outcome.HUNG
# An exception's own line: its type may have a module, and torch puts the rank before it.
_RAISED = r"^(?:\[[^\]\n]*\]:? ?)*(?:[\w.]+\.)?"
_OUT_OF_MEMORY = (
    r"(?P<what>(?:CUDA|HIP|XPU) (?:error: )?out of memory(?:\. Tried to allocate [\d.]+ \w+)?"
    r"|(?:CUDA(?: driver| runtime)?|CUDART|cudaMalloc\w*|cuMem\w+)(?: error:?| failed:?|:)"
    r"[^\n]{0,40}\bout of memory\b|Triton Error \[\w+\]: out of memory"
    r"|\b(?:torch\.|cuda\.)*OutOfMemoryError\b(?:: [^\n]{0,200})?"
    r"|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY"
    r"|CU(?:BLAS|DNN|SOLVER|SPARSE)_STATUS_ALLOC_FAILED|CUDA error 2\(out of memory\)"
    # A handle finds no room, and what asks NVML who has it fails in its turn.
    r"|CU(?:BLAS|DNN)_STATUS_NOT_INITIALIZED[^\n]*|NVML_SUCCESS == r INTERNAL ASSERT[^\n]*)"
)
_UNBALANCED = r"The memory capacity is unbalanced\. Some GPUs may be occupied[^\n]*"
"""Raised up to 0.5.6 and where a variable asks for it, else a warning before memory runs out."""
_OTHER_HOLDS = r"Process \d+ has (?:[4-9]|\d{2,})(?:\.\d+)? GiB memory in use"
"""In PyTorch's message. Less than 4 GiB may be the context of another rank of ours."""
_COMPILERS = r"(?:ninja|nvcc|ptxas|g\+\+|c\+\+|gcc)"
_APART = (
    r"Gloo connectFullMesh failed[^\n]*|gloo/transport/[^\n]*"
    r"|Connection (?:closed|reset) by peer[^\n]*|Connection was likely closed[^\n]*"
    r"|Unable to find (?:address|interface) for[^\n]*|recvValue failed[^\n]*"
    r"|Timed out after \d+\w* (?:\w+ )?waiting for clients[^\n]*"
    r"|DistStoreError: (?i:timed out)[^\n]*|wait timeout after \d+ ?ms[^\n]*"
    r"|The client socket has (?:timed out|failed to connect)[^\n]*"
    r"|network addresses of [^\n]* cannot be retrieved[^\n]*"
    r"|[Nn]o socket interface found|Failed to receive worker ports from node 0[^\n]*"
    r"|Timed out initializing process group in store based barrier[^\n]*"
    r"|monitoredBarrier[^\n]*|timed out waiting for POSIX fd exchange"
    r"|POSIX fd exchange (?:mismatch|receive failed)[^\n]*"
)
"""What ranks say that cannot reach each other, or of which one is gone."""
_SYSTEM_ERRORS = (
    r"(?:OSError|IOError|PermissionError|BlockingIOError|InterruptedError|ChildProcessError"
    r"|ProcessLookupError|TimeoutError|Timeout|ConnectionError|Connection\w+Error|BrokenPipeError"
    r"|ZMQError|gaierror|herror|NVMLError\w*|\w*NetworkError|ProxyError|SSLError|ReadTimeout\w*"
    r"|Connect\w*Timeout\w*|ConnectError|ReadError|RemoteProtocolError|MaxRetryError|HTTPError"
    r"|HTTPStatusError|HfHubHTTPError|ClientConnectorError|IncompleteRead|ChunkedEncodingError)"
)

CONSEQUENCE = re.compile(
    _APART + r"|Rank \d+ scheduler died|^EOFError\b|Initialization failed\. Please see"
    r"|Broken pipe|^(?:KeyboardInterrupt|SystemExit)\b"
)
"""Exceptions that follow from the end of another process and say nothing of its cause."""

LOG_SIGNATURES: tuple[Signature, ...] = (
    _row("guard", _FAILED, "ended by its guard", r"^guard: (?P<what>.*)", retry=True),
    # The command line.
    _row("refused_flags", _BAD, "refused flags",
         r"error: unrecognized arguments: (?P<what>.*)", codes=(2,)),
    _row("ambiguous_flag", _BAD, "ambiguous flag", r"error: ambiguous option: (?P<what>.*)"),
    _row("refused_value", _BAD, "refused value", r"error: argument (?P<what>.*)"),
    # The host.
    _row("port_in_use", _FAILED, "port in use",
         r"(?P<what>(?i:address already in use)|\bEADDRINUSE\b|\b\w+ at \d+ is not available in "
         r"\d+ "
         r"seconds|Could not bind port \d+[^\n]*|\b\w{1,80}_port \d+ is already in use)",
         "another process took the port between the check and the start", retry=True),
    _host("gpus_taken", "another process holds GPU memory",
          _RAISED + r"(?:ValueError|RuntimeError): (?P<unbalanced>" + _UNBALANCED + r")"
          r"|(?P<warned>" + _UNBALANCED + r")(?=[\s\S]*(?:out of memory|OutOfMemory|Not enough))"
          r"|(?P<what>(?:CUDA |HIP )?out of memory[^\n]*(?:" + _OTHER_HOLDS + r"[^\n]*this "
                                                                              r"process has"
          r"|this process has[^\n]*" + _OTHER_HOLDS + "|" + _OTHER_HOLDS + r"[^\n]*" + _OTHER_HOLDS
          + r")[^\n]*)",
          "see with nvidia-smi who is on the GPUs, and end it or wait"),
    _host("fabric_manager", "the GPUs' fabric is not up",
          r"(?P<what>Error 802: [^\n]*|system not yet initialized|cudaErrorSystemNotReady"
          r"|CUDA_ERROR_SYSTEM_NOT_READY)",
          "start nvidia-fabricmanager, in the version of the driver"),
    _host("driver_mismatch", "the GPU driver does not fit",
          r"(?P<what>(?:Error 80[34]: )?(?:system has )?unsupported display driver[^\n]*"
          r"|(?:Error 804: )?forward compatibility was attempted[^\n]*"
          r"|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|CUDA_ERROR_COMPAT_NOT_SUPPORTED\w*"
          r"|cudaErrorSystemDriverMismatch|cudaErrorCompatNotSupported\w*"
          r"|NVIDIA driver on your system is too old[^\n]*|cudaErrorInsufficientDriver"
          r"|driver version is insufficient for CUDA[^\n]*|CUDA driver is a stub library"
          r"|(?i:driver/library version mismatch|NVML/RM version mismatch)"
          r"|NVMLError_LibRmVersionMismatch|LIB_RM_VERSION_MISMATCH|[Uu]nsupportedPtxVersion"
          r"|PTX was compiled with an unsupported toolchain|UNSUPPORTED_PTX_VERSION"
          r"|device kernel image is invalid)",
          "install a driver for this CUDA, or reboot after an update of the driver"),
    _host("gpu_lost", "a GPU is lost",
          r"(?P<what>has fallen off the bus|\bGPU is lost\b|NVMLError_GpuIsLost|NVRM: Xid [^\n]*"
          r"|uncorrectable (?:NVLink |ECC )error[^\n]*|cudaError(?:ECC|Nvlink)Uncorrectable"
          r"|(?:no CUDA-capable device is|No CUDA GPUs are) [^\n]*|CUDA unknown error"
          r"|Error 999: unknown error|CUDA error: unknown error|Unable to determine the device "
          r"handle[^\n]*|GPU requires reset|No devices were found"
          r"|Failed to initialize NVML: Unknown Error|NVMLError_Unknown)",
          "look at the kernel's log (Xid) before this host is used again"),
    _host("gpu_missing", "fewer GPUs than ranks are visible",
          r"(?P<what>invalid device ordinal|device >= 0 && device < num_gpus INTERNAL ASSERT[^\n]*"
          r"|CUDA_ERROR_INVALID_DEVICE\b|cudaErrorInvalidDevice\b)",
          "compare nvidia-smi with CUDA_VISIBLE_DEVICES and tp_size"),
    _host("gpu_busy", "a GPU is not to be had",
          r"(?P<what>(?:all )?CUDA-capable devices?(?:\(s\) is/are| are) busy or unavailable"
          r"|MPS (?:client|server)[^\n]*)",
          "another process holds it"),
    _host("no_gpu_driver", "no GPU for SGLang",
          r"(?P<what>Found no NVIDIA driver on your system|No (?:supported )?accelerator \([^\n]*"
          r"available|Torch not compiled with CUDA enabled|has no attribute '_cuda_\w+'"
          r"|nvidia-smi not found[^\n]*|No CUDA devices found via torch\.cuda"
          r"|torch\.cuda\.mem_get_info\(\) fallback also failed[^\n]*"
          r"|libcuda\.so\S*: cannot open shared object"
          r"|NVMLError_(?:LibraryNotFound|DriverNotLoaded)"
          r"|NVML Shared Library Not Found|Cannot access accelerator device[^\n]*"
          r"|\d+ active drivers \([^\n]*|libcuda\.so cannot found)",
          "this interpreter's PyTorch sees no CUDA device"),
    _host("gpu_too_old", "the GPU is too old for SGLang",
          r"(?P<what>SGLang only supports sm\d+ and above"
          r"|^[^\n]*Error: [^\n]*requires GPUs? with sm_?\d+[^\n]*)",
          "use another host"),
    _host("cuda_unusable", "CUDA cannot be used",
          r"(?P<what>Unexpected error from cudaGetDeviceCount\(\)[^\n]*"
          r"|(?:Error 304|CUDA error): OS call failed[^\n]*|CUDA driver initialization failed[^\n]*"
          r"|(?:Error 3|CUDA error): initialization error)",
          "try `python -c 'import torch; torch.cuda.init()'` there"),
    _host("too_many_files", "too many open files",
          r"(?P<what>(?:^[^\n]*: )?Too many open files[^\n]*|received \d+ items of ancdata"
          r"|\bEMFILE\b)",
          "raise the limit of the server's user (`ulimit -n`, LimitNOFILE)"),
    _host("too_many_threads", "no more threads or processes",
          r"(?P<what>can't start new thread|pthread_create failed[^\n]*"
          r"|libgomp: Thread creation failed[^\n]*"
          r"|(?:fork: (?:retry: )?|\[Errno 11\] )Resource temporarily unavailable)",
          "raise the limit of the server's user (`ulimit -u`, TasksMax, pids.max)"),
    _host("shared_memory_full", "shared memory is full",
          r"(?P<what>Error while creating shared memory segment [^\n]*"
          r"|failed to extend /dev/shm/[^\n]*|posix_fallocate failed ?: No space left on device"
          r"|/dev/shm/[^\n]*No space left on device|No space left on device[^\n]*/dev/shm"
          r"|unable to (?:write to|allocate|mmap)[^\n]*shared memory|insufficient shared memory"
          r"|Fatal Python error: Bus error|killed by signal: Bus error"
          r"|^Bus error(?: \(core dumped\))?$|" + _died(-7) + ")",
          "remove leftovers in /dev/shm, or make it larger"),
    _host("disk_full", "a disk is full",
          r"(?P<what>(?:No space left on device|Disk quota exceeded|Read-only file system)[^\n]*)",
          "free space for logs and compile caches"),
    _host("storage_failed", "storage failed",
          r"(?P<what>\[Errno \d+\] (?:Input/output error|Stale file handle|Remote I/O error"
          r"|Transport endpoint is not connected|Structure needs cleaning)[^\n]*)",
          "look at the disk, or at the network file system"),
    _host("compiler_old", "a compiler does not fit",
          r"(?P<what>(?:ptxas|nvcc) (?:[^\n]*; )?fatal[^\n]*"
          r"|Unsupported \.(?:version|target) [^\n]*"
          r"|Value '\w+' is not defined for option[^\n]*|[Cc]annot find (?:\w+ )*ptxas[^\n]*"
          r"|(?i:unsupported gpu architecture)[^\n]*|unsupported GNU version[^\n]*"
          r"|^[^\n]*Error: [^\n]*(?:NVCC|nvcc|CUDA)(?: toolkit)?(?: version)? (?:should|must) be "
          r"[^\n]*"
          r"|^[^\n]*Error: (?![^\n]*--)[^\n]*requires (?:CUDA|nvcc|ptxas)[^\n]*(?:>=|or "
          r"(?:later|newer|higher))[^\n]*"
          r"|detected CUDA version [^\n]*mismatches[^\n]*"
          r"|No supported CUDA architectures found[^\n]*"
          r"|unrecognized command[- ]line option[^\n]*|compatible compiler is required[^\n]*"
          r"|version `(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+' not found[^\n]*)",
          "install the CUDA toolkit and g++ that this PyTorch asks for; TRITON_PTXAS_PATH names "
          "another ptxas"),
    _host("compiler_missing", "a compiler is missing",
          r"(?P<what>Ninja is required to load C\+\+ extensions"
          r"|(?:No such file or directory|not found): ?'?(?:[^\s']*/)?" + _COMPILERS + r"\b"
          r"|\b" + _COMPILERS + r": (?:command )?not found|Could not find nvcc[^\n]*"
          r"|CUDA_HOME environment variable is not set|Failed to find C compiler"
          r"|No working C\+\+ compiler found[^\n]*"
          r"|fatal error: (?:Python|cuda_runtime|cuda)\.h: No such file|cannot find -lcuda\w*)",
          "install ninja, g++ and the CUDA toolkit for the user of the server"),
    _row("compile_failed", _FAILED, "a kernel could not be compiled",
         r"(?P<what>Error building extension '[^'\n]*'|Ninja build failed[^\n]*"
         r"|Command '\['?\S*(?:ninja|" + _COMPILERS + r")\b[^\n]*non-zero exit status \d+"
         r"|ninja: build stopped[^\n]*"
         r"|Failed to build JIT module[^\n]*|(?:NVCC|JIT) compilation failed[^\n]*"
         r"|fatal error: \S+\.h: No such file or directory)",
         "the CUDA toolkit does not fit, or the compile cache is broken", retry=True),
    _host("package_outdated", "a package does not fit",
          r"(?P<what>(?<!\S)\S+ is installed with version \S+?,? which is less than the "
          r"minimum[^\n]*"
          r"|(?<!\S)\S+ with minimum required version \S+ is not installed[^\n]*"
          r"|The checkpoint [^\n]*Transformers does not recognize this architecture[^\n]*)",
          "install what this SGLang asks for"),
    _row("model_unreadable", _FAILED, "the model could not be read",
         r"(?P<what>OSError: [^\n]*(?:Repo id must|couldn't connect|is not a local folder"
         r"|does not appear to have a file named|gated repo)[^\n]*"
         r"|Unrecognized model in [^\n]*|SafetensorError: [^\n]*|HeaderTooLarge"
         r"|Cannot find any model weights[^\n]*|Repository Not Found[^\n]*"
         r"|HFValidationError: [^\n]*|LocalEntryNotFoundError[^\n]*)",
         "see that the path and the network are those that this host has", retry=True),
    # GPU memory: the same words mean something else before, during and after the capture.
    _row("nccl_memory", _BAD, "NCCL ran out of GPU memory",
         r"(?:Failed to CUDA (?:calloc|malloc)(?: async)? (?P<what>\d+ bytes)"
         r"|Cuda failure (?:\d+ )?'out of memory')",
         "lower mem_fraction_static or the number of channels", amount=True),
    _row("oom_capture", _BAD, "out of memory at graph capture", _OUT_OF_MEMORY,
         "lower mem_fraction_static, the draft width or the largest decode graph",
         moments=_CAPTURE, amount=True),
    _row("oom_serving", _BAD, "out of memory under load", _OUT_OF_MEMORY,
         "lower mem_fraction_static, max_running_requests or the draft width",
         moments=_LOAD, amount=True),
    _row("oom_load", _BAD, "out of memory while loading", _OUT_OF_MEMORY,
         "use more GPUs or a smaller dtype, or see who else is on the GPU",
         moments=_START, amount=True),
    _row("workspace_full", _BAD, "the attention workspace is too small",
         r"(?P<what>(?:Failed to allocate memory for|Buffer overflow when allocating memory for)"
         r"[^\n]*|Out of workspace memory in AlignedAll[^\n]*)",
         "raise SGLANG_FLASHINFER_WORKSPACE_SIZE", amount=True),
    _row("no_kv_room", _BAD, "no memory left for the KV cache",
         r"(?P<what>Not enough memory\. Please try to increase --mem-fraction-static[^\n]*"
         r"|Memory pool size is too small|max_running_request is zero"
         r"|^[^\n]*leaves no room for (?:the full KV pool|real data)[^\n]*)",
         "raise mem_fraction_static", amount=True),
    _row("no_host_room", _BAD, "not enough RAM for a cache in it",
         r"(?P<what>Not enough host memory[^\n]*|HiSparse host mem pool alloc failed[^\n]*)",
         "make the hierarchical cache smaller", amount=True),
    _row("no_state_room", _BAD, "no memory left for a cache",
         r"(?P<what>Not enough (?:\w+ )?(?:memory|space for)\b[^\n]*"
         r"|[Ff]ailed to allocate [^\n]*(?:bytes|[KMG]i?B|memory|slots|pages)\b[^\n]*"
         r"|^[^\n]*(?:state cache|pool) is too small to serve[^\n]*"
         r"|^[^\n]*\bneeds ~?[\d.]+ ?GB but only [\d.]+ ?GB[^\n]*|^[^\n]*does not fit; lower "
         r"--[^\n]*"
         r"|Capture batch needs \d+ request slots[^\n]*|Failed to allocate sparse KV buffer[^\n]*"
         r"|DSA top-k length exceeds [^\n]*)",
         "lower max_running_requests or the draft width, or change mem_fraction_static",
         amount=True),
    _row("kv_exhausted", _BAD, "the KV cache is too small for one request",
         r"(?P<what>(?:Decode|Prefill) out of memory\. Try to lower your batch size"
         r"|No space left for only one request|alloc_req_slots runs out of memory[^\n]*"
         r"|^[^\n]*\bOOM when allocating[^\n]*|Retraction host KV pool exhausted[^\n]*)",
         "raise mem_fraction_static or shorten the context", amount=True),
    # Communication.
    _row("custom_all_reduce", _BAD, "custom all-reduce failed",
         r"(?P<what>AttributeError: '\w*(?i:custom_?all_?reduce)\w*' object [^\n]*"
         r"|(?<![^\s\"'])[^\s\"']*custom_all_reduce\.cuh?:\d+[^\n]*)",
         "it needs NVLink between all GPUs: set disable_custom_all_reduce"),
    _row("nccl_invalid_usage", _BAD, "NCCL refused its settings",
         r"(?:NCCL error.*?|nccl)(?P<what>invalid usage|invalid argument|InvalidUsage"
         r"|InvalidArgument)",
         "a name or number in an NCCL variable is wrong"),
    _row("nccl_no_algorithm", _BAD, "NCCL has no way to do it",
         r"(?P<what>no algorithm/protocol available)",
         "NCCL_ALGO and NCCL_PROTO leave nothing to choose"),
    _row("nccl_timeout", _HUNG, "ranks waited for each other in vain",
         r"(?P<what>Watchdog caught collective operation timeout[^\n]*)",
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
         r"^(?P<what>[^\n]*(?:trie_depth|bfs_breadth|match_window_size|branch_length"
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
         r"Capture [^\n]*(?:[Gg]raph|draft)[^\n]* failed: (?![^\n]*(?:" + _APART + r"))"
         r"(?P<what>[^\n]*)"),
    # Generic ends, from the particular to the vague.
    _row("forward_hung", _HUNG, "a forward took longer than the server's watchdog allows",
         r"(?P<what>(?i:watchdog timeout) \((?![^\n]*soft=True)[^\n]*)"),
    _row("gpu_fault", _BAD, "a kernel failed",
         r"CUDA error: (?P<what>an illegal memory access|unspecified launch failure"
         r"|device-side assert|misaligned address|illegal instruction)"),
    _row("native_abort", _BAD, "aborted in native code",
         r"(?P<what>(?:munmap_chunk|free|malloc|realloc)\(\): [^\n]*"
         r"|double free or corruption[^\n]*|corrupted (?:size|double-linked)[^\n]*"
         r"|malloc_consolidate\(\): [^\n]*"
         r"|terminate called after throwing(?! an instance of 'gloo::)[^\n]*(?:\n\s*what\(\): "
         r"[^\n]*)?"
         r"|Fatal Python error: Aborted|" + _died(-6) + ")",
         codes=(-6, 134)),
    _row("segfault", _BAD, "crashed in native code",
         r"(?P<what>Fatal Python error: Segmentation fault|Segfault encountered|"
         + _died(-11) + ")",
         codes=(-11, 139)),
    _row("host_out_of_memory", _FAILED, "the kernel killed a process, as it does without memory",
         r"(?P<what>" + _died(-9) + r"|(?i:out of memory): Killed process \d+"
         r"|oom-kill:|DefaultCPUAllocator: (?:can't|not enough) [^\n]*|std::bad_alloc"
         r"|\[Errno 12\] Cannot allocate memory|unable to mmap [^\n]*|cudaHostRegister failed[^\n]*"
         r"|^[^\n]*host memory allocat[^\n]*null pointer[^\n]*|^(?:\w+\.)*MemoryError\b[^\n]*)",
         "see `dmesg -T`; free RAM, or raise the limit of its container or unit", retry=True),
    _row("settings_refused", _BAD, "settings refused",
         r"^(?:[\w.]+\.)?(?:ValueError|AssertionError|ValidationError):? ?(?P<what>.*)",
         moments=(*_START, *_CAPTURE), raised=True),
    _row("file_missing", _FAILED, "a file is missing",
         r"^(?:[\w.]+\.)?(?P<what>(?:FileNotFoundError|NotADirectoryError)\b.*)",
         "look whether the path is the one on that host", retry=True, raised=True),
    _row("library_missing", _FAILED, "a library is missing",
         r"^(?P<what>ImportError: .*cannot open shared object file.*)",
         "install it, or name its folder in LD_LIBRARY_PATH",
         retry=True, of_host=True, raised=True),
    _row("system_error", _FAILED, "the system refused something",
         r"^(?:[\w.]+\.)?(?P<what>" + _SYSTEM_ERRORS + r"\b.*)",
         "look for what it names on that host: a permission, a limit, a service or the network",
         retry=True, of_host=True, raised=True),
    _row("crashed", _BAD, "the server crashed", r"^(?:[\w.]+\.)?(?P<what>\w.*)", raised=True),
    _host("ranks_apart", "ranks cannot reach each other", r"(?P<what>" + _APART + ")",
          "see that the host's name leads to one of its own addresses; GLOO_SOCKET_IFNAME and "
          "NCCL_SOCKET_IFNAME name the interface"),
    _row("worker_died", _FAILED, "a worker died",
         r"(?P<what>(?:Rank \d+ )?scheduler died during initialization [^\n]*"
         r"|Subprocess \S+ \(pid=\d+\) crashed with exit code -?\d+"
         r"|Rank \d+ scheduler is dead[^\n]*(?:\n(?:[^\n]*\n){0,20}?[^\n]*Exit code: -?\d+)?"
         r"|Scheduler or DataParallelController \d+ terminated with -?\d+)", retry=True),
    _row("child_failed", _FAILED, "a child of the server failed and left no reason",
         r"(?P<what>Received sigquit from a child process|SIGQUIT received\.)", retry=True),
    _row("killed", _FAILED, "killed from outside", r"(?!)",
         "the kernel kills like this when memory runs out", retry=True, codes=(-9, 137)),
    _row("bus_error", _FAILED, "a page of memory could not be had (SIGBUS)", r"(?!)",
         "make /dev/shm larger; a file that was cut while it is read ends so, too",
         retry=True, of_host=True, codes=(-7, 135)),
)  # fmt: skip
"""Searched in this order; the first that occurs anywhere in the last lines decides."""

AMOUNTS = frozenset(row.name for row in LOG_SIGNATURES if row.amount)
"""Lack of memory depends on amounts: no single value is to blame, the search learns the border."""

HOST_FAULTS = frozenset(row.name for row in LOG_SIGNATURES if row.of_host)
"""Faults of a host, which say nothing of a configuration."""
