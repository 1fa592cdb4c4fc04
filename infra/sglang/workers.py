"""Watches the worker processes of one server, which may vanish without a word to their root.

Up to SGLang 0.5.9 the root then waits for ever, and later ones miss some deaths while serving.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_TITLES = ("sglang::scheduler", "sglang::detokenizer", "sglang::data_parallel_controller")
"""None of these ends before its server does (srt/managers, SGLang 0.5.2 to 0.5.23)."""

_GONE_STATES = (b"Z", b"X", b"x")


@dataclass(frozen=True, slots=True)
class Worker:
    """One process; its start in clock ticks tells two users of one pid apart."""

    pid: int
    title: str
    started_ticks: int

    @property
    def is_scheduler(self) -> bool:
        """Tell whether it owns a GPU."""
        return self.title.startswith("sglang::scheduler")


class Workers:
    """The workers seen so far below one root. One thread uses it."""

    def __init__(self, root_pid: int) -> None:
        self._root_pid = root_pid
        self._known: dict[int, Worker] = {}

    @property
    def known(self) -> tuple[Worker, ...]:
        """Return all that were ever seen."""
        return tuple(self._known.values())

    def discover(self) -> None:
        """Look for new workers: reads the whole process table, so do it now and then."""
        for process in _below(self._root_pid):
            if process.pid not in self._known and (worker := _as_worker(process)):
                self._known[process.pid] = worker

    def lost(self) -> tuple[Worker, ...]:
        """Return the workers that are gone; reads one small file for each. Never blocks.

        All of them are gone once the server has ended: ask for its exit code first.
        """
        return tuple(worker for worker in self._known.values() if not _lives(worker))


def _below(pid: int) -> Iterator[psutil.Process]:
    try:
        yield from psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return


def _as_worker(process: psutil.Process) -> Worker | None:
    try:
        words = process.cmdline()
    except psutil.Error:
        return None
    title = words[0].strip() if words else ""
    stat = _stat(process.pid)
    if stat is None or not title.startswith(_TITLES):
        return None
    return Worker(process.pid, title, stat[1])


def _lives(worker: Worker) -> bool:
    stat = _stat(worker.pid)
    return stat is not None and stat[0] not in _GONE_STATES and stat[1] == worker.started_ticks


def _stat(pid: int) -> tuple[bytes, int] | None:
    """Return the state and the start of a process, ten times cheaper than by psutil."""
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name is in brackets and may hold any character; what follows it is counted from field 3.
    fields = data[data.rindex(b")") + 2 :].split()
    return fields[0], int(fields[19])
