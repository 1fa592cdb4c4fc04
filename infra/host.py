"""The seam to a machine: start a server on it, watch it, stop it so that nothing is left."""

from collections.abc import Mapping
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
