"""Keeps what a server that hung or died leaves to be seen, before its processes are ended."""

import json
import logging
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from infra.gpus import GpuView
from infra.redaction import MASK, Redactor, is_secret_name
from infra.whole_file import name_beside

LIMIT_S = 30.0
"""Wall seconds for all of it."""

_STACK_LIMIT_S = 5.0
_MOST_STACKS = 12
_MOST_LISTED = 500
_SHARED_MEMORY = Path("/dev/shm")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom the evidence is about."""

    root_pid: int
    log_tail: Sequence[str] = ()
    more_pids: tuple[int, ...] = ()
    """Processes that belong to it and are no longer below its root."""


def keep_evidence(
    folder: Path, subject: Subject, gpus: GpuView | None = None, *, limit_s: float = LIMIT_S
) -> tuple[str, ...]:
    """Write what is to be seen into a new folder, whole or not at all; return the files' names.

    Never fails and never takes longer than `limit_s` wall seconds and a moment: what cannot be had
    says why in its place. A folder that exists is left alone, and another name is taken.
    Values of secrets are masked.
    """
    texts = _gather(subject, gpus, limit_s)
    try:
        return _write(_free_name(folder), texts)
    except OSError as error:
        _log.warning("the evidence could not be written to %s: %s", folder, error)
        return ()


Section = tuple[str, Callable[[], str]]


def _sections(subject: Subject, gpus: GpuView | None, deadline_s: float) -> Iterator[Section]:
    """Yield what to collect; what may block in a driver comes last."""
    tree = _tree(subject)
    masked = _Masker(tree)
    for name, collect in _plain_sections(subject, tree):
        yield name, masked.applied_to(collect)
    for process in _to_dump(tree):
        yield f"stacks/{process.pid}.txt", masked.applied_to(_stack_call(process.pid, deadline_s))
    if gpus is not None:
        yield "gpus.txt", lambda: "\n".join(_gpu_lines(gpus))


def _plain_sections(subject: Subject, tree: Sequence[psutil.Process]) -> Sequence[Section]:
    return (
        ("log_tail.txt", lambda: "\n".join(subject.log_tail)),
        ("processes.txt", lambda: "\n".join(_describe(process) for process in tree)),
        ("environment.json", lambda: _environments(tree)),
        ("sockets.txt", lambda: "\n".join(_sockets(tree))),
        ("shared_memory.txt", lambda: "\n".join(_shared_memory())),
    )


def _gather(subject: Subject, gpus: GpuView | None, limit_s: float) -> dict[str, str]:
    """Collect in a thread of its own: a look into a stuck process or driver may never return."""
    deadline_s = time.monotonic() + limit_s
    collected: queue.Queue[tuple[str, str] | None] = queue.Queue()

    def work() -> None:
        try:
            _collect(_sections(subject, gpus, deadline_s), deadline_s, collected)
        finally:
            collected.put(None)

    threading.Thread(target=work, name="evidence", daemon=True).start()
    texts: dict[str, str] = {}
    with suppress(queue.Empty):
        while item := collected.get(timeout=max(0.0, deadline_s - time.monotonic())):
            texts[item[0]] = item[1]
        return texts
    texts["cut_off.txt"] = f"the rest was not to be had within {limit_s:g} s"
    return texts


def _collect(
    sections: Iterable[Section],
    deadline_s: float,
    collected: "queue.Queue[tuple[str, str] | None]",
) -> None:
    for name, collect in sections:
        if time.monotonic() > deadline_s:
            return
        try:
            text = collect()
        except (psutil.Error, OSError, subprocess.SubprocessError, ValueError) as error:
            text = f"not to be had: {type(error).__name__}: {error}"
        collected.put((name, text))


def _write(folder: Path, texts: Mapping[str, str]) -> tuple[str, ...]:
    beside = name_beside(folder)
    try:
        beside.mkdir(parents=True)
        for name, text in texts.items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8", errors="replace")
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return tuple(sorted(texts))


def _free_name(folder: Path) -> Path:
    names = (folder, *(folder.with_name(f"{folder.name}-{number}") for number in range(2, 100)))
    return next(path for path in names if not path.exists())


def _tree(subject: Subject) -> list[psutil.Process]:
    """Return the living processes of a server, the root first."""
    found: dict[int, psutil.Process] = {}
    with suppress(psutil.Error):
        root = psutil.Process(subject.root_pid)
        found[root.pid] = root
        found.update((process.pid, process) for process in root.children(recursive=True))
    for pid in subject.more_pids:
        with suppress(psutil.Error):
            found.setdefault(pid, psutil.Process(pid))
    return list(found.values())


def _describe(process: psutil.Process) -> str:
    with suppress(psutil.Error), process.oneshot():
        cpu, memory = process.cpu_times(), process.memory_info()
        return (
            f"pid={process.pid} ppid={process.ppid()} state={process.status()} "
            f"cpu_s={cpu.user + cpu.system:.2f} rss_mib={memory.rss / 2**20:.0f} "
            f"threads={process.num_threads()} wchan={_wchan(process.pid)} "
            f"title={_title(process)}"
        )
    return f"pid={process.pid} gone"


def _wchan(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/wchan").read_text(encoding="ascii").strip("\0") or "-"
    except OSError:
        return "?"


def _title(process: psutil.Process) -> str:
    """Return the command line without the values of secrets."""
    hidden = Redactor(()).data(process.cmdline())
    words = hidden if isinstance(hidden, list) else []
    # A program may be its own argument, line by line.
    return " ".join(map(str, words)).strip().replace("\n", "\\n") or f"[{process.name()}]"


def _environments(tree: Sequence[psutil.Process]) -> str:
    """Return the environment of the root and of one scheduler."""
    chosen = [*tree[:1], *[process for process in tree[1:] if _is_scheduler(process)][:1]]
    return json.dumps({str(process.pid): _environment(process) for process in chosen}, indent=1)


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        found = process.environ()
    except (psutil.Error, OSError) as error:
        return {"": f"not to be had: {error!r}"}
    return {name: MASK if is_secret_name(name) else value for name, value in sorted(found.items())}


def _is_scheduler(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "sglang::scheduler" in " ".join(process.cmdline()[:1])
    return False


def _sockets(tree: Sequence[psutil.Process]) -> Iterator[str]:
    for process in tree:
        try:
            links = process.net_connections("inet")
        except psutil.Error as error:
            yield f"pid={process.pid} not to be had: {error!r}"
            continue
        for link in links[:_MOST_LISTED]:
            ends = [f"{end.ip}:{end.port}" if end else "-" for end in (link.laddr, link.raddr)]
            yield f"pid={process.pid} {link.status} {ends[0]} {ends[1]}"


def _shared_memory() -> Iterator[str]:
    entries = sorted(_SHARED_MEMORY.iterdir())
    total = shutil.disk_usage(_SHARED_MEMORY)
    yield f"{total.free / 2**20:.0f} MiB free of {total.total / 2**20:.0f} MiB"
    for path in entries[:_MOST_LISTED]:
        with suppress(OSError):
            about = path.lstat()
            yield f"{path.name} bytes={about.st_size} uid={about.st_uid} at={about.st_mtime:.0f}"


def _gpu_lines(gpus: GpuView) -> Iterator[str]:
    for gpu in gpus.list_gpus():
        yield f"gpu={gpu.index} {gpu.name} used={gpu.memory_used_bytes} of {gpu.memory_total_bytes}"
    for process in gpus.gpu_processes():
        yield f"gpu={process.gpu_index} pid={process.pid} used={process.used_bytes}"


def _to_dump(tree: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Return whose stacks to keep: the root and the schedulers before all others."""
    first = {process.pid for process in tree[:1]}
    first |= {process.pid for process in tree if _is_scheduler(process)}
    return sorted(tree, key=lambda process: process.pid not in first)[:_MOST_STACKS]


def _stack_call(pid: int, deadline_s: float) -> Callable[[], str]:
    return lambda: _stacks(pid, deadline_s)


def _stacks(pid: int, deadline_s: float) -> str:
    program = find_py_spy()
    if program is None:
        return "py-spy is not installed"
    limit_s = min(_STACK_LIMIT_S, max(0.1, deadline_s - time.monotonic()))
    found = subprocess.run(
        [program, "dump", "--pid", str(pid)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=limit_s,
        check=False,
    )
    return found.stdout.decode(errors="replace")


def find_py_spy() -> str | None:
    """Return the path of py-spy beside this interpreter or on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


class _Masker:
    """Hides the values of secrets wherever they turn up."""

    def __init__(self, tree: Sequence[psutil.Process]) -> None:
        variables: Mapping[str, str] = {}
        for process in tree[:1]:
            with suppress(psutil.Error, OSError):
                variables = process.environ()
        self._redactor = Redactor.from_environment(variables)

    def applied_to(self, collect: Callable[[], str]) -> Callable[[], str]:
        """Return the same collector with its text masked."""

        def masked() -> str:
            return self._redactor.text(collect())

        return masked
