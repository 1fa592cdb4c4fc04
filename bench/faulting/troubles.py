"""What goes wrong with a host, and is no signal: its disk, its clock, its answers, its GPUs."""

import contextlib
import os
import random
import shutil
import struct
import subprocess
import time
from pathlib import Path

from infra.emulated.life.host_folder import Holding, HostFolder
from infra.process_id import started_ticks

LEAST_S, MOST_S = 0.5, 3.0
"""Wall seconds for which a trouble lasts."""
STEP_S = 86_400
"""By so much the wall clock jumps at most, in both directions."""
STRANGER_BYTES = 130 << 30
"""More than any server leaves free on an emulated GPU."""
DISK_BYTES = 96 << 20
_CHUNK_BYTES = 1 << 20
_CLOCK = struct.Struct("l")
GARBAGE = (
    '[stream]\nusage = "falling"\n', '[stream]\nusage = "wrong"\n', "[stream]\nempty_body = true\n",
    "[stream]\nerror_after_tokens = 20\n", "[stream]\nclose_after_tokens = 20\n",
)  # fmt: skip
"""Worlds in which a server says what cannot be: counts that fall, none, errors, half an answer."""


def clock_library(folder: Path) -> Path | None:
    """Build what moves the wall clock of a process; None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    made = folder / "clock.so"
    source = Path(__file__).with_name("clock.c")
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(source), "-ldl"]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return made


def set_clock(path: Path, step_s: int) -> None:
    """Move the wall clock of all who have a file mapped; made if it is not there."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(fd, _CLOCK.pack(step_s), 0)
    finally:
        os.close(fd)


def fill_disk(folder: Path, luck: random.Random) -> bool:
    """Leave no byte free on the disk of a folder for a while."""
    filler = folder / ".filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(_CHUNK_BYTES)):
            pass
    try:
        time.sleep(luck.uniform(LEAST_S, MOST_S))
    finally:
        filler.unlink(missing_ok=True)
    return True


def answer_garbage(world: Path, luck: random.Random) -> bool:
    """Let the servers of a world answer garbage for a while."""
    world.write_text(luck.choice(GARBAGE))
    try:
        time.sleep(luck.uniform(LEAST_S, MOST_S))
    finally:
        world.write_text("")
    return True


def take_gpu(host: Path, gpus: int, luck: random.Random) -> bool:
    """Let a stranger's process fill a GPU of an emulated host for a while."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        try:
            ticks = started_ticks(stranger.pid) or 0
            gpu = luck.randrange(gpus)
            HostFolder(host).hold(Holding(stranger.pid, ticks, gpu, STRANGER_BYTES))
            time.sleep(luck.uniform(LEAST_S, MOST_S))
        finally:
            stranger.kill()
    return True


def mount_disk(folder: Path) -> bool:
    """Give a folder a small disk of its own; False where that is not allowed."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", str(folder)]
    if os.getuid() != 0:
        return False
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def unmount_disk(folder: Path) -> None:
    """Take it away, with whatever still has it open."""
    subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
