"""The seam to a machine: start a server on it, watch it, stop it so that nothing is left."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class HostError(Exception):
    """The machine failed, not the program that was started on it."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to start. `inherit` names the variables that may pass from the host's environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    log_path: Path
    sweep: str
    trial: str
    inherit: tuple[str, ...] = ()
    cwd: Path | None = None
    grace_s: float = 20.0
    """Wall seconds between asking the server to end and killing it."""
    lease_s: float = 20.0
    """Wall seconds without a sign of life from the owner after which the tree is ended."""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set but never logged."""


@dataclass(frozen=True, slots=True)
class StopReport:
    """What a stop found: how many processes had to be killed, and how many outlived even that."""

    exit_code: int | None
    killed: int
    survivors: int
    root_s: float | None = field(default=None, compare=False)
    """Wall seconds from the order to the root's exit; None where the exit was not seen."""

    @property
    def clean(self) -> bool:
        """Tell whether nothing of the tree is left."""
        return self.survivors == 0


@dataclass(slots=True)
class Reservation:
    """What a trial has to itself on a machine while its server lives, and after a stop to prove."""

    sweep: str
    trial: str
    port: int
    rendezvous_port: int
    temp_folder: Path
    """For the server's TMPDIR. Its path is short, since sockets lie in it."""
    derived_ports: tuple[int, ...] = ()
    """What SGLang listens on as well where data parallelism divides attention."""
    floors_bytes: Mapping[str, int] = field(default_factory=dict)
    """Memory in use on each GPU, by UUID, before the sweep started its first server here."""
    segments: frozenset[tuple[str, int]] = frozenset()
    """Shared memory that was there before: name and inode."""
    disputed: bool = False
    """The host could not be proved clean, so the record of the trial stays, for `clean`."""

    @property
    def ports(self) -> tuple[int, ...]:
        """Return all of them."""
        return (self.port, self.rendezvous_port, *self.derived_ports)


@dataclass(frozen=True, slots=True)
class CleanReport:
    """What was left of a trial after its processes were ended."""

    left: tuple[str, ...] = ()
    """Each thing in words: pid, port, GPU and bytes, or path."""
    waited_s: float = 0.0
    """In the host's own seconds."""
    killed: int = 0
    """Processes that had to be found by their tag, since the stop had not reached them."""
    skipped: tuple[str, ...] = ()
    """What could not be looked at, in words."""

    @property
    def clean(self) -> bool:
        """Tell whether nothing is left."""
        return not self.left

    def __str__(self) -> str:
        """Return it as a sentence."""
        if self.clean:
            return f"clean after {self.waited_s:.1f} s"
        return f"not clean after {self.waited_s:.1f} s: {'; '.join(self.left)}"


class Process(Protocol):
    """A server's process tree under a guard. One thread uses it."""

    @property
    def pid(self) -> int:
        """Return the process id of the server's root."""
        ...

    def poll(self) -> int | None:
        """Return the root's exit code (negative for a signal); None while it runs. Never blocks.

        A guard that ends the tree unasked, or is lost, says so in a line of the log.
        """
        ...

    def stop(self, grace_s: float | None = None) -> StopReport:
        """Ask, wait, kill, and prove that nothing is left. Blocks, with a deadline of its own.

        Safe to call twice: the second call returns the first report. None: the command's grace.
        """
        ...

    def log_tail(self, lines: int) -> list[str]:
        """Return the last lines that the server wrote."""
        ...

    def listens_on(self, port: int) -> bool:
        """Tell whether it is this server, and no other program, that listens on a port."""
        ...


class Host(Protocol):
    """A machine that can run servers. Safe to use from several threads."""

    def start(self, command: Command) -> Process:
        """Start a server under a guard. Whoever starts it must stop it.

        Raises:
            HostError: the guard, the program, its directory or its log cannot be started or opened.
        """
        ...

    def free_port(self) -> int:
        """Return a loopback port that nothing listens on, and not one handed out a moment ago.

        Nothing is reserved: start the server soon. Raises HostError if there is none.
        """
        ...

    def is_port_free(self, port: int) -> bool:
        """Tell whether a server could listen on a loopback port now."""
        ...

    def reap(self, sweep: str, trial: str | None = None) -> int:
        """Kill every process that carries the tag of a sweep or trial; return how many there were.

        Blocks, with a deadline. A last resort: it asks nobody, and ends guards as well.
        """
        ...


class Premises(Protocol):
    """What a server takes of its machine beside processes. Safe to use from several threads."""

    def reserve(self, sweep: str, trial: str, folder: Path) -> AbstractContextManager[Reservation]:
        """Lend ports and a temporary folder to one trial, to nobody else on this machine.

        `folder` belongs to the sweep: it keeps what GPU memory was in use before the first server.
        All is given back in the end, also if this process dies. Raises HostError if there is none.
        """
        ...

    def prove_clean(self, reservation: Reservation, deadline_s: float) -> CleanReport:
        """Wait until nothing of a stopped server is left, or a deadline in host seconds is over.

        Processes, ports, GPU memory, shared memory, temporary files. Call it while the reservation
        is held, after `Process.stop`: what still carries the trial's tag is killed.
        """
        ...
