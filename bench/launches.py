"""Whether many launches in a row leave the driver as it was: descriptors, threads, memory.

One process reserves, starts an emulated server under a guard, waits until it answers, stops it and
proves it clean, 200 times (10 with `--quick`). After a tenth, half and all of them its own file
descriptors, threads and resident memory are read, the entries of a runtime folder of its own, and
shared-memory segments that came up since and that no process uses; a growth is the last reading
minus the first. `launch_s` is one whole turn, `proof_s` the proof in it.
"""

import gc
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from infra import runtime_folder, shared_memory
from infra.clean_proof import prove_clean
from infra.clock import ScaledClock
from infra.gpus import NvmlView
from infra.host import Command
from infra.local_host import LocalHost
from infra.runtime_folder import RuntimeFolder
from infra.sglang.control import ServerControl
from reporting.program import Figures, run, spread

LAUNCHES, QUICK_LAUNCHES = 200, 10
TIME_SCALE = 2000.0
PROOF_S = 60.0
_READY_WAIT_S, _LOOK_S = 60.0, 0.05
_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Reading:
    """What this process and its machine hold."""

    fds: int
    threads: int
    shm_entries: int
    runtime_entries: int
    rss_bytes: int


@dataclass(slots=True)
class Times:
    """Wall seconds of each launch."""

    whole_s: list[float] = field(default_factory=list)
    proof_s: list[float] = field(default_factory=list)


def measure(quick: bool) -> Figures:
    """Return the readings, and how they grew."""
    launches = QUICK_LAUNCHES if quick else LAUNCHES
    marks = {max(1, launches // 10): "early", launches // 2: "half", launches: "end"}
    readings: dict[str, Reading] = {}
    before = shared_memory.segments()
    times = Times()
    host = LocalHost()
    # Below /tmp, since the path of a runtime folder must be short.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.environ[runtime_folder.VARIABLE] = folder
        logs = Path(folder) / "logs"
        for number in range(1, launches + 1):
            _launch(host, logs, number, times)
            if name := marks.get(number):
                readings[name] = _read(before)
    return {
        "launches_count": launches,
        **{f"{name}_{what}": value for name, r in readings.items() for what, value in _data(r)},
        **{
            f"growth_{what}": later - earlier
            for (what, earlier), (_, later) in zip(
                _data(readings["early"]), _data(readings["end"]), strict=True
            )
        },
        **spread("launch", "s", times.whole_s),
        **spread("proof", "s", times.proof_s),
    }


def _data(reading: Reading) -> list[tuple[str, int]]:
    return [
        ("fds_count", reading.fds),
        ("threads_count", reading.threads),
        ("shm_entries_count", reading.shm_entries),
        ("runtime_entries_count", reading.runtime_entries),
        ("rss_bytes", reading.rss_bytes),
    ]


def _launch(host: LocalHost, folder: Path, number: int, times: Times) -> None:
    began_s = time.perf_counter()
    sweep, trial = f"launches-{os.getpid()}", f"t{number}"
    with host.reserve(sweep, trial) as reserved:
        argv = (
            sys.executable, "-m", "infra.emulated", "--model-path", "m", "--tp-size", "2",
            "--port", str(reserved.port), "--nccl-port", str(reserved.rendezvous_port),
        )  # fmt: skip
        env = {"EMULATED_TIME_SCALE": f"{TIME_SCALE:g}", "TMPDIR": str(reserved.temp_folder)}
        log_path = folder / f"{trial}.log"
        server = host.start(
            Command(argv, env, log_path, sweep, trial, inherit=("PATH",), cwd=_ROOT, grace_s=5.0)
        )
        try:
            control = ServerControl(f"http://127.0.0.1:{reserved.port}", answer_s=10.0)
            until_s = time.monotonic() + _READY_WAIT_S
            while not control.is_healthy():
                if server.poll() is not None or time.monotonic() > until_s:
                    sys.exit("\n".join(["a server did not get ready", *server.log_tail(20)]))
                time.sleep(_LOOK_S)
        finally:
            server.stop()
        stopped_s = time.perf_counter()
        report = prove_clean(reserved, host, NvmlView(), ScaledClock(), PROOF_S)
        if not report.clean:
            sys.exit(str(report))
    times.proof_s.append(time.perf_counter() - stopped_s)
    times.whole_s.append(time.perf_counter() - began_s)


def _read(before: frozenset[shared_memory.Segment]) -> Reading:
    gc.collect()
    process = psutil.Process()
    runtime = RuntimeFolder.of_user()
    parts = (runtime.ports, runtime.trials, runtime.hosts)
    return Reading(
        process.num_fds(),
        process.num_threads(),
        len(shared_memory.unused(before)),
        sum(_entries(part) for part in parts),
        process.memory_info().rss,
    )


def _entries(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir()) if folder.exists() else 0


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    grown = [figures[f"growth_{what}_count"] for what in ("fds", "threads")]
    return {
        "no descriptor and no thread is left": max(grown) <= 0,
        "the runtime folder is empty in the end": figures["end_runtime_entries_count"] == 0,
        "memory hardly grows": figures["growth_rss_bytes"] < 0.1 * figures["early_rss_bytes"],
    }


if __name__ == "__main__":
    run(__doc__ or "", measure, holds)
