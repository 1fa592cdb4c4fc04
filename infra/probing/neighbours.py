"""Who else is there: processes on our ports, and variables that stay in our shell."""

from collections.abc import Mapping
from contextlib import suppress

import psutil

from infra.probing.facts import Listener
from infra.probing.reading import ReadError
from infra.reaper import SWEEP_TAG

_MATTERING = ("NCCL_", "TORCH_NCCL_", "CUDA_", "SGLANG_", "SGL_")
_OPEN = ("127.0.0.1", "0.0.0.0", "::", "::1")


def listeners(ports: tuple[int, int]) -> tuple[Listener, ...]:
    """Return who listens on a range of ports, both ends included. Raises ReadError."""
    first, last = ports
    try:
        sockets = psutil.net_connections("tcp")
    except psutil.Error as error:
        raise ReadError(str(error)) from error
    found = set()
    for entry in sockets:
        if entry.status != psutil.CONN_LISTEN or not entry.laddr or entry.laddr.ip not in _OPEN:
            continue
        port, pid = entry.laddr.port, entry.pid
        if first <= port <= last:
            found.add(Listener(port, pid, _name(pid), sweep_of(pid)))
    return tuple(sorted(found, key=lambda one: (one.port, one.pid or 0)))


def sweep_of(pid: int | None) -> str:
    """Return the sweep whose tag a process carries; empty for a stranger, or where it is hidden."""
    with suppress(psutil.Error):
        return psutil.Process(pid).environ().get(SWEEP_TAG, "") if pid is not None else ""
    return ""


def unpassed(shell: Mapping[str, str], server_env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that matter to a server and that a server would not get."""
    names = (name for name in shell if name.startswith(_MATTERING))
    return tuple(sorted(name for name in names if name not in server_env))


def _name(pid: int | None) -> str:
    with suppress(psutil.Error):
        return psutil.Process(pid).name() if pid is not None else ""
    return ""
