"""What SGLang writes while it starts, in the form of its version.

Read in SGLang 0.5.4, 0.5.9, 0.5.12 to 0.5.15 and 0.5.20 to 0.5.23: srt/distributed/bootstrap.py,
srt/mem_cache/memory_pool.py and, in srt/model_executor, model_runner.py and runner_backend_utils.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from infra.emulated.life.host_folder import Holding
from infra.sglang.flags import version_key

GIB = 2**30
_INIT_ELAPSED_SINCE = "0.5.9"
_WEIGHTS_ELAPSED_SINCE = "0.5.9"
_KV_DTYPE_SINCE = "0.5.13"
_NAMED_GRAPHS_SINCE = "0.5.14"
_PER_REQUEST_SINCE = "0.5.20"
_SIZES_AT_END_SINCE = "0.5.21"
_PARALLEL_SINCE = "0.5.21"
_MODEL = "KimiK25ForConditionalGeneration"


@dataclass(frozen=True, slots=True)
class PhaseLines:
    """Writes the lines of one version."""

    version: str

    def init_begin(self) -> str:
        """Write the line before the communicators are made."""
        return f"Init {self._init} begin."

    def init_end(self, elapsed_s: float, used_gib: float) -> str:
        """Write the line after the communicators are made."""
        elapsed, used = f"elapsed={elapsed_s:.2f} s", f"mem usage={used_gib:.2f} GB"
        if self._since(_PARALLEL_SINCE):
            return f"Init {self._init} ends. {elapsed}"
        parts = [elapsed, used] if self._since(_INIT_ELAPSED_SINCE) else [used]
        return f"Init {self._init} ends. {', '.join(parts)}"

    def weights_bar(self, loaded: int, files: int, elapsed_s: float) -> str:
        """Write how many files of the checkpoint are loaded, as the progress bar does."""
        per_file_s = elapsed_s / max(1, loaded)
        clock = f"{_minutes(elapsed_s)}<{_minutes(per_file_s * (files - loaded))}"
        return (
            f"Loading safetensors checkpoint shards: {100 * loaded / files:3.0f}% Completed "
            f"| {loaded}/{files} [{clock}, {per_file_s:5.2f}s/it]"
        )

    def weights_end(self, elapsed_s: float, free_gib: float, used_gib: float) -> str:
        """Write the line after the weights."""
        memory = f"avail mem={free_gib:.2f} GB, mem usage={used_gib:.2f} GB."
        if self._since(_WEIGHTS_ELAPSED_SINCE):
            return f"Load weight end. elapsed={elapsed_s:.2f} s, type={_MODEL}, {memory}"
        return f"Load weight end. type={_MODEL}, dtype=torch.bfloat16, {memory}"

    def kv_cache(self, room_tokens: int, kv_gib: float) -> str:
        """Write the line about the KV cache."""
        dtype = "dtype: torch.bfloat16, " if self._since(_KV_DTYPE_SINCE) else ""
        size = f"KV size: {max(0.0, kv_gib):.2f} GB"
        return f"KV Cache is allocated. {dtype}#tokens: {room_tokens}, {size}"

    def graphs_begin(self, graphs: "Graphs", free_gib: float) -> list[str]:
        """Write what comes before the graphs."""
        free = f"avail mem={free_gib:.2f} GB"
        if not self._since(_NAMED_GRAPHS_SINCE):
            return [
                f"Capture cuda graph begin. This can take up to several minutes. {free}",
                f"Capture cuda graph bs {list(graphs.sizes)}",
            ]
        sizes = "" if self._since(_SIZES_AT_END_SINCE) else f"bs={list(graphs.sizes)}, "
        unit = "req" if self._since(_PER_REQUEST_SINCE) else "bs"
        return [
            f"Capture target {graphs.kind} CUDA graph begin. backend=full, "
            f"num_tokens_per_{unit}={graphs.tokens_per_request}, {sizes}{free}"
        ]

    def graphs_end(self, graphs: "Graphs", elapsed_s: float, free_gib: float) -> str:
        """Write what comes after the graphs."""
        used, free = f"mem usage={graphs.used_gib:.2f} GB", f"avail mem={free_gib:.2f} GB."
        if not self._since(_NAMED_GRAPHS_SINCE):
            return f"Capture cuda graph end. Time elapsed: {elapsed_s:.2f} s. {used}. {free}"
        sizes = f"bs={list(graphs.sizes)}, " if self._since(_SIZES_AT_END_SINCE) else ""
        elapsed = f"elapsed={elapsed_s:.2f} s"
        return f"Capture target {graphs.kind} CUDA graph end. {sizes}{elapsed}, {used}, {free}"

    def capture_failed(self, error: str) -> str:
        """Write the exception of a capture; its advice differs with the flags of the version."""
        new = self._since(_NAMED_GRAPHS_SINCE)
        sizes = "--cuda-graph-max-bs-decode" if new else "--cuda-graph-max-bs"
        off = "--cuda-graph-backend-decode=disabled" if new else "--disable-cuda-graph"
        return (
            f"Exception: Capture cuda graph failed: {error}\nPossible solutions:\n"
            "1. a lower --mem-fraction-static, such as 0.8\n"
            f"2. a lower {sizes}, such as 16\n3. no graph at all, by {off}, which is slow\n"
        )

    @property
    def _init(self) -> str:
        return "parallel" if self._since(_PARALLEL_SINCE) else "torch distributed"

    def _since(self, version: str) -> bool:
        return version_key(self.version) >= version_key(version)


@dataclass(frozen=True, slots=True)
class Graphs:
    """What a start captures."""

    sizes: Sequence[int]
    tokens_per_request: int
    used_gib: float
    speculates: bool

    @property
    def kind(self) -> str:
        """Return what SGLang calls the forward of a step."""
        return "verify" if self.speculates else "decode"


def _minutes(duration_s: float) -> str:
    minutes, seconds = divmod(int(duration_s), 60)
    return f"{minutes:02d}:{seconds:02d}"


def cuda_out_of_memory(
    *, wanted_gib: float, capacity_gib: float, free_gib: float, gpu: int, others: Sequence[Holding]
) -> str:
    """Write PyTorch's message, which also names who else is on the GPU."""
    own_gib = capacity_gib - free_gib - sum(other.held_bytes for other in others) / GIB
    named = "".join(
        f"Process {other.pid} has {other.held_bytes / GIB:.2f} GiB memory in use. "
        for other in others
    )
    return (
        f"CUDA out of memory. Tried to allocate {wanted_gib:.2f} GiB. GPU {gpu} has a total "
        f"capacity of {capacity_gib:.2f} GiB of which {free_gib:.2f} GiB is free. {named}"
        f"Including non-PyTorch memory, this process has {max(0.0, own_gib):.2f} GiB memory in use."
    )
