"""Another machine as a host: guards over a connection, whose end is the end of their servers."""

import json
import logging
import os
import threading
import time
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from infra import guard, reaper
from infra.guard_link import GuardLink
from infra.host import Command, HostError
from infra.local_host import PORTS, START_WAIT_S, GuardedProcess, await_start, guard_spec
from infra.remote import DeadlineError, LinkLostError, Remote, RemoteError, Stream

_ANSWER_S = 60.0
_READ_BYTES = 1 << 16
_LOOK_S = 0.5
_log = logging.getLogger(__name__)


class RemoteHost:
    """Runs servers on another machine, in whose interpreter ours is installed.

    A guard there sits at the end of a connection: when that is lost, or this process dies, it ends
    its server, at once or after the lease.
    """

    def __init__(self, remote: Remote, python: str, port_range: tuple[int, int] = PORTS) -> None:
        self._remote = remote
        self._python = python
        self._ports = port_range
        self._next_port = port_range[0] + os.getpid() % (port_range[1] - port_range[0] + 1)
        self._hands = RemoteHands(remote, python)
        self._lock = threading.Lock()
        self._outside: dict[str, str] = {}

    def start(self, command: Command) -> GuardedProcess:
        """Start a server under a guard there. Raises HostError."""
        command = replace(command, log_path=command.log_path.absolute())
        made = self._remote.run(["mkdir", "-p", "--", str(command.log_path.parent)])
        if made.code != 0:
            raise HostError(f"cannot start a guard: {made.complaint}")
        tags = {**reaper.tags(command.sweep, command.trial), reaper.GUARD_TAG: "1"}
        words = [self._python, "-I", "-m", "infra.guard", guard.ATTACHED]
        pipes = StreamPipes(self._remote.open(words, tags, cwd="/"))
        link = GuardLink(pipes.orders, pipes.events)
        try:
            pid = await_start(link, guard_spec(command, self._environment()))
        except BaseException:
            link.close()
            pipes.join()
            raise
        _log.info("sweep=%s trial=%s pid=%d started there", command.sweep, command.trial, pid)
        return GuardedProcess(command, link, pid, self._hands)

    def free_port(self) -> int:
        """Return a loopback port there that is free now, each of the range in its turn."""
        first, last = self._ports
        with self._lock:
            port = int(self._hands.ask("free-port", first, last, self._next_port))
            self._next_port = port + 1 if port < last else first
        return port

    def is_port_free(self, port: int) -> bool:
        """Tell whether a server could listen on a loopback port there now."""
        return bool(self._hands.ask("is-port-free", port))

    def reap(self, sweep: str, trial: str | None = None) -> int:
        """Kill all there that carries the tag of a sweep or trial; return how many there were."""
        if trial is None:
            return int(self._hands.ask("reap-sweep", sweep))
        return self._hands.reap(sweep, trial)

    def close(self) -> None:
        """End what answers there. Servers go on, and so does their connection."""
        self._hands.close()

    def _environment(self) -> dict[str, str]:
        """Return what a program gets there without being told anything; asked once."""
        if not self._outside:
            text = self._remote.run(["env", "-0"], repeatable=True).stdout
            pairs = (os.fsdecode(pair).partition("=")[::2] for pair in text.split(b"\0"))
            self._outside = {name: value for name, value in pairs if name}
        return self._outside


def _tags() -> dict[str, str]:
    """Return what has a process there work for the same state folder as this one."""
    state = reaper.works_for()
    return {reaper.STATE_TAG: state} if state else {}


class RemoteHands:
    """Done on the other machine by one process of ours there, which waits for the next question."""

    def __init__(self, remote: Remote, python: str) -> None:
        self._remote = remote
        self._python = python
        self._lock = threading.Lock()
        self._held = ExitStack()
        self._stream: Stream | None = None

    def reap(self, sweep: str, trial: str) -> int:
        """Kill all of a trial and wait for its end."""
        return int(self.ask("reap", sweep, trial))

    def strike(self, sweep: str, trial: str) -> int:
        """Have what there is of a trial killed soon; how many that are is not waited for."""
        self._ask_later("strike", sweep, trial)
        return 0

    def survivors(self, sweep: str, trial: str) -> int:
        """Count what is left of a trial."""
        return int(self.ask("survivors", sweep, trial))

    def tail(self, path: Path, lines: int) -> list[str]:
        """Return the last lines of a log."""
        return [str(line) for line in self.ask("tail", path, lines)]

    def note(self, path: Path, text: str) -> None:
        """Append to a log soon, if that can be done."""
        self._ask_later("note", path, text)

    def listens(self, pid: int, port: int) -> bool:
        """Look for a listening socket in a whole tree."""
        return bool(self.ask("listens", pid, port))

    def ask(self, verb: str, *words: object) -> Any:
        """Let ours there do one thing; all of it may be done twice. Raises RemoteError."""
        line = json.dumps([verb, *map(str, words)]).encode() + b"\n"
        with self._lock:
            try:
                text = self._exchange(line)
            except LinkLostError:
                self._hang_up()
                text = self._exchange(line)
            except BaseException:
                # An answer that comes too late must not be taken for the next one.
                self._hang_up()
                raise
        answer = json.loads(text)
        if "error" in answer:
            raise RemoteError(f"{self._remote.name}: {answer['error']}")
        return answer["result"]

    def _ask_later(self, verb: str, *words: object) -> None:
        """Ask what nobody waits for: a lost guard is found in a poll, often with the link lost."""

        def work() -> None:
            with suppress(RemoteError):
                self.ask(verb, *words)

        threading.Thread(target=work, name=f"hands {verb}", daemon=True).start()

    def close(self) -> None:
        """End the process there. Safe to call twice; another question starts it again."""
        with self._lock:
            self._hang_up()

    def _exchange(self, line: bytes) -> bytes:
        if self._stream is None:
            argv = [self._python, "-I", "-m", "infra.hands"]
            self._stream = self._held.enter_context(self._remote.open(argv, _tags(), cwd="/"))
        self._stream.write(line, _ANSWER_S)
        text = b""
        until_s = time.monotonic() + _ANSWER_S
        while not text.endswith(b"\n"):
            chunk = self._stream.read(until_s - time.monotonic())
            if chunk is None:
                raise DeadlineError(f"{self._remote.name}: no answer within {_ANSWER_S:g} s")
            if not chunk:
                raise LinkLostError(f"{self._remote.name}: {self._python} -m infra.hands ended")
            text += chunk
        return text

    def _hang_up(self) -> None:
        self._stream = None
        self._held.close()


class StreamPipes:
    """Gives a stream the shape of two pipes, which is what a guard's owner holds.

    The threads end when the pipes are closed, or the far side ends.
    """

    orders: IO[bytes]
    events: IO[bytes]

    def __init__(self, opened: AbstractContextManager[Stream]) -> None:
        self._opened = opened
        self._stream = opened.__enter__()
        orders_fd, orders_end_fd = os.pipe()
        events_end_fd, events_fd = os.pipe()
        self.orders = os.fdopen(orders_end_fd, "wb", 0)
        self.events = os.fdopen(events_end_fd, "rb", 0)
        self._threads = [
            threading.Thread(target=self._send, args=(orders_fd,), daemon=True, name="orders"),
            threading.Thread(target=self._receive, args=(events_fd,), daemon=True, name="events"),
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until both threads have ended."""
        for thread in self._threads:
            thread.join(START_WAIT_S)

    def _send(self, fd: int) -> None:
        with os.fdopen(fd, "rb", 0) as pipe:
            with suppress(RemoteError):
                while chunk := pipe.read(_READ_BYTES):
                    self._stream.write(chunk, START_WAIT_S)
            self._stream.end_input()

    def _receive(self, fd: int) -> None:
        # Closed here and not where it ends: the guard's last words may still be on their way.
        with os.fdopen(fd, "wb", 0) as pipe, suppress(BrokenPipeError, RemoteError):
            while (chunk := self._stream.read(_LOOK_S)) != b"":
                if chunk:
                    pipe.write(chunk)
        self._opened.__exit__(None, None, None)
