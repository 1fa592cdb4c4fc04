"""Which process that is: a pid alone may pass to another, after its end or after the next boot."""

import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process of one boot of one machine."""

    pid: int
    started_ticks: int
    boot_id: str
    machine: str
    namespace: str
    """Of pids: two containers count them apart."""

    @classmethod
    def own(cls) -> "ProcessId":
        """Return this process."""
        pid = os.getpid()
        return cls(pid, started_ticks(pid) or 0, boot_id(), platform.node(), _namespace())

    def is_gone(self) -> bool:
        """Tell whether it has surely ended: on another machine or in a container none can know."""
        if self.machine != platform.node():
            return False
        if self.boot_id != boot_id():
            return True
        here = self.namespace == _namespace()
        return here and started_ticks(self.pid) != self.started_ticks

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return asdict(self)


def boot_id() -> str:
    """Return what the kernel calls the present boot."""
    return _BOOT.read_text().strip()


def _namespace() -> str:
    try:
        return str(_NAMESPACE.readlink())
    except OSError:
        return ""


def started_ticks(pid: int) -> int | None:
    """Return the clock ticks of a process's start; None if it is gone or waits to be reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name stands in parentheses, and may hold blanks and parentheses itself.
    fields = text.rpartition(b")")[2].split()
    return None if fields[0] in b"ZX" else int(fields[19])
