"""One host over SSH: connected when that is needed, and again when the connection was lost."""

import logging
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import paramiko
from paramiko.ssh_exception import SSHException

from infra.inventory import HostEntry, Inventory
from infra.remote import (
    COMMAND_S,
    TRANSFER_S,
    Completed,
    DeadlineError,
    Detached,
    LinkLostError,
    Progress,
    RemoteError,
    RemoteFile,
    TransferError,
    UnreachableError,
    UnsentError,
)
from infra.ssh import channels, detached
from infra.ssh.channels import ChannelStream
from infra.ssh.config import Hop, route
from infra.ssh.login import Connection, connect
from infra.ssh.quoting import command_line, exports, reading_exports
from infra.ssh.transfer import Transfer, translated
from infra.ssh.tunnel import forwarded

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0
_FATE_S = 0.5
"""Wall seconds after which a link that ended is known to have ended."""
_CALLS_AT_ONCE = 5
"""Short ones; sshd opens ten channels by default, and streams need theirs."""
_HASH_S = 1800.0
_KILL_AFTER_S = 2
_TIMED_OUT = 124
_SHA256 = re.compile("[0-9a-f]{64}")
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class SshRemote:
    """A host at the end of a chain of hops."""

    def __init__(self, name: str, hops: Sequence[Hop]) -> None:
        self._name = name
        self._hops = tuple(hops)
        self._limits = self._hops[-1].limits
        self._connection: Connection | None = None
        self._was_connected = False
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._calls = threading.Semaphore(_CALLS_AT_ONCE)
        self._home = ""

    @classmethod
    def to(cls, host: HostEntry, inventory: Inventory, config: Path | None = None) -> "SshRemote":
        """Return a host of an inventory, not connected yet; `config` replaces ~/.ssh/config.

        Raises BadInputError where the way to it is not clear.
        """
        return cls(host.name, route(host, inventory, config))

    @property
    def name(self) -> str:
        """Return what the inventory calls it."""
        return self._name

    def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        deadline_s: float = COMMAND_S,
        cwd: str | None = None,
        stdin: bytes = b"",
        hidden: Mapping[str, str] | None = None,
        repeatable: bool = False,
    ) -> Completed:
        """Run a command to its end."""
        if not argv:
            raise ValueError("no program is named")
        # What we no longer wait for must not go on there.
        words = ["timeout", "-k", str(_KILL_AFTER_S), f"{deadline_s:.3f}", *argv]
        line, fed = _with_hidden(command_line(words, env, cwd=cwd), stdin, hidden)

        def once(transport: paramiko.Transport) -> Completed:
            since_s = time.monotonic()
            done = self._complete(transport, line, argv, fed, deadline_s)
            if done.code == _TIMED_OUT and time.monotonic() - since_s >= deadline_s:
                raise DeadlineError(f"{argv[0]} was not done within {deadline_s:g} s")
            return done

        return self._call(once, deadline_s, repeatable=repeatable)

    @contextmanager
    def open(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, *, cwd: str | None = None
    ) -> Iterator[ChannelStream]:
        """Run a command that is talked to."""
        line = command_line(argv, env, cwd=cwd)
        with channels.session(self._transport(), self._limits.connect_s) as channel:
            channels.execute(channel, line, self._limits.command_s)
            yield ChannelStream(channel, argv[0])

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        log_path: str,
        cwd: str | None = None,
        hidden: Mapping[str, str] | None = None,
        deadline_s: float = COMMAND_S,
    ) -> Detached:
        """Start a program in a session of its own."""
        words = detached.start_words(argv, log_path, cwd or "/")
        line, fed = _with_hidden(command_line(words, env), b"", hidden)

        def once(transport: paramiko.Transport) -> Completed:
            return self._complete(transport, line, argv, fed, deadline_s, rest_s=deadline_s)

        return detached.read_start(self._call(once, deadline_s), self._name, argv[0])

    def is_running(self, process: Detached) -> bool:
        """Tell whether a detached process still runs."""
        return self.run(detached.look_words(process), repeatable=True).code == 0

    def signal(self, process: Detached, number: int) -> bool:
        """Send a signal to the session of a detached process."""
        return self.run(detached.look_words(process, number), repeatable=True).code == 0

    def put(
        self,
        local: Path,
        path: str,
        *,
        mode: int = 0o644,
        progress: Progress | None = None,
        deadline_s: float = TRANSFER_S,
    ) -> bool:
        """Send a file."""
        until_s = time.monotonic() + deadline_s

        def once(transfer: Transfer) -> bool:
            left_s = until_s - time.monotonic()
            return transfer.put(local, path, mode=mode, progress=progress, deadline_s=left_s)

        return self._transfer(once, f"sending {path}", deadline_s)

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a small file there."""
        self._transfer(lambda transfer: transfer.write(path, data, mode), f"writing {path}")

    def get(
        self,
        path: str,
        local: Path,
        *,
        progress: Progress | None = None,
        deadline_s: float = TRANSFER_S,
    ) -> None:
        """Fetch a file."""
        until_s = time.monotonic() + deadline_s

        def once(transfer: Transfer) -> None:
            left_s = until_s - time.monotonic()
            transfer.get(path, local, progress=progress, deadline_s=left_s)

        self._transfer(once, f"fetching {path}", deadline_s)

    def read(self, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        """Return the bytes of a file from an offset on."""
        return self._transfer(lambda t: t.read(path, offset, limit), f"reading {path}")

    def files(self, folder: str) -> list[RemoteFile]:
        """List the regular files below a folder."""
        return self._transfer(lambda transfer: transfer.files(folder), f"listing {folder}")

    @contextmanager
    def forward(self, port: int, address: str = "127.0.0.1") -> Iterator[int]:
        """Lend a loopback port whose connections end there."""
        self._transport()  # so that a host that cannot be reached is told of at once
        with forwarded(self._transport, (address, port), self._limits.connect_s) as here:
            yield here

    def home(self) -> str:
        """Return the home folder of the user there."""
        if not self._home:
            found = self.run(["sh", "-c", 'printf %s "$HOME"'], repeatable=True).text
            if not found.startswith("/") or not found.isprintable():
                raise RemoteError(f"{self._name}: the user has no home there: {found[:80]!r}")
            self._home = found
        return self._home

    def close(self) -> None:
        """Close the connection."""
        self._closed.set()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _transport(self) -> paramiko.Transport:
        return self._live().last

    def _live(self) -> Connection:
        """Return the connection, made anew if it is lost. Raises RemoteError."""
        with self._lock:
            if self._connection is not None and self._connection.alive:
                return self._connection
            if self._connection is not None:
                self._connection.close()
            self._connection = self._reconnect()
            self._was_connected = True
            return self._connection

    def _reconnect(self) -> Connection:
        """Connect: at once or not at all the first time, later with growing pauses."""
        until_s = time.monotonic() + (self._limits.retry_s if self._was_connected else 0.0)
        pause_s = _FIRST_PAUSE_S
        while not self._closed.is_set():
            try:
                return self._connect()
            except (UnreachableError, LinkLostError) as error:
                # Many hosts that lost one network must not all come back in one moment.
                wait_s = pause_s * random.uniform(0.5, 1.0)
                if time.monotonic() + wait_s >= until_s:
                    raise
                _log.info("%s: %s; again in %.1f s", self._name, error, wait_s)
                self._closed.wait(wait_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        raise UnreachableError(f"{self._name}: the connection was closed here")

    def _connect(self) -> Connection:
        connection = connect(self._hops)
        try:
            if not self._was_connected:
                self._refuse_noise(connection.last)
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_noise(self, transport: paramiko.Transport) -> None:
        """Raise RemoteError where the user's shell prints: each answer would begin so."""
        words = ["true"]
        done = self._complete(transport, command_line(words), words, b"", self._limits.command_s)
        if done.stdout:
            shown = done.stdout[:80].decode(errors="replace")
            raise RemoteError(
                f"{self._name}: its shell prints before each command: {shown!r}. Let ~/.bashrc, or"
                " what its shell reads, print on a terminal only: `[[ $- == *i* ]] || return` first"
            )

    def _call(
        self,
        once: Callable[[paramiko.Transport], _T],
        deadline_s: float,
        *,
        repeatable: bool = False,
    ) -> _T:
        """Do something over the connection; again over a new one, if that can do no harm."""
        until_s, pause_s = time.monotonic() + deadline_s, 0.0
        while True:
            connection = self._live()
            try:
                with self._calls:
                    return once(connection.last)
            except LinkLostError as error:
                self._give_up(connection)
                harmless = repeatable or isinstance(error, UnsentError)
                if not harmless or time.monotonic() + pause_s >= until_s:
                    raise LinkLostError(f"{self._name}: {error}") from error
            # A link that comes up and is lost again each time is not hammered.
            self._closed.wait(pause_s)
            pause_s = min(2 * pause_s or _FIRST_PAUSE_S, _LONGEST_PAUSE_S)

    def _give_up(self, connection: Connection) -> None:
        with self._lock:
            connection.close()

    def _complete(
        self,
        transport: paramiko.Transport,
        line: str,
        argv: Sequence[str],
        stdin: bytes,
        deadline_s: float,
        rest_s: float = channels.REST_S,
    ) -> Completed:
        until_s = time.monotonic() + deadline_s
        with channels.session(transport, min(deadline_s, self._limits.connect_s)) as channel:
            channels.execute(channel, line, deadline_s)
            left_s = until_s - time.monotonic()
            return channels.complete(channel, argv, stdin, left_s, rest_s)

    def _transfer(
        self, once: Callable[[Transfer], _T], what: str, deadline_s: float = COMMAND_S
    ) -> _T:
        def over(transport: paramiko.Transport) -> _T:
            with (
                translated(f"{self._name}: {what}"),
                _file_channel(transport, self._name, self._limits.lost_after_s) as sftp,
            ):
                return once(Transfer(sftp, self._hash))

        return self._call(over, deadline_s, repeatable=True)

    def _hash(self, path: str) -> str:
        """Hash a file there: what it holds is then read twice, and sent once."""
        words = ["sha256sum", "-b", "--", path]
        line = command_line(words)
        done = self._complete(self._transport(), line, words, b"", _HASH_S)
        if done.code != 0:
            raise TransferError(f"{self._name}: {path} cannot be read: {done.complaint}")
        # A backslash first says that the name was escaped.
        found = done.text.lstrip("\\").split(" ", 1)[0]
        # It becomes part of a file's name here.
        if not _SHA256.fullmatch(found):
            raise TransferError(f"{self._name}: sha256sum there answers {found[:80]!r}")
        return found


def _with_hidden(line: str, stdin: bytes, hidden: Mapping[str, str] | None) -> tuple[str, bytes]:
    if not hidden:
        return line, stdin
    return reading_exports(line), exports(hidden).encode() + b"\n" + stdin


@contextmanager
def _file_channel(
    transport: paramiko.Transport, name: str, answer_s: float
) -> Iterator[paramiko.SFTPClient]:
    try:
        sftp = paramiko.SFTPClient.from_transport(transport)
    except (SSHException, EOFError) as error:
        transport.join(_FATE_S)
        if not transport.is_active():
            raise
        mend = "put `Subsystem sftp internal-sftp` into its sshd_config"
        raise TransferError(f"{name}: the SSH server there takes no files: {mend}") from error
    channel = sftp.get_channel() if sftp else None
    if sftp is None or channel is None:
        raise LinkLostError("no channel for files could be opened")
    channel.settimeout(answer_s)
    try:
        yield sftp
    finally:
        sftp.close()
