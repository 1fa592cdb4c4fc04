"""Whether the driver of a sweep lives, by the note that it leaves in the folder's lock file."""

import re
from pathlib import Path

import psutil

_HOLDER = re.compile(r".+, process (?P<pid>\d+)")
_CLOCK_S = 2.0
"""How far the start of a process and the time of a file may be off."""


def is_held(lock: Path) -> bool:
    """Tell whether the process that a lock file names is alive: the driver of what runs there.

    The lock itself is not touched: whoever looks must not keep a driver from starting. A process
    that began after the file was written has only got the number of the one that wrote it.
    """
    try:
        found = _HOLDER.match(lock.read_text())
        written_s = lock.stat().st_mtime
    except OSError:
        return False
    if found is None:
        return False
    try:
        return psutil.Process(int(found["pid"])).create_time() <= written_s + _CLOCK_S
    except psutil.AccessDenied:
        return True
    except psutil.NoSuchProcess:
        return False
