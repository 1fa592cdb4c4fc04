"""The life of an emulated server: parse, refuse or load, bind, serve, drain."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import uvicorn

from infra.clock import Clock, ScaledClock
from infra.emulated.arguments import (
    EXIT_USAGE,
    EmulationError,
    overridden,
    parse,
    read_emulation,
    with_config,
)
from infra.emulated.engine import EmulatedEngine
from infra.emulated.life.host_folder import GpuMemory, HostFolder
from infra.emulated.life.loading import Launch, Loader, StartTimes, hang, plan_start, read_caches
from infra.emulated.life.phase_lines import GIB
from infra.emulated.life.ranks import Ranks, Tree
from infra.emulated.life.supervision import Supervisor, catch_sigquit_while_loading
from infra.emulated.logs import SERVER, configure, log_config
from infra.emulated.resolution import effective_environment, resolve
from infra.emulated.rules import resolution_fault
from infra.emulated.serving.scheduler import Scheduler
from infra.emulated.serving.server import EmulatedServer
from infra.emulated.serving.state import ServerFacts
from infra.emulated.settings import make_settings
from infra.emulated.text import BUILT_IN, TextSource
from infra.emulated.text_file import TextFileError, source_of
from infra.emulated.versions import manners

_EXIT_REFUSED = 1
_CHILD_START_PART = 0.8
"""Assumption: what of the spawn phase the children import."""
_RELEASE_S = 0.5
"""Assumption: host seconds in which a scheduler that is asked to end gives its GPU back."""
_KEEP_ALIVE_S = 75


def main(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a server until it is told to end; return its exit code."""
    try:
        emulation = read_emulation(environment)
        words = with_config(argv, emulation.version)
    except EmulationError as error:
        sys.stderr.write(f"emulated server: {error}\n")
        return EXIT_USAGE
    version = emulation.version
    _echo(emulation.scenario.now.processes.echo_path, argv, environment)
    overrides = emulation.scenario.now.overrides
    given, environment = overridden(parse(words, version), environment, overrides)
    settings = make_settings(given, environment, version)
    launch = Launch(words, resolve(given, version, environment), settings, emulation, environment)
    configure(str(launch.args["log_level"]), ranks=settings.tp_size > 1)
    SERVER.warning("EMULATED server: no GPU, no model, time runs x%g", emulation.time_scale)
    for name, value in overrides.env.items():
        SERVER.warning("Overriding environment variable %s=%s", name, value)
    if fault := resolution_fault(launch.args, emulation.gpus, version):
        sys.stderr.write(f'Traceback (most recent call last):\n  File "launch"\n{fault}\n')
        return _EXIT_REFUSED
    try:
        source = source_of(emulation.scenario.now.text.path)
    except TextFileError as error:
        sys.stderr.write(f"emulated server: {error}\n")
        return EXIT_USAGE
    run(launch, environment, source)
    return 0


def _echo(path: str, argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Write down what this server was given, if the world wants to know."""
    if path:
        text = json.dumps({"argv": [*argv], "env": dict(environment)}, indent=1)
        Path(path).write_text(text, encoding="utf-8")


def run(launch: Launch, environment: Mapping[str, str], source: TextSource = BUILT_IN) -> None:
    """Load, open the port and serve until the server has drained."""
    emulation, args = launch.emulation, launch.args
    world = emulation.scenario.now
    if world.processes.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    clock = ScaledClock(emulation.time_scale)
    folder = HostFolder(emulation.host_folder) if emulation.host_folder else None
    times = plan_start(
        launch.truth, launch.settings, emulation.seed, world.start, read_caches(launch, folder)
    )
    SERVER.info("server_args=ServerArgs(%s)", ", ".join(f"{n}={v!r}" for n, v in args.items()))
    with Ranks(_tree(launch, times, clock)) as ranks:
        catch_sigquit_while_loading(ranks)
        memory = GpuMemory(
            folder,
            tuple(zip(ranks.scheduler_pids, gpu_indices(launch, environment), strict=True)),
            capacity_bytes=int(launch.truth.gpu_memory_gib * GIB),
            release_s=clock.real_s(world.processes.release_memory_s),
        )
        launch = Loader(launch, times, clock, ranks, memory, folder).load()
        listener = _bind(str(args["host"]), int(args["port"] or 0))
        if world.processes.detached_keep_port:
            ranks.detach()
        server = _server(launch, environment, times, clock, source)
        server.scheduler.on_worker_lost = ranks.kill_one
        server.scheduler.on_worker_aborted = ranks.abort
        force = environment.get("SGL_FORCE_SHUTDOWN", "") in ("1", "true", "True")
        supervisor = Supervisor(launch, times, clock, ranks, server, folder, force)
        asyncio.run(supervisor.serve(_web(server, launch), listener))


def _tree(launch: Launch, times: StartTimes, clock: Clock) -> Tree:
    world = launch.emulation.scenario.now.processes
    return Tree(
        tp_size=launch.settings.tp_size,
        start_s=clock.real_s(_CHILD_START_PART * times.spawn_s),
        release_s=clock.real_s(_RELEASE_S),
        ignore_sigterm=world.workers_ignore_sigterm,
        # The one that keeps the port can only be started once there is one.
        detached=max(0, world.detached - world.detached_keep_port),
    )


def gpu_indices(launch: Launch, environment: Mapping[str, str]) -> tuple[int, ...]:
    """Return the GPU of each rank, as CUDA_VISIBLE_DEVICES and SGLang's own flags place them."""
    named = environment.get("CUDA_VISIBLE_DEVICES", "").replace(" ", "").split(",")
    visible = [int(name) for name in named if name.isdigit()] or [*range(launch.emulation.gpus)]
    base, step = (int(launch.args.get(n) or d) for n, d in (("base_gpu_id", 0), ("gpu_id_step", 1)))
    ranks = range(launch.settings.tp_size)
    return tuple(visible[(base + step * rank) % len(visible)] for rank in ranks)


def _server(
    launch: Launch,
    environment: Mapping[str, str],
    times: StartTimes,
    clock: Clock,
    source: TextSource,
) -> EmulatedServer:
    scheduler = Scheduler(
        EmulatedEngine(launch.settings, launch.truth, launch.emulation.seed, source),
        clock,
        first_use_s=times.warm_up_s,
        scenario=launch.emulation.scenario,
        how=manners(launch.emulation.version),
    )
    facts = _facts(launch, environment, times)
    skip = bool(launch.args["skip_server_warmup"])
    return EmulatedServer(scheduler, clock, facts, skip_warm_up=skip)


def _facts(launch: Launch, environment: Mapping[str, str], times: StartTimes) -> ServerFacts:
    truth = launch.truth
    kv_gib = launch.settings.mem_fraction * truth.gpu_memory_gib - truth.weights_gib
    return ServerFacts(
        args=launch.args,
        launch_command=" ".join(launch.argv),
        version=launch.emulation.version,
        environment=effective_environment(environment, launch.args, launch.emulation.version),
        start_times_s={
            "load_weight": times.weights_s,
            "kv_cache_allocation": times.memory_pool_s,
            "cuda_graph": {"decode": times.graphs_s},
        },
        memory_gib={
            "weight": truth.weights_gib,
            "kvcache": kv_gib,
            "startup_available": truth.gpu_memory_gib,
        },
        graph_sizes=times.graph_sizes,
    )


def _web(server: EmulatedServer, launch: Launch) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            server.app(),
            log_config=log_config("info", ranks=launch.settings.tp_size > 1),
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
    )


def _bind(host: str, port: int) -> socket.socket:
    """Bind only now, after loading, as SGLang does; on a port in use it hangs, deaf to SIGTERM."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        SERVER.error(
            "ERROR: [Errno %d] error while attempting to bind on address ('%s', %d): %s",
            error.errno or 0,
            host,
            port,
            (error.strerror or "").lower(),
        )
        SERVER.info("INFO:     Waiting for application shutdown.")
        hang()
    return listener
