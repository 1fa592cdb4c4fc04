"""This machine as a host: servers under guards, and ports on the loopback interface."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Protocol, cast

import psutil

from infra import guard, reaper, reservation
from infra.guard_link import Exited, GuardLink, Heartbeat, Refused, Started, Stopped
from infra.host import Command, HostError, Reservation, StopReport
from infra.runtime_folder import RuntimeFolderError

PORTS = (31000, 31999)
"""Where servers listen, unless somebody says otherwise; both ends are included."""

START_WAIT_S = 60.0
"""Wall seconds that a guard gets to start the program; more than the guard itself waits."""

_ORDER_WAIT_S = 1.0
_LAST_WORDS_WAIT_S = 5.0
_MAX_TAIL_BYTES = 1 << 20
_LOOPBACK = "127.0.0.1"
# What an interpreter may need to start; the server gets its own environment.
_GUARD_INHERITS = ("PATH", "LD_LIBRARY_PATH")
_log = logging.getLogger(__name__)


class LocalHost:
    """Runs servers on this machine. Ports come from a range, both ends included."""

    def __init__(
        self, port_range: tuple[int, int] = PORTS, *, first_port: int | None = None
    ) -> None:
        first, last = port_range
        if not 0 < first <= last < 65536:
            raise ValueError(f"not a range of ports: {first} to {last}")
        self._ports = range(first, last + 1)
        # Two owners on one machine start at different ports.
        at = os.getpid() if first_port is None else first_port - first
        self._next_port = at % len(self._ports)
        self._lock = threading.Lock()

    def start(self, command: Command) -> "GuardedProcess":
        """Start a server under a guard. Raises HostError."""
        # The owner may change its directory later.
        command = replace(command, log_path=command.log_path.absolute())
        try:
            command.log_path.parent.mkdir(parents=True, exist_ok=True)
            spec = guard_spec(command, os.environ)
            launcher = _launch_guard(command)
        except OSError as error:
            raise HostError(f"cannot start a guard: {error}") from error
        link = GuardLink(cast(IO[bytes], launcher.stdin), cast(IO[bytes], launcher.stdout))
        try:
            pid = await_start(link, spec)
        except BaseException:
            link.close()
            launcher.kill()
            raise
        finally:
            # The launcher has long ended: the guard is its child, and nobody's of ours.
            launcher.wait(START_WAIT_S)
        _log.info("sweep=%s trial=%s pid=%d started", command.sweep, command.trial, pid)
        return GuardedProcess(command, link, pid)

    def free_port(self) -> int:
        """Return a port that is free now, each of the range in its turn. Raises HostError."""
        try:
            for port in self._in_turn():
                if self.is_port_free(port) and not reservation.is_reserved(port):
                    return port
        except RuntimeFolderError as error:
            raise HostError(str(error)) from error
        raise self._no_port()

    @contextmanager
    def reserve(self, sweep: str, trial: str) -> Iterator[Reservation]:
        """Lend ports and a temporary folder to a trial, to nobody else here. Raises HostError."""
        try:
            with reservation.made(sweep, trial, self._in_turn(), self.is_port_free) as made:
                yield made
        except reservation.NoPortError as error:
            raise self._no_port() from error
        except RuntimeFolderError as error:
            raise HostError(str(error)) from error

    def _in_turn(self) -> Iterator[int]:
        """Yield each port of the range once; the next call goes on where this one ends."""
        for _ in self._ports:
            with self._lock:
                port = self._ports[self._next_port]
                self._next_port = (self._next_port + 1) % len(self._ports)
            yield port

    def _no_port(self) -> HostError:
        return HostError(f"no free port from {self._ports[0]} to {self._ports[-1]}")

    def is_port_free(self, port: int) -> bool:
        """Tell whether a server could listen on a loopback port now."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As servers do: connections of the last one that still linger are no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_LOOPBACK, port))
            except OSError:
                return False
        return True

    def reap(self, sweep: str, trial: str | None = None) -> int:
        """Kill all that carries the tag of a sweep or trial; return how many there were."""
        return reaper.reap(sweep, trial)


class Hands(Protocol):
    """What a guard cannot do for a tree, on the machine where the tree is."""

    def reap(self, sweep: str, trial: str) -> int:
        """Kill all of a trial and wait for its end; return how many there were."""
        ...

    def strike(self, sweep: str, trial: str) -> int:
        """Kill what there is of a trial, without waiting; return how many that were."""
        ...

    def survivors(self, sweep: str, trial: str) -> int:
        """Count what is left of a trial."""
        ...

    def tail(self, path: Path, lines: int) -> list[str]:
        """Return the last lines of a log."""
        ...

    def note(self, path: Path, text: str) -> None:
        """Append to a log, if that can be done."""
        ...

    def listens(self, pid: int, port: int) -> bool:
        """Tell whether a process or one below it listens on a port."""
        ...


class LocalHands:
    """This machine's."""

    def reap(self, sweep: str, trial: str) -> int:
        """Kill all of a trial and wait for its end."""
        return reaper.reap(sweep, trial)

    def strike(self, sweep: str, trial: str) -> int:
        """Kill what there is of a trial, without waiting."""
        return reaper.strike(sweep, trial)

    def survivors(self, sweep: str, trial: str) -> int:
        """Count what is left of a trial."""
        return len(reaper.find_tagged(sweep, trial))

    def tail(self, path: Path, lines: int) -> list[str]:
        """Return the last lines of a log."""
        return tail(path, lines)

    def note(self, path: Path, text: str) -> None:
        """Append to a log."""
        with suppress(OSError), path.open("a", encoding="utf-8") as file:
            file.write(text)

    def listens(self, pid: int, port: int) -> bool:
        """Look for a listening socket in a whole tree."""
        with suppress(psutil.Error):
            root = psutil.Process(pid)
            return any(_listens(process, port) for process in [root, *root.children(True)])
        return False


class GuardedProcess:
    """A server's tree, held by the link to its guard."""

    def __init__(
        self, command: Command, link: GuardLink, pid: int, hands: Hands | None = None
    ) -> None:
        self._hands = hands or LocalHands()
        self._command = command
        self._link = link
        self._pid = pid
        self._heartbeat = Heartbeat(link, command.lease_s / 4)
        self._exit_code: int | None = None
        self._exited_at_s: float | None = None
        self._stopped: Stopped | None = None
        self._guard_lost = False
        self._struck = 0
        self._report: StopReport | None = None

    @property
    def pid(self) -> int:
        """Return the process id of the server's root."""
        return self._pid

    def poll(self) -> int | None:
        """Return the root's exit code; -9 if the guard was lost, which takes the root with it."""
        if self._report is None:
            self._receive()
        return self._exit_code

    def stop(self, grace_s: float | None = None) -> StopReport:
        """End the tree; by its tag if the guard cannot."""
        if self._report is None:
            self._report = self._end(self._command.grace_s if grace_s is None else grace_s)
            self._exit_code = self._report.exit_code
            _log.info("%s pid=%d %s", _label(self._command), self._pid, self._report)
        return self._report

    def log_tail(self, lines: int) -> list[str]:
        """Return the last lines of the log."""
        return self._hands.tail(self._command.log_path, lines)

    def listens_on(self, port: int) -> bool:
        """Look for a listening socket in the whole tree."""
        return self._hands.listens(self._pid, port)

    def _end(self, grace_s: float) -> StopReport:
        ordered_at_s = time.monotonic()
        # Also where the caller is interrupted: closing the pipes orders the end as well.
        try:
            self._heartbeat.end()
            self._link.send(guard.stop_order(grace_s), _ORDER_WAIT_S)
            self._await_end(grace_s + guard.KILL_WAIT_S + _LAST_WORDS_WAIT_S)
        finally:
            self._heartbeat.end()
            self._link.close()
        stopped = self._stopped
        if stopped and not stopped.survivors:
            return StopReport(stopped.code, stopped.killed, 0, self._root_s(ordered_at_s))
        return self._end_by_tag(stopped.killed if stopped else self._struck)

    def _root_s(self, ordered_at_s: float) -> float | None:
        """Return how long after the order the root was gone: 0 if it was gone before."""
        if self._exited_at_s is None:
            return None
        return max(0.0, self._exited_at_s - ordered_at_s)

    def _await_end(self, wait_s: float) -> None:
        """Wait until the guard itself has ended, which is after it has told of the end."""
        deadline_s = time.monotonic() + wait_s
        while not self._link.hung_up and (left_s := deadline_s - time.monotonic()) > 0:
            self._receive(left_s)

    def _end_by_tag(self, killed: int) -> StopReport:
        sweep, trial = self._command.sweep, self._command.trial
        _log.warning("%s the guard is no help: ending by tag", _label(self._command))
        killed += self._hands.reap(sweep, trial)
        survivors = self._hands.survivors(sweep, trial)
        if self._exit_code is None and not survivors:
            self._exit_code = -signal.SIGKILL
        return StopReport(self._exit_code, killed, survivors)

    def _receive(self, wait_s: float = 0.0) -> None:
        while event := self._link.receive(wait_s):
            wait_s = 0.0
            match event:
                case Exited(code):
                    self._exit_code = code
                    self._exited_at_s = time.monotonic()
                case Stopped():
                    self._stopped = event
                case Started() | Refused():
                    pass
        if self._link.hung_up and self._stopped is None:
            self._lose_guard()

    def _lose_guard(self) -> None:
        if self._guard_lost:
            return
        self._guard_lost = True
        if self._exit_code is None:
            self._exit_code = -signal.SIGKILL
        # The root goes with its guard, but nothing ends the rest until somebody calls `stop`.
        self._struck = self._hands.strike(self._command.sweep, self._command.trial)
        _log.warning("%s the guard was lost", _label(self._command))
        text = f"\n{guard.LOG_PREFIX}lost; the server was killed with it\n"
        self._hands.note(self._command.log_path, text)


def tail(path: Path, lines: int) -> list[str]:
    """Return the last lines of a file, none if there is no such file; reads a megabyte at most."""
    if lines <= 0:
        return []
    try:
        with path.open("rb") as file:
            data = _read_end(file.fileno(), lines)
    except FileNotFoundError:
        return []
    # Progress bars end their lines with a carriage return alone; bytes split there, and at \n.
    return [line.decode(errors="replace") for line in data.splitlines()[-lines:]]


def _read_end(fd: int, lines: int) -> bytes:
    start = size = os.fstat(fd).st_size
    block_bytes = 8192
    data = b""
    # One more than asked: the first of them may have begun before the block.
    while start > 0 and len(data.splitlines()) <= lines and size - start < _MAX_TAIL_BYTES:
        start = max(0, start - block_bytes)
        data = os.pread(fd, size - start, start)
        block_bytes *= 2
    return data


# As a module it is compiled once; as a program it would be at every start.
_RUN_GUARD = "import sys; sys.path.append(sys.argv.pop(1)); import guard; guard.main()"


def _launch_guard(command: Command) -> subprocess.Popen[bytes]:
    # Pipes are closed on exec, here and in the guard: a copy in another child would keep this
    # guard from seeing that its owner is gone.
    inherited = {name: os.environ[name] for name in _GUARD_INHERITS if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _RUN_GUARD, str(Path(guard.__file__).parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**inherited, **_tags(command), reaper.GUARD_TAG: "1"},
        bufsize=0,
    )


def await_start(link: GuardLink, spec: guard.Spec) -> int:
    """Give a guard its spec; return the pid of the server. Raises HostError."""
    deadline_s = time.monotonic() + START_WAIT_S
    try:
        line = guard.spec_line(spec)
    except ValueError as error:
        raise HostError(str(error)) from error
    if not link.send(line, START_WAIT_S):
        raise HostError("the guard takes no orders")
    while not link.hung_up and (left_s := deadline_s - time.monotonic()) > 0:
        match link.receive(left_s):
            case Started(pid):
                return pid
            case Refused(message):
                _await_hang_up(link, deadline_s)
                raise HostError(message)
            case _:
                pass
    raise HostError("the guard does not start the program")


def _await_hang_up(link: GuardLink, deadline_s: float) -> None:
    """Let a guard that has nothing to watch end, so that nothing is left of a failed start."""
    while not link.hung_up and (left_s := deadline_s - time.monotonic()) > 0:
        link.receive(left_s)


def guard_spec(command: Command, environ: Mapping[str, str]) -> guard.Spec:
    """Return what a guard is told of a command, with what may pass of the host's environment."""
    inherited = {name: environ[name] for name in command.inherit if name in environ}
    return guard.Spec(
        argv=command.argv,
        env={**inherited, **command.env, **command.hidden, **_tags(command)},
        cwd=str((command.cwd or Path.cwd()).absolute()),
        log_path=str(command.log_path),
        grace_s=command.grace_s,
        lease_s=command.lease_s,
    )


def _tags(command: Command) -> dict[str, str]:
    return reaper.tags(command.sweep, command.trial)


def _label(command: Command) -> str:
    return f"sweep={command.sweep} trial={command.trial}"


def _listens(process: psutil.Process, port: int) -> bool:
    with suppress(psutil.Error):
        return any(
            link.status == psutil.CONN_LISTEN and link.laddr.port == port
            for link in process.net_connections("tcp")
        )
    return False
