"""The start of an emulated server up to the open port: phases, log lines and failures."""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.clock import Clock
from infra.emulated.arguments import Emulation
from infra.emulated.cost import kv_room_tokens
from infra.emulated.logs import RANK, die
from infra.emulated.rules import communicator_fault, load_fault
from infra.emulated.scenario import StartPhase
from infra.emulated.settings import Algorithm, Settings
from infra.emulated.truth import HostTruth, Span
from sweeps.values import Value

_HANG_LIMIT_S = 3600.0
"""Wall seconds after which even a server that hangs ends."""
_BROKEN_WEIGHTS = "safetensors_rust.SafetensorError: Error while deserializing header"
_GRAPH_SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256)


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: what was given, what SGLang makes of it, and how it is emulated."""

    argv: Sequence[str]
    args: Mapping[str, Value]
    settings: Settings
    emulation: Emulation

    @property
    def truth(self) -> HostTruth:
        """Return the constants of the host."""
        return self.emulation.truth

    @property
    def free_gib(self) -> float:
        """Return the memory that is left on a GPU beside weights and KV cache."""
        return (1 - self.settings.mem_fraction) * self.truth.gpu_memory_gib


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


def plan_start(truth: HostTruth, settings: Settings, seed: int) -> StartTimes:
    """Draw the phases of a start; the same launch and seed give the same."""
    rng = random.Random(f"{seed}:{settings.launch}:start")
    phases = truth.start

    def drawn(span: Span) -> float:
        return rng.uniform(span.low_s, span.high_s)

    sizes = graph_sizes(settings)
    graphs_s = drawn(phases.graph_per_size) * len(sizes) * (1 + 0.1 * settings.draft_tokens / 8)
    draft_graphs_s = drawn(phases.eagle_graphs)
    if settings.algorithm is Algorithm.EAGLE and sizes:
        graphs_s += draft_graphs_s
    return StartTimes(
        spawn_s=drawn(phases.spawn),
        distributed_init_s=drawn(phases.distributed_init),
        weights_s=drawn(phases.weights),
        memory_pool_s=drawn(phases.memory_pool),
        graphs_s=graphs_s,
        warm_up_s=drawn(phases.warm_up),
        graph_sizes=sizes,
    )


def graph_sizes(settings: Settings) -> tuple[int, ...]:
    """Return the batch sizes that a start captures."""
    if not settings.cuda_graph:
        return ()
    top = min(settings.graph_max_batch, settings.max_running_requests)
    return tuple(size for size in _GRAPH_SIZES if size <= top) or (1,)


def load(launch: Launch, times: StartTimes, clock: Clock) -> None:
    """Spend the start phases; ends the process where SGLang would."""
    clock.sleep_s(times.spawn_s)
    RANK.info("Init torch distributed begin.")
    clock.sleep_s(times.distributed_init_s)
    if fault := communicator_fault(launch.settings):
        die(fault)
    RANK.info("Init torch distributed ends. elapsed=%.2f s", times.distributed_init_s)
    _load_weights(launch, times, clock)
    if fault := load_fault(launch.args, launch.settings, launch.truth):
        die(fault)
    clock.sleep_s(times.memory_pool_s)
    room = kv_room_tokens(launch.truth, launch.settings)
    RANK.info("KV Cache is allocated. dtype: torch.bfloat16, #tokens: %d", room)
    RANK.info("Memory pool end. avail mem=%.2f GB", launch.free_gib)
    if times.graph_sizes:
        _capture_graphs(launch, times, clock)
    _log_limits(launch, room)


def hang() -> None:
    """Do nothing for longer than anybody waits."""
    time.sleep(_HANG_LIMIT_S)
    raise SystemExit(1)


def _load_weights(launch: Launch, times: StartTimes, clock: Clock) -> None:
    truth = launch.truth
    RANK.info("Load weight begin. avail mem=%.2f GB", truth.gpu_memory_gib)
    start = launch.emulation.scenario.now.start
    if start.hang_in is StartPhase.WEIGHTS:
        hang()
    if start.die_in is StartPhase.WEIGHTS:
        clock.sleep_s(times.weights_s / 2)
        die(start.last_line or _BROKEN_WEIGHTS)
    clock.sleep_s(times.weights_s)
    RANK.info(
        "Load weight end. elapsed=%.2f s, type=KimiK25ForConditionalGeneration, "
        "avail mem=%.2f GB, mem usage=%.2f GB.",
        times.weights_s,
        truth.gpu_memory_gib - truth.weights_gib,
        truth.weights_gib,
    )


def _capture_graphs(launch: Launch, times: StartTimes, clock: Clock) -> None:
    free_gib = launch.free_gib
    RANK.info(
        "Capture cuda graph begin. This can take up to several minutes. avail mem=%.2f GB", free_gib
    )
    RANK.info("Capture cuda graph bs %s", list(times.graph_sizes))
    clock.sleep_s(times.graphs_s)
    RANK.info(
        "Capture cuda graph end. Time elapsed: %.2f s. avail mem=%.2f GB.", times.graphs_s, free_gib
    )


def _log_limits(launch: Launch, room: int) -> None:
    settings = launch.settings
    RANK.info(
        "max_total_num_tokens=%d, chunked_prefill_size=%d, max_prefill_tokens=%s, "
        "max_running_requests=%d, context_len=%d, available_gpu_mem=%.2f GB",
        room,
        settings.chunked_prefill_tokens,
        launch.args["max_prefill_tokens"],
        settings.max_running_requests,
        settings.context_tokens,
        launch.free_gib,
    )
