"""The start of an emulated server up to the open port: phases, log lines and failures."""

import logging
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from infra.clock import Clock
from infra.emulated.arguments import Emulation
from infra.emulated.cost import kv_room_tokens
from infra.emulated.life.host_folder import GpuMemory, HostFolder
from infra.emulated.life.phase_lines import GIB, Graphs, PhaseLines, cuda_out_of_memory
from infra.emulated.life.ranks import Ranks
from infra.emulated.logs import RANK, SERVER, die, tell_of_each
from infra.emulated.rules import communicator_fault, load_fault
from infra.emulated.scenario import (
    OomMoment,
    OutOfMemory,
    PageCache,
    StartPhase,
    StartWorld,
)
from infra.emulated.settings import Algorithm, Settings
from infra.emulated.truth import HostTruth, Span
from infra.sglang.end_words import rank_dead
from infra.sglang.flags import version_key
from sweeps.values import Value, digest

LOSS_NOTICED_SINCE = "0.5.10"
"""Older versions notice the first rank alone: for another one that has died they wait for ever."""
HANG_LIMIT_S = 3600.0
"""Wall seconds after which even a server that hangs ends."""
_LOAD_LOOK_S = 5.0
"""Host seconds between two looks for processes that died while loading."""
_LEAST_LOOK_S = 0.05
BROKEN_WEIGHTS = "safetensors_rust.SafetensorError: Error while deserializing header"
_GRAPH_SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256)
_CONTEXT_GIB = 0.6
"""Assumption: CUDA's and NCCL's own memory."""
_GRAPH_GIB_PER_SIZE = 0.05
"""Assumption."""
_WEIGHT_FILES = 64
"""Assumption: what a checkpoint of half a terabyte is cut into."""
_WEIGHT_CHUNK_GIB = 1.17
"""Assumption: the allocation that does not fit any more."""
_COMPILED_FOR = (
    "model_path", "dtype", "quantization", "kv_cache_dtype", "attention_backend",
    "prefill_attention_backend", "decode_attention_backend", "page_size", "tp_size",
    "enable_torch_compile", "speculative_algorithm", "speculative_num_draft_tokens",
    "speculative_num_steps", "speculative_eagle_topk",
)  # fmt: skip
"""Assumption: what a kernel is compiled for."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: what was given, what SGLang makes of it, and how it is emulated."""

    argv: Sequence[str]
    args: Mapping[str, Value]
    settings: Settings
    emulation: Emulation
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def truth(self) -> HostTruth:
        """Return the constants of the host."""
        return self.emulation.truth

    @property
    def free_gib(self) -> float:
        """Return the memory that is left on a GPU beside weights and KV cache."""
        return (1 - self.settings.mem_fraction) * self.truth.gpu_memory_gib

    @property
    def model(self) -> str:
        """Return the path of the model."""
        return str(self.args["model_path"])

    @property
    def kernels_key(self) -> str:
        """Return what tells apart the launches that compile different kernels."""
        given = [self.args.get(name) for name in _COMPILED_FOR]
        return digest([self.emulation.version, self.truth.gpu.name, *given])

    def is_since(self, version: str) -> bool:
        """Tell whether this is a version or a newer one."""
        return version_key(self.emulation.version) >= version_key(version)

    def with_gpu_memory(self, available_gib: float) -> "Launch":
        """Return the launch on a host whose GPUs have so much: others may hold the rest."""
        gpu = replace(self.truth.gpu, memory_gib=available_gib)
        emulation = replace(self.emulation, truth=replace(self.truth, gpu=gpu))
        return replace(self, emulation=emulation)


@dataclass(frozen=True, slots=True)
class StartTimes:
    """How long each phase of this start takes, in host seconds."""

    spawn_s: float
    distributed_init_s: float
    weights_s: float
    memory_pool_s: float
    graphs_s: float
    warm_up_s: float
    """The first request after a start pays this."""
    graph_sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Caches:
    """What earlier servers of the host have left behind."""

    weights_cold: bool = False
    kernels_cold: bool = False


def read_caches(launch: Launch, folder: HostFolder | None) -> Caches:
    """Look what is cached for a launch. A server without a host folder finds all of it."""
    if folder is None:
        return Caches()
    return Caches(
        weights_cold=not folder.has_weights(launch.model),
        kernels_cold=not folder.has_kernels(launch.kernels_key),
    )


_HEALTHY_START = StartWorld()
_WARM = Caches()


def plan_start(
    truth: HostTruth,
    settings: Settings,
    seed: int,
    world: StartWorld = _HEALTHY_START,
    caches: Caches = _WARM,
) -> StartTimes:
    """Draw the phases of a start; the same arguments give the same."""
    rng = random.Random(f"{seed}:{settings.launch}:start")
    phases = truth.start
    cold = caches.weights_cold if world.page_cache is None else world.page_cache is PageCache.COLD

    def drawn(span: Span) -> float:
        return rng.uniform(span.low_s, span.high_s)

    def told(phase: StartPhase, duration_s: float) -> float:
        return world.slow_factor * world.durations_s.get(phase, duration_s)

    sizes = graph_sizes(settings)
    graphs_s = drawn(phases.graph_per_size) * len(sizes) * (1 + 0.1 * settings.draft_tokens / 8)
    draft_graphs_s = drawn(phases.eagle_graphs)
    if settings.algorithm is Algorithm.EAGLE and sizes:
        graphs_s += draft_graphs_s
    return StartTimes(
        spawn_s=told(StartPhase.SPAWN, drawn(phases.spawn)),
        distributed_init_s=told(StartPhase.DISTRIBUTED_INIT, drawn(phases.distributed_init)),
        weights_s=told(StartPhase.WEIGHTS, drawn(phases.cold_weights if cold else phases.weights)),
        memory_pool_s=told(StartPhase.MEMORY_POOL, drawn(phases.memory_pool)),
        graphs_s=told(StartPhase.GRAPHS, graphs_s),
        warm_up_s=told(
            StartPhase.WARM_UP,
            drawn(phases.cold_warm_up if caches.kernels_cold else phases.warm_up),
        ),
        graph_sizes=sizes,
    )


def graph_sizes(settings: Settings) -> tuple[int, ...]:
    """Return the batch sizes that a start captures."""
    if not settings.cuda_graph:
        return ()
    top = min(settings.graph_max_batch, settings.max_running_requests)
    return tuple(size for size in _GRAPH_SIZES if size <= top) or (1,)


def runs_out(rule: OutOfMemory, moment: OomMoment, settings: Settings, requests: int) -> bool:
    """Tell whether memory runs out while loading: `requests` is the largest batch captured."""
    return (
        rule.moment is moment
        and requests >= rule.running_requests_from
        and not rule.context_tokens_from
        and settings.draft_tokens >= rule.draft_tokens_from
        and settings.mem_fraction >= rule.mem_fraction_from
    )


@dataclass(frozen=True, slots=True)
class Loader:
    """Spends the start phases; ends the process where SGLang would."""

    launch: Launch
    times: StartTimes
    clock: Clock
    ranks: Ranks
    memory: GpuMemory
    folder: HostFolder | None

    def load(self) -> Launch:
        """Load; return the launch with the GPU memory that it found."""
        self._spend(StartPhase.SPAWN, self.times.spawn_s)
        self._make_communicators()
        loader = replace(self, launch=self._load_weights())
        loader.allocate()
        return loader.launch

    def allocate(self) -> None:
        """Take the KV cache and capture the graphs, with the weights loaded."""
        if fault := load_fault(self.launch.args, self.launch.settings, self.launch.truth):
            self._fail(fault)
        self._spend(StartPhase.MEMORY_POOL, self.times.memory_pool_s)
        room = kv_room_tokens(self.launch.truth, self.launch.settings)
        kv_gib = self._static_gib - self.launch.truth.weights_gib
        self._tell(self._lines.kv_cache(room, kv_gib), ends=StartPhase.MEMORY_POOL)
        self.memory.hold(int(self._static_gib * GIB))
        self._tell(f"Memory pool end. avail mem={self.launch.free_gib:.2f} GB")
        if self.times.graph_sizes:
            self._capture_graphs()
        self._log_limits(room)

    @property
    def _lines(self) -> PhaseLines:
        return PhaseLines(self.launch.emulation.version)

    @property
    def _static_gib(self) -> float:
        return self.launch.truth.gpu_memory_gib - self.launch.free_gib

    @property
    def _graphs(self) -> Graphs:
        settings = self.launch.settings
        used_gib = min(_GRAPH_GIB_PER_SIZE * len(self.times.graph_sizes), self.launch.free_gib)
        sizes = self.times.graph_sizes
        return Graphs(sizes, settings.draft_tokens, max(0.0, used_gib), settings.speculates)

    def _make_communicators(self) -> None:
        self._tell(self._lines.init_begin())
        self._spend(StartPhase.DISTRIBUTED_INIT, self.times.distributed_init_s)
        if fault := communicator_fault(self.launch.settings):
            self._fail(fault)
        self.memory.hold(int(_CONTEXT_GIB * GIB))
        ended = self._lines.init_end(self.times.distributed_init_s, _CONTEXT_GIB)
        self._tell(ended, ends=StartPhase.DISTRIBUTED_INIT)

    def _load_weights(self) -> Launch:
        truth = self.launch.truth
        wanted_gib = truth.weights_gib
        taken = self.memory.take(int(wanted_gib * GIB))
        available_gib = taken.free_bytes / GIB
        self._tell(f"Load weight begin. avail mem={available_gib:.2f} GB")
        self._spend(StartPhase.WEIGHTS, self.times.weights_s, self._bar())
        if available_gib < wanted_gib or self._runs_out(OomMoment.WEIGHTS):
            message = cuda_out_of_memory(
                wanted_gib=_WEIGHT_CHUNK_GIB,
                capacity_gib=truth.gpu_memory_gib,
                free_gib=_WEIGHT_CHUNK_GIB / 2,
                gpu=taken.gpu_index,
                others=taken.others,
            )
            self._fail(f"torch.OutOfMemoryError: {message}")
        if self.folder is not None:
            self.folder.keep_weights(self.launch.model)
        free_gib = available_gib - wanted_gib
        ended = self._lines.weights_end(self.times.weights_s, free_gib, wanted_gib)
        self._tell(ended, ends=StartPhase.WEIGHTS)
        return self.launch.with_gpu_memory(available_gib)

    def _capture_graphs(self) -> None:
        free_gib, graphs = self.launch.free_gib, self._graphs
        for line in self._lines.graphs_begin(graphs, free_gib):
            self._tell(line)
        self._spend(StartPhase.GRAPHS, self.times.graphs_s)
        if self._runs_out(OomMoment.GRAPHS):
            message = cuda_out_of_memory(
                wanted_gib=free_gib / 2,
                capacity_gib=self.launch.truth.gpu_memory_gib,
                free_gib=free_gib / 4,
                gpu=0,
                others=(),
            )
            self._fail(self._lines.capture_failed(message))
        self.memory.hold(int((self._static_gib + graphs.used_gib) * GIB))
        left_gib = free_gib - graphs.used_gib
        ended = self._lines.graphs_end(graphs, self.times.graphs_s, left_gib)
        self._tell(ended, ends=StartPhase.GRAPHS)

    def _tell(self, line: str, *, ends: StartPhase | None = None) -> None:
        """Write a line of every rank. One that hangs in the phase that `ends` never gets there."""
        world, ranks = self.launch.emulation.scenario.now.start, range(self.launch.settings.tp_size)
        hangs = ends is not None and world.hang_in is ends and self._is_concerned
        tell_of_each(line, [r for r in ranks if not hangs or r != world.hang_rank])
        if hangs:
            self._hang()

    @property
    def _is_concerned(self) -> bool:
        return self.launch.emulation.scenario.now.start.concerns(self.launch.environment)

    def _runs_out(self, moment: OomMoment) -> bool:
        largest = max(self.times.graph_sizes, default=0) if moment is OomMoment.GRAPHS else 0
        rules = self.launch.emulation.scenario.now.oom
        return any(runs_out(rule, moment, self.launch.settings, largest) for rule in rules)

    def _bar(self) -> Callable[[float], None]:
        """Return what draws the progress bar of the weights, given the host seconds so far."""
        shown = -1

        def draw(elapsed_s: float) -> None:
            nonlocal shown
            loaded = min(_WEIGHT_FILES, int(_WEIGHT_FILES * elapsed_s / self.times.weights_s))
            if loaded == shown:
                return
            shown = loaded
            end = "\n" if loaded == _WEIGHT_FILES else ""
            sys.stderr.write(f"\r{self._lines.weights_bar(loaded, _WEIGHT_FILES, elapsed_s)}{end}")
            sys.stderr.flush()

        return draw

    def _spend(
        self, phase: StartPhase, duration_s: float, tell: Callable[[float], None] | None = None
    ) -> None:
        world = self.launch.emulation.scenario.now.start
        if self._is_concerned and world.hang_in is phase and world.hang_rank is None:
            self._hang()
        if self._is_concerned and world.die_in is phase:
            self._rest(duration_s / 2, tell)
            end(world, self.ranks)
        self._rest(duration_s, tell)

    def _rest(self, duration_s: float, tell: Callable[[float], None] | None) -> None:
        """Let host seconds pass, and look now and then whether a process has died."""
        until_s = self.clock.now_s() + duration_s
        while (left_s := until_s - self.clock.now_s()) > 0:
            time.sleep(min(self.clock.real_s(left_s), self._look_s))
            self._look()
            if tell:
                tell(min(duration_s, duration_s - until_s + self.clock.now_s()))

    def _hang(self) -> NoReturn:
        until_s = time.monotonic() + HANG_LIMIT_S
        while time.monotonic() < until_s:
            time.sleep(self._look_s)
            self._look()
        raise SystemExit(1)

    @property
    def _look_s(self) -> float:
        return max(self.clock.real_s(_LOAD_LOOK_S), _LEAST_LOOK_S)

    def _look(self) -> None:
        loss = self.ranks.look()
        if loss is None:
            return
        noticed = self.launch.is_since(LOSS_NOTICED_SINCE)
        if not noticed and loss.rank != 0:
            hang()
        told = rank_dead(self.launch.emulation.version).lines(rank=loss.rank, code=loss.exit_code)
        if not noticed:
            for line in told:
                SERVER.error(line)
            told = ["EOFError"]
        sys.stderr.write("\n".join(["Traceback (most recent call last):", *told, ""]))
        raise SystemExit(1)

    def _fail(self, error: str) -> NoReturn:
        self.ranks.kill()
        die(error)

    def _log_limits(self, room: int) -> None:
        settings = self.launch.settings
        RANK.info(
            "max_total_num_tokens=%d, chunked_prefill_size=%d, max_prefill_tokens=%s, "
            "max_running_requests=%d, context_len=%d, available_gpu_mem=%.2f GB",
            room,
            settings.chunked_prefill_tokens,
            self.launch.args["max_prefill_tokens"],
            settings.max_running_requests,
            settings.context_tokens,
            self.launch.free_gib - self._graphs.used_gib,
        )


def end(world: StartWorld, ranks: Ranks) -> NoReturn:
    """Let a start fail as its world says: by SGLang's own way, an exit code or a signal."""
    error = world.last_line or BROKEN_WEIGHTS
    ranks.kill()
    if world.exit_code is None:
        die(error)
    RANK.error("Scheduler hit an exception: Traceback (most recent call last):\n%s", error)
    logging.shutdown()
    if world.exit_code < 0:
        if -world.exit_code != signal.SIGKILL:
            signal.signal(-world.exit_code, signal.SIG_DFL)
        os.kill(os.getpid(), -world.exit_code)
    os._exit(world.exit_code & 0xFF)


def hang() -> NoReturn:
    """Do nothing for longer than anybody waits."""
    time.sleep(HANG_LIMIT_S)
    raise SystemExit(1)
