"""Whether the driver of a sweep lives, by the note that it leaves in the lock file."""

import re
from pathlib import Path

import psutil

_HOLDER = re.compile(r"(?P<sweep>.+), process (?P<pid>\d+)")
_CLOCK_S = 2.0
"""How far the start of a process and the time of a file may be off."""


def drives(lock: Path, sweep_id: str) -> bool:
    """Tell whether the process that a lock file names drives a sweep and is alive.

    The lock itself is not touched: whoever looks must not keep a driver from starting. A process
    that began after the file was written has only got the number of the one that wrote it.
    """
    try:
        found = _HOLDER.match(lock.read_text())
        written_s = lock.stat().st_mtime
    except OSError:
        return False
    if found is None or found["sweep"] != sweep_id:
        return False
    try:
        return psutil.Process(int(found["pid"])).create_time() <= written_s + _CLOCK_S
    except psutil.AccessDenied:
        return True
    except psutil.NoSuchProcess:
        return False
