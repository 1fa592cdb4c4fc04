"""The life of an emulated server: parse, refuse or load, bind, serve, drain."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence

import uvicorn

from infra.clock import ScaledClock
from infra.emulated.arguments import (
    EXIT_USAGE,
    EmulationError,
    parse,
    read_emulation,
)
from infra.emulated.engine import EmulatedEngine
from infra.emulated.loading import Launch, StartTimes, hang, load, plan_start
from infra.emulated.logs import SERVER, configure, log_config
from infra.emulated.rules import resolution_fault
from infra.emulated.scheduler import Scheduler
from infra.emulated.server import EmulatedServer, ServerFacts
from infra.emulated.settings import effective_environment, make_settings, resolve
from infra.sglang.flags import version_key
from sweeps.values import show_all

CLEAN_EXIT_SINCE = "0.5.20"
"""Older versions kill themselves after draining."""
_EXIT_REFUSED = 1
_DRAIN_LOOK_S = 0.05
_KEEP_ALIVE_S = 75


def main(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a server until it is told to end; return its exit code."""
    try:
        emulation = read_emulation(environment)
    except EmulationError as error:
        sys.stderr.write(f"emulated server: {error}\n")
        return EXIT_USAGE
    version = emulation.version
    given = parse(argv, version)
    settings = make_settings(given, environment, version)
    launch = Launch(argv, resolve(given, version), settings, emulation)
    configure(str(launch.args["log_level"]), ranks=settings.tp_size > 1)
    SERVER.warning("EMULATED server: no GPU, no model, time runs x%g", emulation.time_scale)
    if fault := resolution_fault(launch.args, emulation.gpus):
        sys.stderr.write(f'Traceback (most recent call last):\n  File "launch"\n{fault}\n')
        return _EXIT_REFUSED
    run(launch, environment)
    if version_key(version) < version_key(CLEAN_EXIT_SINCE):
        os.kill(os.getpid(), signal.SIGKILL)
    return 0


def run(launch: Launch, environment: Mapping[str, str]) -> None:
    """Load, open the port and serve until the server has drained."""
    emulation, settings, args = launch.emulation, launch.settings, launch.args
    if emulation.scenario.now.processes.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    clock = ScaledClock(emulation.time_scale)
    times = plan_start(emulation.truth, settings, emulation.seed)
    SERVER.info("server_args=ServerArgs(%s)", show_all(args))
    load(launch, times, clock)
    listener = _bind(str(args["host"]), int(args["port"] or 0))
    scheduler = Scheduler(
        EmulatedEngine(settings, emulation.truth, emulation.seed),
        clock,
        first_use_s=times.warm_up_s,
        scenario=emulation.scenario,
    )
    facts = _facts(launch, environment, times)
    server = EmulatedServer(scheduler, clock, facts, skip_warm_up=bool(args["skip_server_warmup"]))
    asyncio.run(_serve(server, listener, launch))
    SERVER.info("kill_process_tree called: parent_pid=%d, include_parent=False", os.getpid())


def _facts(launch: Launch, environment: Mapping[str, str], times: StartTimes) -> ServerFacts:
    truth = launch.truth
    kv_gib = launch.settings.mem_fraction * truth.gpu_memory_gib - truth.weights_gib
    return ServerFacts(
        args=launch.args,
        launch_command=" ".join(launch.argv),
        version=launch.emulation.version,
        environment=effective_environment(environment),
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


async def _serve(server: EmulatedServer, listener: socket.socket, launch: Launch) -> None:
    config = uvicorn.Config(
        server.app(),
        log_config=log_config("info", ranks=launch.settings.tp_size > 1),
        timeout_keep_alive=_KEEP_ALIVE_S,
    )
    web = uvicorn.Server(config)
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    while not web.started and not serving.done():
        await asyncio.sleep(_DRAIN_LOOK_S / 10)
    told = asyncio.Event()
    draining = asyncio.create_task(_drain(server, told, web))
    # Only now: uvicorn installs handlers of its own, and would end streams that SGLang lets finish.
    if launch.emulation.scenario.now.processes.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await serving
    draining.cancel()


async def _drain(server: EmulatedServer, told: asyncio.Event, web: uvicorn.Server) -> None:
    """Wait for the word, then for all requests, without limit, as SGLang does."""
    await told.wait()
    SERVER.info("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    server.draining = True
    while not server.scheduler.idle:
        await asyncio.sleep(_DRAIN_LOOK_S)
    SERVER.info("Gracefully exiting... Remaining number of requests 0. remaining_rids=[].")
    web.should_exit = True


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
