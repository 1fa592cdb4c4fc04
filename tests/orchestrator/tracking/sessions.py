"""Ends a process with all that it has started, for tests that start servers and browsers."""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterable
from typing import Any

import psutil


def stop_session(server: "subprocess.Popen[Any]", grace_s: float = 10.0) -> None:
    """End a process that leads a session, and all in it: asked first, killed after the grace."""
    members = set(_session(server.pid))
    for process in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    try:
        _wait_gone(members, grace_s)
    finally:  # a second interrupt only cuts the grace short
        members.update(_session(server.pid))
        for process in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        server.wait(timeout=10)
        _wait_gone(members, 10)


def _wait_gone(processes: Iterable[psutil.Process], deadline_s: float) -> None:
    """Wait until all have ended; one that only waits to be collected by its parent has."""
    until_s = time.monotonic() + deadline_s
    while any(map(_is_alive, processes)) and time.monotonic() < until_s:
        time.sleep(0.05)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _session(leader: int) -> list[psutil.Process]:
    """List what belongs to a session, also what its parent has left behind, and all children."""
    found = {process for process in psutil.process_iter() if _session_of(process.pid) == leader}
    with contextlib.suppress(psutil.NoSuchProcess):
        found.update(psutil.Process(leader).children(recursive=True))
    return list(found)


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None
