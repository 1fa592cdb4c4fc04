"""However a program in bench/ ends, nothing that it started is left."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from infra.reaper import GUARD_TAG
from infra.sglang_cpu.build import build
from infra.sglang_cpu.layout import DEFAULT_ENV, DEFAULT_MODEL, EnvLayout
from tests.bench.programs import PROGRAMS, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

START_S, END_S = 400.0, 120.0
MARK = "BENCH_TEST_MARK"

STUBBORN = """
import subprocess, sys, time
from reporting.program import run

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3000)"

def measure(quick):
    nameless = {"env": {}, "start_new_session": True}
    subprocess.Popen([sys.executable, "-I", "-c", DEAF, "deaf"], **nameless)
    subprocess.Popen(["/bin/sh", "-c", "setsid sleep 3001 & exit"], **nameless).wait()
    if quick:
        return {"left_count": 2}
    time.sleep(3000)

run("Starts what does not want to end.", measure)
"""
REAL_SERVER = """
from replaying.real_server import compare
from reporting.program import run

run("The real server of bench/replay.py.", lambda _: {"settings_count": len(compare())})
"""

Words = Sequence[str]
STARTED: dict[str, tuple[str, Words]] = {
    "stubborn": (STUBBORN, ("deaf", "sleep 3001")),
    "replay": (REAL_SERVER, ("sglang.launch_server", "sglang::scheduler")),
    "client": ("", ("paced_server.py",)),
    "faults": ("", ("orchestrator sweep", "infra.emulated")),
    "kill_matrix": ("", ("raylet", "killing/owner.py", "infra.emulated")),
}
"""Programs, and which of their processes must be there before they are ended. One of bench/ itself
has no text here; the real server of the replay is reached without its minutes of timing before."""


@contextmanager
def begun(
    name: str, folder: Path, *options: str
) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """Start a program; yield it and its mark. Nothing of it outlives the block."""
    text, mark = STARTED[name][0], uuid.uuid4().hex
    path = folder / f"{name}.py" if text else ROOT / "bench" / f"{name}.py"
    if text:
        path.write_text(text)
    paths = os.pathsep.join([str(ROOT / "bench"), str(ROOT)])
    with (folder / "log").open("wb") as log:
        program = subprocess.Popen(
            [sys.executable, str(path), *options], cwd=ROOT, stdout=log, stderr=log,
            env={**os.environ, MARK: mark, "PYTHONPATH": paths}, preexec_fn=_hear_ctrl_c,
        )  # fmt: skip
    try:
        yield program, mark
    finally:
        for process in started(program.pid, mark):
            process.kill()
        program.kill()
        program.wait(END_S)


def _hear_ctrl_c() -> None:
    """A shell starts its background jobs deaf to SIGINT, and tests pass that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(outer_pid: int, mark: str) -> list[psutil.Process]:
    """Return all processes below the guard of a program, and the guard; it strips no line."""
    for process in psutil.process_iter():
        try:
            if process.pid != outer_pid and process.environ().get(MARK) == mark:
                guard = process.parent()
                if guard is not None and GUARD_TAG in guard.environ():
                    return [guard, *guard.children(recursive=True)]
        except psutil.Error:
            continue
    return []


def lines(processes: Sequence[psutil.Process]) -> list[str]:
    """Return the command lines of the processes that still run."""
    found = []
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
        except psutil.Error:
            continue
    return found


def wait_until(condition: Callable[[], object], what: str, limit_s: float) -> None:
    """Wait until something holds; fail by name if it does not come to."""
    until_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until_s, f"never came: {what}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def sglang() -> None:
    """Build the environment and the model where they are not yet built."""
    build(EnvLayout(ROOT / DEFAULT_ENV), ROOT / DEFAULT_MODEL, print)


CASES = [(name, signal.SIGKILL) for name in STARTED] + [
    ("stubborn", signal.SIGTERM), ("stubborn", signal.SIGINT), ("replay", signal.SIGTERM),
]  # fmt: skip


@pytest.mark.usefixtures("sglang")
@pytest.mark.parametrize(("name", "number"), CASES, ids=[f"{n}-{s.name}" for n, s in CASES])
def test_nothing_is_left_of_a_program_that_is_ended(
    name: str, number: signal.Signals, tmp_path: Path
) -> None:
    options = [] if STARTED[name][0] else ["--quick"]
    with begun(name, tmp_path, *options) as (program, mark):

        def all_there() -> bool:
            told = "\n".join(lines(started(program.pid, mark)))
            return all(word in told for word in STARTED[name][1])

        wait_until(all_there, "its processes", START_S)
        there = started(program.pid, mark)
        program.send_signal(number)
        code = program.wait(END_S)
        wait_until(lambda: not lines(there), "the end of all", END_S)
        assert lines(started(program.pid, mark)) == []
    assert code == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: -2}[number]


def test_nothing_is_left_of_a_program_that_finishes(tmp_path: Path) -> None:
    with begun("stubborn", tmp_path, "--quick") as (program, mark):
        wait_until(lambda: len(started(program.pid, mark)) > 1, "its processes", START_S)
        there = started(program.pid, mark)
        assert program.wait(END_S) == 0
        wait_until(lambda: not lines(there), "the end of all", END_S)
    assert "left_count" in (tmp_path / "log").read_text()


def test_a_program_that_fails_says_so(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "import sys\nfrom reporting.program import run\nrun('.', lambda quick: sys.exit('broken'))"
    )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "bad.py"), "--json"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "bench"), str(ROOT)])},
        timeout=END_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert "broken" in done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_measures_under_the_guard(name: str) -> None:
    """The one way to be a program here is `run`, or with options `run_counted` or `run_with`."""
    last = (ROOT / "bench" / f"{name}.py").read_text().partition('if __name__ == "__main__":')[2]
    assert last.strip().startswith(("run(", "run_counted(", "run_with("))
