"""What the driver itself costs as a sweep grows: seconds a trial, memory, threads, open files.

Trials are made up, and everything else is real: the study in SQLite, the spools and results on
disk, the records for the tracker. Seconds of a trial are those of this process on the CPU, threads
included, so that a busy machine tells little in them; all others are wall seconds. `growth_ratio`
is what an added trial costs at the largest number over what it costs at 100.
"""

import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil

from orchestrator.continuing import Wish, choose, known_definition
from orchestrator.files import write_json
from orchestrator.job import TrialJob, TrialProgress
from orchestrator.search.study import StudySearch
from orchestrator.state import State
from orchestrator.sweep_run import Attendants, Past, SweepRun
from orchestrator.tracking.jsonl import JsonlTracker
from orchestrator.trial_notes import notes_of_trial
from orchestrator.trial_records import lost_result
from reporting.program import Figures, run
from sweeps import Budget, Choice, EngineName, HostSpec, IntRange, Model, Sweep
from sweeps.results import Estimate, Outcome, Phase, TrialResult

ROOT = Path(__file__).parents[1]
SIZES, QUICK_SIZES = (100, 1_000, 10_000), (100, 250)
WINDOW = 50
"""Trials over which the cost of one is taken."""
SAMPLES = 12
DEADLINE_S = 300.0

NGRAM = {"speculative_algorithm": "NGRAM"}
SWEEP = Sweep(
    name="driver",
    model=Model("some/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 64, NGRAM),
        IntRange("speculative_ngram_max_bfs_breadth", 1, 16, NGRAM),
        IntRange("ngram_match_depth", 2, 40, NGRAM),
        Choice("NCCL_PROTO", [None, "LL", "LL128", "Simple"]),
        Choice("NCCL_ALGO", [None, "Ring", "Tree"]),
    ],
    budget=Budget(trials=1_000_000),
    hosts=[HostSpec(engine=EngineName.EMULATED)],
    sampler="random",
)
SWEEP_ID = "driver-1"
FILE = Path("driver.py")


def measure(quick: bool) -> Figures:
    """Grow one sweep, and take the figures at each size."""
    sizes = QUICK_SIZES if quick else SIZES
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        state = State(Path(folder))
        card = {"name": SWEEP.name, "key": SWEEP.key, "file": str(FILE.absolute())}
        known = {**card, "definition": known_definition(SWEEP), "objective": "decode_tok_s"}
        state.write_card(SWEEP_ID, {**known, "status": "interrupted"})
        search = StudySearch(SWEEP, state.study_path, SWEEP_ID)
        tracker = JsonlTracker(state.root / "events.jsonl")
        sweep_run = SweepRun(SWEEP_ID, SWEEP, state, search, Attendants(tracker, []))
        luck = random.Random(0)
        done = 0
        for size in sizes:
            for _ in range(size - WINDOW - done):
                _trial(sweep_run, luck)
            with _cpu_s() as spent:
                for _ in range(WINDOW):
                    _trial(sweep_run, luck)
            done = size
            figures |= {f"trial_at_{size}_s": spent[0] / WINDOW, **_burden(size)}
        search.close()
        tracker.close(60.0)
        figures["growth_ratio"] = figures[f"trial_at_{sizes[-1]}_s"] / figures["trial_at_100_s"]
        figures["resume_s"] = _resume_s(state)
        page = ("report", "--output", str(Path(folder) / "report.html"))
        for words in (("trials", "--json"), ("explain", "best"), page):
            figures[f"{words[0]}_s"] = _command_s(state, *words)
    return figures


def _trial(sweep_run: SweepRun, luck: random.Random) -> None:
    job = sweep_run.next_job(SWEEP.hosts[0])
    assert job is not None, "there is always another one"
    rate = 80.0 + luck.random() if job.config.is_plain else luck.uniform(40.0, 120.0)
    progress = TrialProgress(job.trial, Phase.MEASURING, 100.0, rate, rate - 2, rate + 2, 2.0)
    result = _result(job, rate)
    with notes_of_trial(job) as notes:
        for n in range(SAMPLES):
            seen = replace(progress, elapsed_s=100.0 + 5 * n)
            notes.sample(seen)
            sweep_run.on_progress(seen)
        notes.end(result)
    write_json(job.result_path, result.as_data())
    sweep_run.on_result(result)


def _result(job: TrialJob, rate: float) -> TrialResult:
    def about(value: float) -> Estimate:
        return Estimate(value, 0.98 * value, 1.02 * value, 90.0, "blocks", provisional=False)

    known = {"decode_tok_s": about(rate), "accept_length": about(2.0), "cycle_ms": about(20.0)}
    spent_s = {"starting": 300.0, "measuring": 90.0}
    made = lost_result(job, "", Outcome.MEASURED)
    return replace(made, phase=Phase.MEASURING, gpu_hours=0.9, estimates=known, phase_s=spent_s)


@contextlib.contextmanager
def _cpu_s() -> Iterator[list[float]]:
    spent: list[float] = []
    before_s = time.process_time()
    yield spent
    spent.append(time.process_time() - before_s)


def _burden(size: int) -> dict[str, float]:
    process = psutil.Process()
    return {
        f"rss_at_{size}_bytes": float(process.memory_info().rss),
        f"threads_at_{size}_count": float(process.num_threads()),
        f"files_at_{size}_count": float(process.num_fds()),
    }


def _resume_s(state: State) -> float:
    """Take the sweep up again, as `sweep --resume` does, until it hands out a trial."""
    before_s = time.perf_counter()
    chosen = choose(state, SWEEP, FILE, Wish.RESUME, {})
    results = state.results(chosen.sweep_id)
    first = state.next_number(chosen.sweep_id)
    search = StudySearch(SWEEP, state.study_path, SWEEP_ID, results, first_number=first)
    attendants = Attendants(JsonlTracker(state.root / "again.jsonl"), [])
    again = SweepRun(SWEEP_ID, SWEEP, state, search, attendants, past=Past(results))
    assert again.next_job(SWEEP.hosts[0]) is not None
    spent_s = time.perf_counter() - before_s
    search.close()
    return spent_s


def _command_s(state: State, *words: str) -> float:
    before_s = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "orchestrator", *words, "--state-dir", str(state.root)],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=DEADLINE_S,
    )  # fmt: skip
    return time.perf_counter() - before_s


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    sizes = QUICK_SIZES if f"trial_at_{SIZES[1]}_s" not in figures else SIZES
    first, last = sizes[0], sizes[-1]
    grown = [figures[f"{w}_at_{last}_count"] - figures[f"{w}_at_{first}_count"]
             for w in ("threads", "files")]  # fmt: skip
    return {
        "a trial costs no more than a few times as much after many": figures["growth_ratio"] < 4,
        # A writer of the study, and its file, may come and go.
        "no thread and no open file comes with trials": max(grown) < (last - first) / WINDOW,
    }


if __name__ == "__main__":
    run(__doc__ or "", measure, holds)
