"""Ports of this process alone: no other test of this machine has them, of this run or another.

They are not of the range that the system lends to connections, as those of a bind to port 0 are:
between such a bind and the start of a server somebody's connection could take its port.
"""

import itertools
from functools import cache
from pathlib import Path

from infra.file_lock import FileLock
from infra.local_host import LocalHost

_PLACE = Path("/tmp/orch-test-ports")  # whatever TMPDIR says: ports are the machine's
_FIRST, _BLOCK, _BLOCKS = 20_000, 600, 18
"""All below the ports of sweeps, which begin at 31000."""
_RANGE = 150
_SINGLE_FROM = 400
"""Above the ports that SGLang derives from those of the range."""
_held: list[FileLock] = []


@cache
def own_range() -> tuple[int, int]:
    """Return a range of this process, both ends included."""
    first = _block()
    return first, first + _RANGE - 1


def free_port() -> int:
    """Return a port on which nothing listens; each of this process in its turn."""
    host = LocalHost()
    return next(port for port in _in_turn() if host.is_port_free(port))


@cache
def _in_turn() -> "itertools.cycle[int]":
    first = _block()
    return itertools.cycle(range(first + _SINGLE_FROM, first + _BLOCK))


@cache
def _block() -> int:
    """Take the first port of a block; it is given back when this process ends."""
    _PLACE.mkdir(exist_ok=True)
    for number in range(_BLOCKS):
        if lock := FileLock.take(_PLACE / f"{number}.lock"):
            _held.append(lock)
            return _FIRST + number * _BLOCK
    raise AssertionError(f"all blocks of ports are taken: see {_PLACE}")
