"""Runs a program that answers and ends, in a session of which nothing outlives the answer."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_LAST_WORDS_S = 5.0
"""For the kernel to end what was killed."""


def run_to_end(
    argv: Sequence[str], deadline_s: float, *, env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> "subprocess.CompletedProcess[bytes]":  # fmt: skip
    """Return what a program printed and how it ended.

    Its children end with it, also after the deadline. Raises OSError where it cannot be run, and
    subprocess.TimeoutExpired where it gave no answer within `deadline_s` wall seconds.
    """
    process = subprocess.Popen(
        argv, env=None if env is None else dict(env), cwd=cwd, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        printed, complained = process.communicate(timeout=deadline_s)
    finally:
        _end(process)
    return subprocess.CompletedProcess(argv, process.returncode, printed, complained)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill whatever is left of a session, and reap its first process."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_LAST_WORDS_S)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
