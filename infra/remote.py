"""The seam to another machine: run, start, send and fetch there, with a deadline on each call."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from infra.host import HostError

COMMAND_S = 60.0
"""Wall seconds for a short command, unless the caller says otherwise."""
TRANSFER_S = 3600.0


class RemoteError(HostError):
    """Another machine cannot be used; the message says why, and what may mend it."""


class UnreachableError(RemoteError):
    """Nothing answers there now; another try may help."""


class UntrustedHostError(RemoteError):
    """The machine shows a key that is not known, or another one than before. Never tried again."""


class NoChannelError(RemoteError):
    """The connection stands, and the machine opens nothing more over it."""


class LoginRefusedError(RemoteError):
    """The machine does not let us in, with any key that it was to be tried with."""


class LinkLostError(RemoteError):
    """The connection ended under a call: what it had started may or may not have happened."""


class UnsentError(LinkLostError):
    """The connection ended before anything was asked of the machine: nothing happened there."""


class DeadlineError(RemoteError):
    """A call was not done in time; a command is ended on the far side as well."""


class TransferError(RemoteError):
    """A file could not be read or written there, or did not arrive as it was sent."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that has ended; the code is -1 for any signal."""

    argv: tuple[str, ...]
    code: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False
    """There was more output than is kept."""

    @property
    def text(self) -> str:
        """Return what was printed."""
        return self.stdout.decode(errors="replace")

    @property
    def complaint(self) -> str:
        """Return the last line of the errors, or of the output where there is none; never empty."""
        lines = (self.stderr.strip() or self.stdout.strip()).decode(errors="replace").splitlines()
        return lines[-1][:300] if lines else f"exit code {self.code}, without a word"


@dataclass(frozen=True, slots=True)
class Detached:
    """A process that was started in a session of its own and outlives every connection.

    Start ticks and boot id tell it from a later process of the same pid.
    """

    pid: int
    started_ticks: int
    boot_id: str

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {"pid": self.pid, "started_ticks": self.started_ticks, "boot_id": self.boot_id}


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A regular file there, by its path below the folder that was listed."""

    path: PurePosixPath
    size_bytes: int
    mtime_s: float


Progress = Callable[[int, int], None]
"""Told how many bytes of how many have arrived."""


class Stream(Protocol):
    """A command that is talked to while it runs. One thread reads; another may write."""

    def write(self, data: bytes, deadline_s: float) -> None:
        """Send all of it. Raises LinkLostError, DeadlineError."""
        ...

    def end_input(self) -> None:
        """Tell the command that no more will come."""
        ...

    def read(self, wait_s: float) -> bytes | None:
        """Return what it printed; empty at its end, None if nothing came within some wall seconds.

        Its errors are kept apart, and drained.
        """
        ...

    def exit_code(self, deadline_s: float) -> int:
        """Wait for the end; return its code. Raises LinkLostError, DeadlineError."""
        ...

    def close(self) -> None:
        """Close the channel, and so the command's input. Safe to call twice."""
        ...


class Remote(Protocol):
    """Another machine. Safe to use from several threads; connects when it is first needed.

    A connection that is lost is made again, with back-off, by the next call. All paths there are
    absolute. Each call raises a RemoteError of the kind that fits, and blocks no longer than its
    deadline and, where it must connect first, the time that this may take.
    """

    @property
    def name(self) -> str:
        """Return what the inventory calls it."""
        ...

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
        """Run a command to its end, without a login shell or a terminal.

        `hidden` are variables that appear in nobody's list of processes. A lost link is an error,
        unless the command is `repeatable`: then it is run again over a new one.
        """
        ...

    def open(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, *, cwd: str | None = None
    ) -> AbstractContextManager[Stream]:
        """Run a command that is talked to; it is told of the end by the end of its input."""
        ...

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
        """Start a program in a session of its own: it outlives this connection and this process.

        Its output is appended to a file there; its input is empty. Returns once it runs.
        """
        ...

    def is_running(self, process: Detached) -> bool:
        """Tell whether a detached process still runs, and is not another with its pid."""
        ...

    def signal(self, process: Detached, number: int) -> bool:
        """Send a signal to the session of a detached process; False if it has ended already."""
        ...

    def put(
        self,
        local: Path,
        path: str,
        *,
        mode: int = 0o644,
        progress: Progress | None = None,
        deadline_s: float = TRANSFER_S,
    ) -> bool:
        """Send a file: beside its place, checked by its hash, then renamed; False if it was there.

        What an earlier, broken transfer of the same content left is continued.
        """
        ...

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a small file there, whole or not at all; its folder is made."""
        ...

    def get(
        self,
        path: str,
        local: Path,
        *,
        progress: Progress | None = None,
        deadline_s: float = TRANSFER_S,
    ) -> None:
        """Fetch a file as `put` sends one: beside its place, checked, renamed; continued."""
        ...

    def read(self, path: str, offset: int = 0, limit: int = 1 << 20) -> bytes:
        """Return the bytes of a file from an offset on, at most `limit`; empty at its end.

        Raises FileNotFoundError where there is none.
        """
        ...

    def files(self, folder: str) -> list[RemoteFile]:
        """List the regular files below a folder, sorted by path; none where there is no folder."""
        ...

    def forward(self, port: int, address: str = "127.0.0.1") -> AbstractContextManager[int]:
        """Lend a loopback port of this machine whose connections end at an address there.

        The port stays while the connection is lost and made again.
        """
        ...

    def home(self) -> str:
        """Return the absolute home folder of the user there."""
        ...

    def close(self) -> None:
        """Close the connection. Detached processes go on. Safe to call twice."""
        ...
