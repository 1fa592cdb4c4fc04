"""A benchmark under the product's guard: whatever it started ends with it, however it ends.

A program that `run`s starts itself once more under a guard and only waits. The guard is told of its
end by the kernel, SIGKILL included, and ends all descendants: servers, drivers, Ray, sshd.
"""

import json
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from infra.host import Command
from infra.local_host import LocalHost

Figures = Mapping[str, float]
"""Figures by name; a name ends in its unit, or in `_ratio` or `_count`."""

FIGURES_FILE = "BENCH_FIGURES_FILE"
"""Variable that names the file for the figures, where the program is the one under the guard."""
GRACE_S = 10.0
LEASE_S = 600.0
"""Wall seconds. Whoever stops the program from a terminal for a while keeps it."""
_LOOK_S = 0.1


def guarded(measure: Callable[[], Figures]) -> Figures:
    """Return the figures that `measure` has under a guard; exits where it failed.

    In the program under the guard it does not return.
    """
    with _ended_in_order():
        if path := os.environ.pop(FIGURES_FILE, ""):
            Path(path).write_text(json.dumps(dict(measure())))
            sys.exit()
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            code = _run_again(Path(folder))
            if code:
                sys.exit(code)
            figures: dict[str, float] = json.loads(_figures_path(Path(folder)).read_text())
            return figures


def _figures_path(folder: Path) -> Path:
    return folder / "figures.json"


def _run_again(folder: Path) -> int:
    """Run this program under a guard, pass on what it tells; return its exit code."""
    command = Command(
        argv=(sys.executable, *sys.orig_argv[1:]),
        env={**os.environ, FIGURES_FILE: str(_figures_path(folder)), "PYTHONUNBUFFERED": "1"},
        log_path=folder / "bench.log",
        sweep=f"bench-{uuid.uuid4().hex[:12]}",
        trial="bench",
        grace_s=GRACE_S,
        lease_s=LEASE_S,
    )
    process = LocalHost().start(command)
    with command.log_path.open("rb") as log:
        try:
            while process.poll() is None:
                _pass_on(log)
                time.sleep(_LOOK_S)
        finally:
            report = process.stop()
            _pass_on(log)
    if report.survivors:
        print(f"{report.survivors} processes are left", file=sys.stderr)
        return 1
    code = report.exit_code
    return 1 if code is None else code if code >= 0 else 128 - code


def _pass_on(log: IO[bytes]) -> None:
    sys.stderr.buffer.write(log.read())
    sys.stderr.flush()


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Turn a polite end into an exception, so that what was begun is ended."""
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    before = [signal.signal(number, lambda told, _: sys.exit(128 + told)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
