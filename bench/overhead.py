"""What the platform adds to each trial, with Ray and without.

A cycle lasts from the handing out of one trial to the handing out of the next, on the wall, as the
driver sees it. Of that, two spans belong to the server: from the moment its program runs to the end
of the last pass (starting and all passes), and from the order to stop until its process has exited.
All else is overhead, in three parts:

- start: choosing a port, planning, writing the plan, starting the guard and through it the server;
- stop: aborting requests, and what follows the server's exit: the guard ends, nothing is left;
- driver: threads, actors, the way of the result, its files, telling and asking the study (which
  is written to SQLite behind the next trial), the tracker (JSON lines here), and with Ray all that
  Tune does between two trials.

Work inside the server's phases (looking for readiness, reading settings back, flushing caches,
spooling requests) counts as starting and measuring. The last trial has no next one and is left out.
With Ray the first trial is left out of the medians as well: it waits for Ray's actor to start, and
stands as `ray_first_trial_s`. Sweeps with and without Ray alternate, on an emulated host.
"""

import json
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from orchestrator import ray_driver, serial_driver
from orchestrator.events import SweepStart, Tally
from orchestrator.job import TrialJob, TrialProgress
from orchestrator.search.study import StudySearch
from orchestrator.signals import Interrupts
from orchestrator.space_file import load_sweep
from orchestrator.state import State
from orchestrator.sweep_run import Attendants, SweepRun
from orchestrator.tools import local_tools
from orchestrator.tracking.jsonl import JsonlTracker
from reporting.loads import LONG_ANSWER_TOKENS
from reporting.program import Figures, run, spread
from sweeps import Budget, EngineName, HostSpec, Sweep
from sweeps.results import Outcome, Phase, TrialResult

SPACE = Path(__file__).parents[1] / "search_spaces" / "ngram.py"
TIME_SCALE = 200.0
SWEEPS, QUICK_SWEEPS = 3, 1
TRIALS, QUICK_TRIALS = 9, 3

OURS_PHASES = (Phase.ADMITTED, Phase.STOPPING, Phase.CLEAN)
SERVERS_PHASES = tuple(phase for phase in Phase if phase not in OURS_PHASES)


@dataclass(frozen=True, slots=True)
class Overhead:
    """The wall seconds of one cycle that are the platform's."""

    start_s: float
    stop_s: float
    driver_s: float

    @property
    def total_s(self) -> float:
        """Return the sum."""
        return self.start_s + self.stop_s + self.driver_s


@dataclass(slots=True)
class Stopwatch:
    """A follower that notes when each trial is handed out."""

    jobs: list[TrialJob] = field(default_factory=list)
    handed_out_s: list[float] = field(default_factory=list)

    def sweep_started(self, start: SweepStart) -> None:
        """Do nothing."""

    def trial_started(self, job: TrialJob) -> None:
        """Note the time."""
        self.jobs.append(job)
        self.handed_out_s.append(time.perf_counter())

    def progress(self, progress: TrialProgress, tally: Tally) -> None:
        """Do nothing."""

    def trial_ended(self, result: TrialResult, tally: Tally) -> None:
        """Do nothing."""

    def sweep_ended(self, status: str) -> None:
        """Do nothing."""


def measure(quick: bool) -> Figures:
    """Return the overhead of a trial under both drivers."""
    trials = QUICK_TRIALS if quick else TRIALS
    serial: list[Overhead] = []
    with_ray: list[Overhead] = []
    first_s: list[float] = []
    for _ in range(QUICK_SWEEPS if quick else SWEEPS):
        serial += overheads(trials, use_ray=False)
        first, *rest = overheads(trials, use_ray=True)
        with_ray += rest
        first_s.append(first.total_s)
    return {
        **_figures("serial", serial),
        **_figures("ray", with_ray),
        **spread("ray_first_trial", "s", first_s),
    }


def overheads(trials: int, *, use_ray: bool) -> list[Overhead]:
    """Run a small sweep and return the overhead of all its trials but the last."""
    with tempfile.TemporaryDirectory() as folder:
        watch = Stopwatch()
        state = State(Path(folder))
        sweep = small_sweep(trials)
        name = f"overhead-{Path(folder).name}"
        tracker = JsonlTracker(state.root / "events.jsonl")
        search = StudySearch(sweep, state.study_path, name)
        sweep_run = SweepRun(name, sweep, state, search, Attendants(tracker, [watch]))
        if use_ray:
            ray_driver.drive(sweep_run, state, Interrupts(lambda: None))
        else:
            serial_driver.drive(sweep_run, local_tools)
        sweep_run.end("finished")
        results = {result.trial: result for result in sweep_run.results}
        bad = [r.reason for r in results.values() if r.outcome is not Outcome.MEASURED]
        if bad:
            sys.exit(f"not every trial was measured: {bad}")
        cycles = zip(watch.jobs, pairwise(watch.handed_out_s), strict=False)
        return [_overhead(job, results[job.trial], end - begin) for job, (begin, end) in cycles]


def small_sweep(trials: int) -> Sweep:
    """Return a sweep of a real space whose trials last a second or two."""
    sweep = load_sweep(SPACE)
    return replace(
        sweep,
        workload=replace(
            sweep.workload,
            max_tokens=LONG_ANSWER_TOKENS,
            ignore_eos=True,
            measured_prompts=2,
            most_measured_prompts=2,
            cold_prompts=1,
            warming_passes=1,
            measure_s=1e6,
        ),
        budget=Budget(trials=trials, trial_s=1e6, start_s=1e6, phase_s=1e6, silence_s=1e6),
        hosts=[HostSpec(engine=EngineName.EMULATED, time_scale=TIME_SCALE)],
        early_stopping=False,
    )


def _overhead(job: TrialJob, result: TrialResult, cycle_s: float) -> Overhead:
    wall_s = {name: host_s / job.host.clock_scale for name, host_s in result.phase_s.items()}
    exit_s = _exit_s(job)
    servers_s = sum(wall_s.get(phase.value, 0.0) for phase in SERVERS_PHASES) + exit_s
    start_s = wall_s[Phase.ADMITTED.value]
    stop_s = wall_s[Phase.STOPPING.value] - exit_s
    return Overhead(start_s, stop_s, cycle_s - servers_s - start_s - stop_s)


def _exit_s(job: TrialJob) -> float:
    """Return how long the server took to exit once it was told to."""
    lines = [json.loads(line) for line in job.spool_path.read_text().splitlines()]
    return next(float(line["root_s"]) for line in lines if line["kind"] == "stop")


def _figures(driver: str, found: list[Overhead]) -> dict[str, float]:
    return {
        f"{driver}_trials_count": len(found),
        **spread(driver, "s", [one.total_s for one in found]),
        f"{driver}_mean_s": fmean(one.total_s for one in found),
        **spread(f"{driver}_start", "s", [one.start_s for one in found]),
        **spread(f"{driver}_stop", "s", [one.stop_s for one in found]),
        **spread(f"{driver}_driver", "s", [one.driver_s for one in found]),
    }


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    least = {f"{driver}_{part}": figures[f"{driver}_{part}_min_s"]
             for driver in ("serial", "ray") for part in ("start", "stop", "driver")}  # fmt: skip
    return {
        # The driver's part is what is left of a cycle: it shows whether the others fit in.
        "start, stop and driver all take time in each trial": min(least.values()) > 0,
        "all trials but the last of each sweep were taken": figures["serial_trials_count"]
        in (QUICK_SWEEPS * (QUICK_TRIALS - 1), SWEEPS * (TRIALS - 1))
        and figures["ray_trials_count"]
        in (QUICK_SWEEPS * (QUICK_TRIALS - 2), SWEEPS * (TRIALS - 2)),
        "the first trial under Ray waits for its actor": figures["ray_first_trial_s"]
        > figures["ray_s"],
    }


if __name__ == "__main__":
    run(__doc__ or "", measure, holds)
