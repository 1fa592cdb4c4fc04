"""Finds and removes the shared-memory segments that a killed server leaves behind.

A segment counts as a leftover if it has a name of SGLang, NCCL, CUDA or Python's multiprocessing,
belongs to this user, was not there when the server's trial began, and no living process has it
mapped or open. Where processes may use the folder that cannot be seen from here, none counts.
"""

import fnmatch
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

_MOUNT_POINT = "/dev/shm"
FOLDER = Path(_MOUNT_POINT)
# SGLang 0.5.23: srt/utils, srt/managers/multi_tokenizer_mixin.py; NCCL 2.2x: nccl-*; CUDA IPC:
# cuda.shm.*; Python: multiprocessing.shared_memory (psm_*) and semaphores (sem.*).
PATTERNS = (
    "nccl-*", "cuda.shm.*", "sgl_shm_*", "sglang_*", "multi_tokenizer_args_*", "psm_*", "sem.*",
)  # fmt: skip

# The inode of the first of all PID namespaces (Linux, include/linux/proc_ns.h, PROC_PID_INIT_INO).
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
_PRIVATE_SOURCE = "shm"
"""What container runtimes call a folder of shared memory that only one container has."""

Segment = tuple[str, int]
"""A name and its inode, which tells two segments of one name apart."""


def segments() -> frozenset[Segment]:
    """Return what is there now, whoever it belongs to."""
    return frozenset((path.name, found.st_ino) for path, found in _files())


def is_overseen() -> bool:
    """Tell whether every process that can use the folder is visible from here.

    Not so in a container that shares the folder of its host: an inference server of another one
    may use a segment that looks abandoned from here.
    """
    if str(Path("/proc/self/ns/pid").readlink()) == _FIRST_PID_NAMESPACE:
        return True
    sources = [
        line.split(" - ", 1)[1].split()[1]
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if line.split()[4] == _MOUNT_POINT
    ]
    return bool(sources) and sources[-1] == _PRIVATE_SOURCE


def unused(before: Iterable[Segment]) -> list[Path]:
    """Return the leftovers of a trial that began when only `before` was there."""
    if not is_overseen():
        return []
    known = set(before)
    fresh = {
        (found.st_dev, found.st_ino): path
        for path, found in _files()
        if _is_private(found) and (path.name, found.st_ino) not in known
        if any(fnmatch.fnmatchcase(path.name, pattern) for pattern in PATTERNS)
    }
    if not fresh:
        return []
    used = _used({device for device, _ in fresh})
    return sorted(path for key, path in fresh.items() if key not in used)


def remove_unused(before: Iterable[Segment]) -> list[Path]:
    """Remove the leftovers of a trial; return those that could not be removed."""
    kept = []
    for path in unused(before):
        try:
            path.unlink(missing_ok=True)
        except OSError:
            kept.append(path)
    return kept


def _is_private(found: os.stat_result) -> bool:
    """Tell whether a file is ours alone, or we may look into every process."""
    shared = found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return found.st_uid == os.getuid() and (not shared or os.getuid() == 0)


def _files() -> Iterator[tuple[Path, os.stat_result]]:
    try:
        paths = list(FOLDER.iterdir())
    except OSError:
        return
    for path in paths:
        try:
            yield path, path.lstat()
        except FileNotFoundError:
            continue


def _used(devices: set[int]) -> set[tuple[int, int]]:
    """Return device and inode of all that living processes have mapped or open there."""
    used: set[tuple[int, int]] = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            used.update(_mapped(process, devices), _open(process))
    return used


def _mapped(process: Path, devices: set[int]) -> Iterator[tuple[int, int]]:
    marks = {f" {os.major(d):02x}:{os.minor(d):02x} ".encode(): d for d in devices}
    try:
        lines = (process / "maps").read_bytes().splitlines()
    except OSError:
        return  # gone meanwhile, or another user's, who cannot have mapped what is ours alone
    for line in lines:
        for mark, device in marks.items():
            if mark in line:
                yield device, int(line.split(maxsplit=5)[4])


def _open(process: Path) -> Iterator[tuple[int, int]]:
    try:
        entries = list((process / "fd").iterdir())
    except OSError:
        return
    for entry in entries:
        try:
            found = entry.stat()
        except OSError:
            continue
        yield found.st_dev, found.st_ino
