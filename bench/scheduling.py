"""What a driver can carry: how long it decides over many hosts and trials, and in what memory.

Simulated hosts take trials of a real space and end them at once, each with a rate that its settings
imply and some that fail; there are no servers, no Ray and no MLflow. All hosts are busy all the
time, and whoever ends first is handed out the next trial. A decision is all that the sweep does in
the driver for one trial: handing it out (`decide`), one sign of life (`progress`) and taking its
end (`take`), in processor time of the deciding thread, so that a busy machine says the same. The
study's file is written by another thread meanwhile. `late` is the median of the last tenth. The
planner of `factorised` weighs every result at each decision: it has fewer hosts and trials here.
"""

import resource
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from orchestrator.job import TrialJob, TrialProgress
from orchestrator.search.study import StudySearch
from orchestrator.space_file import load_sweep
from orchestrator.state import State
from orchestrator.sweep_run import Attendants, SweepRun
from orchestrator.tracking.jsonl import JsonlTracker
from reporting.program import Figures, run
from sweeps import Budget, EngineName, HostSpec, Sweep
from sweeps.results import Estimate, Outcome, Phase, TrialResult

SPACE = Path(__file__).parents[1] / "search_spaces" / "ngram.py"
FAULTY_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Load:
    """One sweep to simulate."""

    name: str
    sampler: str
    hosts: int
    trials: int


LOADS = (
    Load("random", "random", 1000, 10_000),
    Load("factorised", "factorised", 16, 400),
)
QUICK_LOADS = (Load("random", "random", 100, 400), Load("factorised", "factorised", 4, 24))


@dataclass(slots=True)
class Seconds:
    """Processor seconds of what the driver does for a trial."""

    decide: list[float] = field(default_factory=list)
    progress: list[float] = field(default_factory=list)
    take: list[float] = field(default_factory=list)


def measure(quick: bool) -> Figures:
    """Return the figures of all loads."""
    figures: dict[str, float] = {}
    for load in QUICK_LOADS if quick else LOADS:
        figures |= _figures(load, *simulate(load))
    figures["memory_peak_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return figures


def simulate(load: Load) -> tuple[Seconds, int]:
    """Drive a sweep to its end; return what it took, and how many trials ended."""
    with tempfile.TemporaryDirectory() as folder:
        state, sweep = State(Path(folder)), _sweep(load)
        tracker = JsonlTracker(state.root / "events.jsonl")
        search = StudySearch(sweep, state.study_path, load.name)
        sweep_run = SweepRun(load.name, sweep, state, search, Attendants(tracker, []))
        spent = _drive(sweep_run)
        sweep_run.end("finished")
        return spent, len(sweep_run.results)


def _sweep(load: Load) -> Sweep:
    hosts = [
        HostSpec(name=f"host-{number}", engine=EngineName.EMULATED) for number in range(load.hosts)
    ]
    return replace(
        load_sweep(SPACE), sampler=load.sampler, hosts=hosts, prediction=False,
        budget=Budget(trials=load.trials),
    )  # fmt: skip


def _drive(sweep_run: SweepRun) -> Seconds:
    spent, rng = Seconds(), np.random.default_rng(0)
    free, busy = deque(sweep_run.sweep.hosts), deque[TrialJob]()
    while not sweep_run.is_over:
        while free:
            begin = time.thread_time()
            job = sweep_run.next_job(free[0])
            if job is None:
                break
            spent.decide.append(time.thread_time() - begin)
            free.popleft()
            busy.append(job)
        job = busy.popleft()
        begin = time.thread_time()
        sweep_run.on_progress(_progress(job, rng))
        between = time.thread_time()
        sweep_run.on_result(_result(job, rng))
        spent.progress.append(between - begin)
        spent.take.append(time.thread_time() - between)
        free.append(job.host)
    return spent


def _progress(job: TrialJob, rng: np.random.Generator) -> TrialProgress:
    blocks = tuple((_rate(job) * (1 + 0.05 * rng.standard_normal(12))).tolist())
    return TrialProgress(job.trial, Phase.MEASURING, 60.0, blocks=blocks)


def _result(job: TrialJob, rng: np.random.Generator) -> TrialResult:
    failed = not job.config.is_plain and rng.random() < FAULTY_SHARE
    rate = _rate(job) * (1 + 0.01 * rng.standard_normal())
    accept = 1.0 if job.config.is_plain else 1.8
    estimates = {
        "decode_tok_s": Estimate(rate, 0.98 * rate, 1.02 * rate, 150.0, "blocks", False),
        "steps_per_s": Estimate(rate / accept, 0.98 * rate / accept, 1.02 * rate / accept, 150.0,
                                "blocks", False),
    }  # fmt: skip
    if not job.config.is_plain:
        estimates["accept_length"] = Estimate(accept, 1.7, 1.9, 150.0, "blocks", False)
    return TrialResult(
        job.trial, job.sweep_id, job.number, job.config,
        Outcome.FAILED if failed else Outcome.MEASURED, "a simulated fault" if failed else "",
        Phase.CLEAN, True, job.host.name, "0", 0.1, "", estimates={} if failed else estimates,
        purpose=job.purpose.value, why=job.why, retry_of=job.retry_of,
    )  # fmt: skip


def _rate(job: TrialJob) -> float:
    """Return a rate that depends on every setting a little, equal in every run."""
    spread = sum(sum(map(ord, f"{name}={value}")) % 17 for name, value in job.config.items())
    return 100.0 + spread


def _figures(load: Load, spent: Seconds, trials: int) -> dict[str, float]:
    figures: dict[str, float] = {
        f"{load.name}_hosts_count": load.hosts,
        f"{load.name}_trials_count": trials,
    }
    for what in ("decide", "progress", "take"):
        values_ms = 1000 * np.asarray(getattr(spent, what))
        late_ms = values_ms[-len(values_ms) // 10 :]
        figures |= {
            f"{load.name}_{what}_ms": float(np.median(values_ms)),
            f"{load.name}_{what}_late_ms": float(np.median(late_ms)),
            f"{load.name}_{what}_p99_ms": float(np.quantile(values_ms, 0.99)),
        }
    return figures


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    late = {
        f"the last decisions ({what}) cost as much as all": figures[f"random_{what}_late_ms"]
        < 4 * figures[f"random_{what}_ms"] + 1
        for what in ("decide", "progress", "take")
    }
    loads = [
        load for load in (*LOADS, *QUICK_LOADS)
        if load.hosts == figures[f"{load.name}_hosts_count"]
        and load.sampler != "factorised"
    ]  # fmt: skip
    whole = [figures[f"{load.name}_trials_count"] >= load.trials for load in loads]
    return {
        **late,
        "all trials of the budget were made": bool(whole) and all(whole),
        "thousands of trials fit into 2 GB": figures["memory_peak_bytes"] < 2e9,
    }


if __name__ == "__main__":
    run(__doc__ or "", measure, holds)
