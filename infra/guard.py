"""The guard of one server tree: a program that ends the tree when its owner is gone.

Standard library only, so that it starts at once and can be sent to another machine:
`python -I -S guard.py [--attached] [--lease-only]`. It leaves its parent by a second fork, since a
dying parent may kill its direct children; with `--attached` it stays, under an SSH session.

Orders are lines on stdin: first the spec (`spec_line`), then an empty line as a sign of life, or
`stop SECONDS`. End of file, an expired lease, SIGTERM, a stop order, or the exit of the root each
end the whole tree. With `--lease-only` end of file does not, so that the connection which started
it may close; SIGUSR1 is a sign of life as well. Events are lines on stdout: `started PID
GUARD_PID`, `exited CODE`, `stopped CODE KILLED SURVIVORS` (the code `?` if the root is among them),
`error MESSAGE`; it then ends itself.

What it does not import is most of its speed: json, contextlib and typing alone take 25 ms.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import NoReturn

HEARTBEAT = b"\n"
KILL_WAIT_S = 30.0
"""Wall seconds that killed processes get to vanish; memory pinned for a GPU takes a while."""
LOG_PREFIX = "guard: "
"""Starts a line in the server's log that is not the server's."""
ATTACHED, LEASE_ONLY = "--attached", "--lease-only"

_SPEC_WAIT_S = 30.0
_EXEC_WAIT_S = 30.0
_ORDERS_FD, _EVENTS_FD, _LOG_FD = 0, 1, 2
_READ_BYTES = 65536
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Spec:
    """What to start, and how patient to be. `env` is the server's whole environment."""

    __slots__ = ("argv", "cwd", "env", "grace_s", "lease_s", "log_path")

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        log_path: str,
        grace_s: float,
        lease_s: float,
    ) -> None:
        self.argv, self.env = argv, env
        self.cwd, self.log_path = cwd, log_path
        self.grace_s, self.lease_s = grace_s, lease_s


def spec_line(spec: Spec) -> bytes:
    """Return the first line that a guard reads.

    Neither words nor variables nor paths may hold NUL, so it parts them; the line is hexadecimal,
    since they may hold newlines. Raises ValueError for a NUL.
    """
    head = [spec.cwd, spec.log_path, str(spec.grace_s), str(spec.lease_s), str(len(spec.argv))]
    words = [*head, *spec.argv, *(f"{name}={value}" for name, value in spec.env.items())]
    if any("\0" in word for word in words):
        raise ValueError("a word, a variable or a path of the command holds a NUL")
    return b"\0".join(map(os.fsencode, words)).hex().encode() + b"\n"


def parse_spec(line: bytes) -> Spec:
    """Read what `spec_line` wrote. Raises ValueError."""
    words = list(map(os.fsdecode, bytes.fromhex(line.decode("ascii")).split(b"\0")))
    cwd, log_path, grace_s, lease_s, count = words[:5]
    argv, variables = words[5 : 5 + int(count)], words[5 + int(count) :]
    env = dict(variable.split("=", 1) for variable in variables)
    return Spec(argv, env, cwd, log_path, float(grace_s), float(lease_s))


def stop_order(grace_s: float) -> bytes:
    """Return the line that ends the tree, with the seconds between asking and killing."""
    return f"stop {grace_s}\n".encode()


class GuardError(Exception):
    """Nothing was started; the message says why."""


Member = tuple[int, int]
"""A process of the tree: its pid, and the clock ticks of its start, which tell two users of one
pid apart."""


def members() -> set[Member]:
    """Return the living processes below this one; those that wait to be reaped are left out."""
    children: dict[int, list[tuple[Member, bytes]]] = {}
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    for pid in pids:
        if row := _read_stat(pid):
            state, parent, started_ticks = row
            children.setdefault(parent, []).append(((pid, started_ticks), state))
    found: set[Member] = set()
    parents = [os.getpid()]
    while parents:
        below = children.get(parents.pop(), [])
        parents += [pid for (pid, _), _ in below]
        found |= {member for member, state in below if state not in b"ZX"}
    return found


def _read_stat(pid: int) -> tuple[bytes, int, int] | None:
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
    # The name stands in parentheses, and may hold blanks and parentheses itself.
    fields = text.rpartition(b")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])


class Orders:
    """Lines from the owner, as they come."""

    def __init__(self) -> None:
        self.ended = False
        self._rest = b""

    def read(self) -> list[bytes]:
        """Return the lines that are complete. Blocks unless the pipe is readable."""
        try:
            chunk = os.read(_ORDERS_FD, _READ_BYTES)
        except OSError:
            chunk = b""
        self.ended = not chunk
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return lines

    def read_spec(self) -> tuple[Spec, list[bytes]]:
        """Return the spec and the lines that came with it. Raises GuardError."""
        deadline_s = time.monotonic() + _SPEC_WAIT_S
        while not self.ended and (left_s := deadline_s - time.monotonic()) > 0:
            if not _is_readable(_ORDERS_FD, left_s):
                break
            if lines := self.read():
                try:
                    return parse_spec(lines[0]), lines[1:]
                except ValueError as error:
                    raise GuardError(f"not a spec: {error}") from error
        raise GuardError("no spec came")


class Guard:
    """Watches a running tree, then ends it."""

    def __init__(self, spec: Spec, root_pid: int, orders: Orders, signals_fd: int) -> None:
        self._needs_owner = LEASE_ONLY not in sys.argv[1:]
        self._root_pid = root_pid
        self._root_code: int | None = None
        self._lease_s = spec.lease_s
        self._grace_s = spec.grace_s
        self._lease_until_s = time.monotonic() + spec.lease_s
        self._ask_until_s = float("inf")
        self._stop_ordered = False
        self._terminated = False
        self._orders = orders
        self._poller = select.poll()
        self._poller.register(_ORDERS_FD, select.POLLIN)
        self._poller.register(signals_fd, select.POLLIN)

    def watch(self) -> str | None:
        """Wait until the tree must end; return why, or None if the owner knows."""
        while True:
            self._reap()
            if self._stop_ordered or self._root_code is not None:
                return None
            if self._terminated:
                return "ended by SIGTERM"
            if self._orders.ended and self._needs_owner:
                return "the owner is gone"
            if time.monotonic() >= self._lease_until_s:
                return f"no sign of life from the owner for {self._lease_s:g} s"
            self._wait_until(self._lease_until_s)

    def end(self) -> None:
        """Ask the root to end, which knows the order; then the rest; kill what is left; report."""
        self._ask_until_s = time.monotonic() + self._grace_s
        if self._root_code is None:
            _signal_pid(self._root_pid, signal.SIGTERM)
        while self._reap() and self._root_code is None and time.monotonic() < self._ask_until_s:
            self._wait_until(self._ask_until_s)
        _ask_members()
        while self._reap() and time.monotonic() < self._ask_until_s:
            self._wait_until(self._ask_until_s)
        killed: set[Member] = set()
        kill_until_s, pause_s = time.monotonic() + KILL_WAIT_S, 0.01
        while self._reap() and time.monotonic() < kill_until_s:
            killed |= _signal_members(members(), signal.SIGKILL)
            self._wait_until(time.monotonic() + pause_s)
            pause_s = min(2 * pause_s, 1.0)
        survivors = len(members())
        if survivors:
            note(f"{survivors} processes outlived SIGKILL")
        code = "?" if self._root_code is None else self._root_code
        emit(f"stopped {code} {len(killed)} {survivors}")

    def take(self, lines: Iterable[bytes]) -> None:
        """Follow orders of the owner; any of them renews the lease."""
        self._lease_until_s = time.monotonic() + self._lease_s
        for line in lines:
            if line.startswith(b"stop"):
                self._stop_ordered = True
                self._take_grace(line.removeprefix(b"stop"))

    def _take_grace(self, grace: bytes) -> None:
        try:
            self._grace_s = float(grace)
        except ValueError:
            return
        # Counts only while the tree is being asked already: then it may get less time, never more.
        self._ask_until_s = min(self._ask_until_s, time.monotonic() + self._grace_s)

    def _wait_until(self, deadline_s: float) -> None:
        left_s = max(0.0, deadline_s - time.monotonic())
        for fd, _ in self._poller.poll(left_s * 1000):
            if fd != _ORDERS_FD:
                numbers = os.read(fd, _READ_BYTES)
                self._terminated |= signal.SIGTERM in numbers
                if signal.SIGUSR1 in numbers:
                    self.take(())
                continue
            self.take(self._orders.read())
            if self._orders.ended:
                self._poller.unregister(_ORDERS_FD)

    def _reap(self) -> bool:
        """Tell whether any child is left. A subreaper gets every orphan: none means no tree."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._root_pid:
                self._root_code = os.waitstatus_to_exitcode(status)
                emit(f"exited {self._root_code}")


def _ask_members() -> None:
    asked: set[Member] = set()
    # A parent that ends during the scan hides its children from it: look again.
    for _ in range(3):
        fresh = members() - asked
        if not fresh:
            return
        asked |= _signal_members(fresh, signal.SIGTERM)


def _signal_members(targets: Iterable[Member], number: int) -> set[Member]:
    reached = set()
    for target in targets:
        if _signal_pid(target[0], number):
            reached.add(target)
    return reached


def _signal_pid(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def emit(event: str) -> None:
    """Tell the owner, if there is one."""
    try:
        os.write(_EVENTS_FD, os.fsencode(event) + b"\n")
    except OSError:
        return


def note(text: str) -> None:
    """Tell the readers of the server's log."""
    try:
        os.write(_LOG_FD, f"\n{LOG_PREFIX}{text}\n".encode())
    except OSError:
        return


def start(spec: Spec) -> int:
    """Start the server; return its pid once the program runs. Raises GuardError."""
    if not spec.argv:
        raise GuardError("no program is named")
    try:
        log_fd = os.open(spec.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    except (OSError, ValueError) as error:
        raise GuardError(f"log {spec.log_path}: {error}") from error
    os.dup2(log_fd, _LOG_FD, inheritable=False)
    os.close(log_fd)
    trouble_fd, report_fd = os.pipe()
    guard_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become_server(spec, guard_pid, report_fd)
    os.close(report_fd)
    # End of file comes when the program replaces the child, which closes its end of the pipe.
    is_told = _is_readable(trouble_fd, _EXEC_WAIT_S)
    trouble = os.read(trouble_fd, _READ_BYTES).decode() if is_told else "the program does not load"
    os.close(trouble_fd)
    if trouble:
        os.kill(pid, signal.SIGKILL)
        raise GuardError(trouble)
    return pid


def _become_server(spec: Spec, guard_pid: int, report_fd: int) -> NoReturn:
    subject = "fork"
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard_pid:
            os._exit(127)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(_LOG_FD, 1)
        os.dup2(1, 2)
        subject = f"directory {spec.cwd}"
        os.chdir(spec.cwd)
        subject = f"program {spec.argv[0]}"
        os.execvpe(spec.argv[0], list(spec.argv), spec.env)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        os.write(report_fd, f"{subject}: {reason}".encode(errors="replace"))
    finally:
        os._exit(127)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def _is_readable(fd: int, wait_s: float) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(wait_s * 1000))


def _leave_parent() -> None:
    if os.fork():
        os._exit(0)
    os.setsid()


def _catch_signals() -> int:
    """Turn the signals that matter into bytes of a pipe; return its readable end."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    os.set_blocking(write_fd, False)
    signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return read_fd


def main() -> None:
    """Start one server, watch it, end it."""
    if ATTACHED not in sys.argv[1:]:
        _leave_parent()
    try:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        signals_fd = _catch_signals()
        orders = Orders()
        spec, more = orders.read_spec()
        root_pid = start(spec)
    except (GuardError, OSError) as error:
        emit("error " + " ".join(str(error).split()))
        return
    emit(f"started {root_pid} {os.getpid()}")
    os.chdir("/")
    guard = Guard(spec, root_pid, orders, signals_fd)
    guard.take(more)
    if why := guard.watch():
        note(why)
    guard.end()


if __name__ == "__main__":
    main()
