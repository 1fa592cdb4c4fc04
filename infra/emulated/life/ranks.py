"""The processes below an emulated server's root: SGLang's by name, title and manner of dying.

They are forks of the root that sleep, so the root may have neither threads nor an event loop yet.
Sources: SGLang 0.5.23, srt/managers/scheduler.py (title, parent-death signal, SIGQUIT to the root)
and srt/utils/watchdog.py (names, exit codes).
"""

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn

import setproctitle

ORPHAN_LIMIT_S = 600.0
"""Wall seconds after which a process that nobody ended ends by itself."""
DETACHED_TITLE = "emulated-helper"
_SHUT_DOWN = signal.SIGUSR1
"""Stands for the message by which SGLang asks its schedulers to release the GPU and to end."""
_REAP_LOOK_S = 0.005
_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl
_TRACKER = "from multiprocessing.resource_tracker import main;main({fd})"
_SPAWN = (
    "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd={fd}, pipe_handle={pipe})"
)


@dataclass(frozen=True, slots=True)
class Tree:
    """What to start below the root. Durations are wall seconds."""

    tp_size: int
    start_s: float = 0.0
    """What a child imports before it has its title and dies with the root."""
    release_s: float = 0.0
    """What a scheduler takes to end when it is asked to."""
    ignore_sigterm: bool = False
    detached: int = 0


@dataclass(frozen=True, slots=True)
class Loss:
    """A process that ended although nobody asked it to. A signal is a negative exit code."""

    name: str
    pid: int
    exit_code: int

    @property
    def rank(self) -> int:
        """Return the rank of a scheduler; 0 for the detokenizer."""
        _, _, number = self.name.partition("_")
        return int(number or 0)


def scheduler_title(rank: int, tp_size: int) -> str:
    """Return the title of a scheduler process."""
    return f"sglang::scheduler_TP{rank}" if tp_size > 1 else "sglang::scheduler"


class Ranks:
    """A running tree. Belongs to the thread that started it; whoever starts it must kill it."""

    def __init__(self, tree: Tree) -> None:
        """Start all of it; takes a few milliseconds."""
        self.noticed = True
        """False: SGLang's watchdog misses whatever dies, and the server goes on without it."""
        self._tree = tree
        self._losses: dict[str, Loss] = {}
        self._pids: dict[str, int] = {}
        # setproctitle would write over the environment, and with it the tags of the processes.
        os.environ.setdefault("SPT_NOENV", "1")
        self._tracked_fd, self._alive_fd = os.pipe()
        self._tracker_pid = _fork(self._track)
        os.close(self._tracked_fd)
        for rank in range(tree.tp_size):
            title = scheduler_title(rank, tree.tp_size)
            self._pids[f"scheduler_{rank}"] = self._fork_worker(title, rank)
        self._pids["detokenizer"] = self._fork_worker("sglang::detokenizer", tree.tp_size)
        for _ in range(tree.detached):
            self.detach()

    def __enter__(self) -> "Ranks":
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill what is left."""
        self.kill()

    @property
    def scheduler_pids(self) -> tuple[int, ...]:
        """Return the pid of each rank, in their order."""
        return tuple(self._pids[f"scheduler_{rank}"] for rank in range(self._tree.tp_size))

    def look(self) -> Loss | None:
        """Return the first process that has ended unasked. Never blocks."""
        for name, pid in self._pids.items():
            if name not in self._losses and (code := _reap(pid)) is not None:
                self._losses[name] = Loss(name, pid, code)
        return next((loss for loss in self._losses.values() if loss.exit_code != 0), None)

    def kill_one(self, rank: int = -1) -> None:
        """Let one scheduler die without a word; the root does not notice, in any version."""
        self.noticed = False
        _signal(self.scheduler_pids[rank], signal.SIGKILL)

    def abort(self, rank: int = -1) -> None:
        """Let one scheduler abort in native code; the root notices as its version does."""
        _signal(self.scheduler_pids[rank], signal.SIGABRT)

    def shut_down(self, wait_s: float) -> tuple[int, ...]:
        """Ask the schedulers to end; return the pids that still live after so many wall seconds."""
        for pid in self.scheduler_pids:
            _signal(pid, _SHUT_DOWN)
        deadline_s = time.monotonic() + wait_s
        while (left := self._living_schedulers()) and time.monotonic() < deadline_s:
            time.sleep(_REAP_LOOK_S)
        return left

    def kill(self) -> None:
        """Kill and reap all of it but the detached; nothing happens the second time."""
        self.look()
        living = [pid for name, pid in self._pids.items() if name not in self._losses]
        for pid in [*living, self._tracker_pid]:
            _signal(pid, signal.SIGKILL)
        for pid in [*living, self._tracker_pid]:
            _reap(pid, wait=True)
        self._pids, self._tracker_pid = {}, 0

    def detach(self) -> None:
        """Start a process that leaves tree and session, and keeps what the root has open."""
        _reap(_fork(self._leave), wait=True)

    def _living_schedulers(self) -> tuple[int, ...]:
        self.look()
        return tuple(
            pid
            for name, pid in self._pids.items()
            if name.startswith("scheduler") and name not in self._losses
        )

    def _fork_worker(self, title: str, number: int) -> int:
        words = _SPAWN.format(fd=self._alive_fd, pipe=self._alive_fd + 2 + number)
        root_pid = os.getpid()

        def work() -> None:
            _look_like_python(f"{words} --multiprocessing-fork")
            self._obey()
            time.sleep(self._tree.start_s)
            # As late as in SGLang: a root that dies before leaves orphans.
            _die_with_parent()
            setproctitle.setproctitle(title)
            _sleep_until_asked(root_pid)
            time.sleep(self._tree.release_s)

        return _fork(work)

    def _track(self) -> None:
        """Live until the last process that holds the pipe is gone, as the resource tracker does."""
        os.close(self._alive_fd)
        _look_like_python(_TRACKER.format(fd=self._tracked_fd))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.read(self._tracked_fd, 1)

    def _leave(self) -> None:
        os.setsid()
        if os.fork():
            return
        os.close(self._alive_fd)
        setproctitle.setproctitle(DETACHED_TITLE)
        self._obey()
        _sleep_until_asked()

    def _obey(self) -> None:
        if self._tree.ignore_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _fork(work: Callable[[], None]) -> int:
    """Run `work` in a child that then ends at once; return the child's pid."""
    pid = os.fork()
    if pid == 0:
        _run(work)
    return pid


def _run(work: Callable[[], None]) -> NoReturn:
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGABRT):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {_SHUT_DOWN})
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        work()
        code = 0
    finally:
        os._exit(code)


def _look_like_python(code: str) -> None:
    setproctitle.setproctitle(f"{sys.executable} -c {code}")
    setproctitle.setthreadtitle("python")


def _sleep_until_asked(root_pid: int = 0) -> None:
    """Wait for the order to end; longer than the limit only below a living root."""
    while signal.sigtimedwait({_SHUT_DOWN}, ORPHAN_LIMIT_S) is None:
        if os.getppid() != root_pid:
            return


def _die_with_parent() -> None:
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _signal(pid: int, number: int) -> None:
    try:
        if pid:
            os.kill(pid, number)
    except ProcessLookupError:
        return


def _reap(pid: int, *, wait: bool = False) -> int | None:
    """Return the exit code of a child that has ended, else None."""
    try:
        reaped, status = os.waitpid(pid, 0 if wait else os.WNOHANG) if pid else (0, 0)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if reaped else None
