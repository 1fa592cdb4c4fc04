"""Commands over one connection: both streams are read all the time, and every wait ends."""

import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import paramiko
from paramiko.ssh_exception import ChannelException, SSHException

from infra.remote import Completed, DeadlineError, LinkLostError, NoChannelError, UnsentError

MOST_BYTES = 64 << 20
"""Of each stream that are kept; the rest is read and dropped."""

REST_S = 2.0

_CHUNK_BYTES = 1 << 16
_LOOK_S = 1.0
_CLOCK_S = 0.01
_LOSS_S = 0.3


@dataclass(slots=True)
class _Output:
    """What a command prints, up to a limit."""

    kept: bytearray = field(default_factory=bytearray)
    truncated: bool = False

    def add(self, chunk: bytes) -> None:
        room = MOST_BYTES - len(self.kept)
        self.kept += chunk[:room]
        self.truncated = self.truncated or len(chunk) > room


@contextmanager
def session(transport: paramiko.Transport, open_s: float) -> Iterator[paramiko.Channel]:
    """Lend a channel. Raises UnsentError, NoChannelError, UnsentError."""
    try:
        channel = transport.open_session(timeout=open_s)
    except ChannelException as error:
        why = f"it opens no more channels ({error.text}): see MaxSessions in its sshd_config"
        raise NoChannelError(why) from error
    except (SSHException, OSError, EOFError) as error:
        raise UnsentError(f"no channel could be opened: {error or 'the link ended'}") from error
    try:
        yield channel
    finally:
        with suppress(OSError, EOFError, SSHException):
            channel.close()


def execute(channel: paramiko.Channel, line: str, answer_s: float) -> None:
    """Give a line to the user's shell. Raises LinkLostError."""
    # The library waits for the answer without a limit of its own.
    limit = threading.Timer(answer_s, channel.close)
    limit.daemon = True
    limit.start()
    try:
        channel.exec_command(line)
    except (SSHException, OSError, EOFError) as error:
        raise LinkLostError(f"the command could not be sent: {error}") from error
    finally:
        limit.cancel()


def complete(
    channel: paramiko.Channel,
    argv: Sequence[str],
    stdin: bytes,
    deadline_s: float,
    rest_s: float = REST_S,
) -> Completed:
    """Feed a command and read what it prints until it ends. Raises LinkLostError, DeadlineError.

    After the exit, so many seconds are given to output that a child in the background holds open.
    """
    until_s = time.monotonic() + deadline_s
    out, errors = _Output(), _Output()
    unsent, told_all = memoryview(stdin), False
    exited_s: float | None = None
    while True:
        moved = _drain(channel, out.add, errors.add)
        if not told_all:
            unsent, told_all = _feed(channel, unsent)
        if moved:
            continue
        if channel.exit_status_ready():
            exited_s = exited_s or time.monotonic()
            if channel.eof_received or channel.closed or time.monotonic() - exited_s > rest_s:
                break
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise DeadlineError(f"{argv[0]} was not done within {deadline_s:.1f} s")
        _wait(channel, left_s, by_clock=not told_all or exited_s is not None)
    _drain(channel, out.add, errors.add)
    truncated = out.truncated or errors.truncated
    code = _code(channel, argv[0])
    return Completed(tuple(argv), code, bytes(out.kept), bytes(errors.kept), truncated)


def _code(channel: paramiko.Channel, program: str) -> int:
    """Return the exit code; -1 for a signal. Raises LinkLostError where none can be known."""
    if channel.exit_status >= 0:
        return channel.exit_status
    transport = channel.get_transport()
    # A channel is closed a moment before its lost transport says so.
    transport.join(_LOSS_S)
    if not transport.is_active():
        raise LinkLostError(f"the link ended under {program}")
    return -1


def _drain(
    channel: paramiko.Channel, out: Callable[[bytes], None], errors: Callable[[bytes], None]
) -> bool:
    moved = False
    while channel.recv_ready():
        out(channel.recv(_CHUNK_BYTES))
        moved = True
    while channel.recv_stderr_ready():
        errors(channel.recv_stderr(_CHUNK_BYTES))
        moved = True
    return moved


def _feed(channel: paramiko.Channel, unsent: memoryview) -> tuple[memoryview, bool]:
    """Send what the other side takes now; tell when all is sent and said to be all."""
    try:
        while unsent and channel.send_ready():
            unsent = unsent[channel.send(bytes(unsent[:_CHUNK_BYTES])) :]
        if not unsent:
            channel.shutdown_write()
            return unsent, True
    except (OSError, SSHException, EOFError):
        # It may end without reading its input: what it printed still counts.
        return unsent, True
    return unsent, False


def _wait(channel: paramiko.Channel, left_s: float, *, by_clock: bool) -> None:
    """Wait for output; by the clock where its end has been told, or input waits to be taken."""
    if by_clock or channel.eof_received or channel.closed:
        time.sleep(min(left_s, _CLOCK_S))
        return
    select.select([channel], [], [], min(left_s, _LOOK_S))


class ChannelStream:
    """A running command over a channel."""

    def __init__(self, channel: paramiko.Channel, program: str) -> None:
        self._channel = channel
        self._program = program
        self._errors = _Output()
        self._out = bytearray()

    def write(self, data: bytes, deadline_s: float) -> None:
        """Send all of it."""
        until_s = time.monotonic() + deadline_s
        rest = memoryview(data)
        while rest:
            if self._channel.closed:
                raise LinkLostError(f"{self._program} takes no input any more")
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise DeadlineError(f"{self._program} took no input within {deadline_s:g} s")
            if not self._channel.send_ready():
                time.sleep(min(left_s, _CLOCK_S))
                continue
            try:
                rest = rest[self._channel.send(bytes(rest[:_CHUNK_BYTES])) :]
            except (OSError, SSHException, EOFError) as error:
                raise LinkLostError(f"{self._program} takes no input any more") from error

    def end_input(self) -> None:
        """Tell the command that no more will come."""
        with suppress(OSError, SSHException, EOFError):
            self._channel.shutdown_write()

    def read(self, wait_s: float) -> bytes | None:
        """Return what it printed; empty at its end, None if nothing came in time."""
        until_s = time.monotonic() + wait_s
        while True:
            _drain(self._channel, self._out.extend, self._errors.add)
            if self._out:
                chunk = bytes(self._out)
                self._out.clear()
                return chunk
            if self._is_over():
                return b""
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return None
            _wait(self._channel, left_s, by_clock=False)

    def exit_code(self, deadline_s: float) -> int:
        """Wait for the end; return its code."""
        until_s = time.monotonic() + deadline_s
        while not self._channel.exit_status_ready():
            _drain(self._channel, self._out.extend, self._errors.add)
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise DeadlineError(f"{self._program} was not done within {deadline_s:g} s")
            self._channel.status_event.wait(min(left_s, 0.05))
        return _code(self._channel, self._program)

    def close(self) -> None:
        """Close the channel."""
        with suppress(OSError, SSHException, EOFError):
            self._channel.close()

    def _is_over(self) -> bool:
        """What came before the end is read first."""
        is_read = not self._channel.recv_ready()
        return is_read and bool(self._channel.eof_received or self._channel.closed)
