"""What the root of an emulated server does beside serving: it watches its processes and ends.

Sources: SGLang 0.5.4 to 0.5.23, srt/managers/tokenizer_manager.py (signals, draining) and
srt/utils/watchdog.py.
"""

import asyncio
import logging
import os
import signal
import socket
from dataclasses import dataclass, field
from typing import NoReturn

import uvicorn

from infra.clock import Clock
from infra.emulated.life.host_folder import HostFolder
from infra.emulated.life.loading import LOSS_NOTICED_SINCE, Launch, StartTimes, end
from infra.emulated.life.ranks import Loss, Ranks
from infra.emulated.logs import RANK, SERVER, die
from infra.emulated.scenario import StartPhase
from infra.emulated.serving.server import EmulatedServer

RELEASES_GPU_SINCE = "0.5.14"
"""Older versions kill their schedulers instead of asking them to end."""
OUTLIVES_TREE_SINCE = "0.5.20"
"""Older versions kill themselves with their tree; newer ones end the HTTP server and exit."""
_DRAIN_LOOK_S = 5.0
_WATCH_LOOK_S = 1.0
_SCHEDULER_EXIT_S = 15.0
_LEAST_SCHEDULER_EXIT_S = 2.0
"""Wall seconds: a process needs some, however fast the emulation runs."""
_LEAST_LOOK_S = 0.05
_WEB = logging.getLogger("uvicorn.error")


@dataclass(slots=True)
class Supervisor:
    """Watches over a serving root. Belongs to its event loop."""

    launch: Launch
    times: StartTimes
    clock: Clock
    ranks: Ranks
    server: EmulatedServer
    folder: HostFolder | None
    force_shutdown: bool = False
    """SIGTERM does not wait for running requests (SGL_FORCE_SHUTDOWN)."""
    _told: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, web: uvicorn.Server, listener: socket.socket) -> None:
        """Serve until the server has drained, or this process dies with its tree."""
        world = self.launch.emulation.scenario.now
        self.server.scheduler.hung = StartPhase.WARM_UP in (world.start.hang_in, world.start.die_in)
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(web.serve(sockets=[listener]))
            while not web.started and not serving.done():
                await asyncio.sleep(_LEAST_LOOK_S / 10)
            # uvicorn does not say so itself where it is handed a socket.
            _WEB.info(
                "Uvicorn running on http://%s:%d (Press CTRL+C to quit)", *listener.getsockname()
            )
            # Only now: uvicorn installs handlers of its own, and would end streams that SGLang
            # lets finish.
            self._catch_signals(ignore_sigterm=world.processes.ignore_sigterm)
            work = (self._drain(web), self._watch(), self._live())
            tasks = [group.create_task(part) for part in work]
            await serving
            for task in tasks:
                task.cancel()

    def _catch_signals(self, *, ignore_sigterm: bool) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGQUIT, self._quit)
        if ignore_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        else:
            loop.add_signal_handler(signal.SIGTERM, self._told.set)

    def _quit(self) -> None:
        SERVER.error("SIGQUIT received. signum=3, frame=None. It usually means one child failed.")
        kill_tree(self.ranks)

    async def _drain(self, web: uvicorn.Server) -> None:
        """Wait for the word, then for all requests, without limit, as SGLang does."""
        started_s = self.clock.now_s()
        await self._told.wait()
        SERVER.info(
            "SIGTERM received. signum=None frame=None. Draining requests and shutting down..."
        )
        self.server.draining = True
        await self._rest(_DRAIN_LOOK_S - (self.clock.now_s() - started_s) % _DRAIN_LOOK_S)
        await self._wait_for_requests()
        # What the last requests have been given must reach their clients.
        await asyncio.sleep(_LEAST_LOOK_S)
        if self.launch.is_since(RELEASES_GPU_SINCE):
            self._release_gpus()
        if not self.launch.is_since(OUTLIVES_TREE_SINCE):
            kill_tree(self.ranks)
        SERVER.info("kill_process_tree called: parent_pid=%d, include_parent=False", os.getpid())
        self.ranks.kill()
        web.should_exit = True

    async def _wait_for_requests(self) -> None:
        if self.force_shutdown:
            SERVER.error("Signal SIGTERM received while force shutdown flag set. Force exiting.")
            return
        hangs = self.launch.emulation.scenario.now.start.hang_in is StartPhase.WARM_UP
        while True:
            left = [] if hangs else self.server.scheduler.remaining
            SERVER.info(
                "Gracefully exiting... Remaining number of requests %d. "
                "Remaining requests remaining_rids=%s.",
                len(left),
                left,
            )
            if not left:
                return
            await self._rest(_DRAIN_LOOK_S)

    def _release_gpus(self) -> None:
        wait_s = max(self.clock.real_s(_SCHEDULER_EXIT_S), _LEAST_SCHEDULER_EXIT_S)
        if left := self.ranks.shut_down(wait_s):
            SERVER.warning(
                "Schedulers still alive %.0fs after ShutdownReq, killing them before they "
                "released: %s",
                _SCHEDULER_EXIT_S,
                list(left),
            )

    async def _watch(self) -> None:
        """Look for processes that died, as far as the version does so."""
        while (loss := self.ranks.look()) is None:
            await self._rest(_WATCH_LOOK_S)
        if self._told.is_set():
            return
        if self.ranks.noticed and self.launch.is_since(LOSS_NOTICED_SINCE):
            self._report(loss)
            os.kill(os.getpid(), signal.SIGQUIT)
        elif loss.name != "detokenizer":
            self.server.scheduler.hung = True

    def _report(self, loss: Loss) -> None:
        if loss.exit_code == -signal.SIGABRT:
            RANK.error("Fatal Python error: Aborted")
        SERVER.error(
            "Subprocess %s (pid=%d) crashed with exit code %d. Triggering SIGQUIT for cleanup...",
            loss.name,
            loss.pid,
            loss.exit_code,
        )

    async def _live(self) -> None:
        """Fail in the warm-up or some time after it, if the world says so."""
        world = self.launch.emulation.scenario.now
        if world.start.die_in is StartPhase.WARM_UP:
            await self._rest(self.times.warm_up_s / 2)
            end(world.start, self.ranks)
        while not self.server.ready:
            await asyncio.sleep(_LEAST_LOOK_S)
        if self.folder is not None:
            self.folder.keep_kernels(self.launch.kernels_key)
        if world.faults.die_after_s:
            await self._rest(world.faults.die_after_s)
            self.ranks.kill()
            die("RuntimeError: CUDA error: unspecified launch failure")

    async def _rest(self, duration_s: float) -> None:
        await asyncio.sleep(max(self.clock.real_s(duration_s), _LEAST_LOOK_S))


def catch_sigquit_while_loading(ranks: Ranks) -> None:
    """Let SIGQUIT, by which children report, end the tree."""

    def end_all(*_: object) -> None:
        SERVER.error("Received sigquit from a child process. It usually means the child failed.")
        kill_tree(ranks)

    signal.signal(signal.SIGQUIT, end_all)


def kill_tree(ranks: Ranks) -> NoReturn:
    """Kill the tree and this process."""
    SERVER.info("kill_process_tree called: parent_pid=%d, include_parent=True", os.getpid())
    ranks.kill()
    logging.shutdown()
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(1)
