"""What the report of a large sweep costs: seconds to make it, and bytes of the page.

A state folder is filled with trials of a made-up sweep, each with the result and the spool of a
real one: a third is stopped, some fail. The seconds are those of the whole command as a user types
it, start of Python included, and of its parts in one process.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from orchestrator.files import Spool, write_json
from orchestrator.reporting import HTML, MARKDOWN, report
from orchestrator.spool import RESULT, result_record
from orchestrator.state import State
from orchestrator.stories import sweep_story
from reporting.program import Figures, run, spread
from sweeps.config import Config
from sweeps.metrics import METRICS
from sweeps.results import Estimate, Outcome, Phase, TrialResult
from sweeps.workloads import Workload

TRIALS, QUICK_TRIALS = 1000, 200
RUNS, QUICK_RUNS = 3, 1
REQUESTS = 24
MOST_PAGE_MB = 5.0
SWEEP = "large"
_PHASES = {Phase.STARTING: 210.0, Phase.PROBING: 20.0, Phase.COLD: 28.0, Phase.MEASURING: 90.0}


def measure(quick: bool) -> Figures:
    """Fill a folder and make its report."""
    trials = QUICK_TRIALS if quick else TRIALS
    with tempfile.TemporaryDirectory() as folder:
        state = State(Path(folder))
        _fill(state, trials)
        page = Path(folder) / "report.html"
        runs = [_command(state.root, page) for _ in range(QUICK_RUNS if quick else RUNS)]
        return {
            "trials_count": float(trials),
            **spread("command", "s", [wall_s for wall_s, _ in runs]),
            **spread("command_cpu", "s", [cpu_s for _, cpu_s in runs]),
            "story_s": _timed(lambda: sweep_story(state, SWEEP)),
            "html_s": _timed(lambda: report(state, SWEEP, HTML)),
            "markdown_s": _timed(lambda: report(state, SWEEP, MARKDOWN)),
            "page_mb": page.stat().st_size / 1e6,
        }


def _timed(call: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    call()
    return time.perf_counter() - began_s


def _command(state_dir: Path, page: Path) -> tuple[float, float]:
    """Return the seconds of the wall and of the processor."""
    argv = [sys.executable, "-m", "orchestrator", "report", "--state-dir", str(state_dir)]
    began_s, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*argv, "--output", str(page)], check=True, capture_output=True)
    wall_s, after = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _fill(state: State, trials: int) -> None:
    random = np.random.default_rng(1)
    for number in range(trials):
        result = _result(number, _config(number, random), random)
        folder = state.trial_folder(SWEEP, number)
        write_json(folder / "result.json", result.as_data())
        _spool(folder / "spool.jsonl", result, random)
    hosts = [{"name": "local", "engine": "emulated", "time_scale": 1.0}]
    work = Workload(concurrencies=(4, 16)).as_data()
    card = {"name": SWEEP, "objective": "decode_tok_s", "workload": work, "hosts": hosts}
    state.write_card(SWEEP, {**card, "status": "finished", "configurations": 100_000})


def _config(number: int, random: np.random.Generator) -> Config:
    serving = {
        "NCCL_PROTO": (None, "LL", "Simple")[random.integers(3)],
        "NCCL_ALGO": (None, "Ring", "Tree")[random.integers(3)],
        "NCCL_MIN_NCHANNELS": (None, 2, 4, 8)[random.integers(4)],
        "disable_custom_all_reduce": bool(random.integers(2)),
    }
    if number % 20 == 0:
        return Config.of({"speculative_algorithm": None, **serving})
    drafts = {
        "speculative_num_draft_tokens": int(random.integers(2, 17)),
        "speculative_ngram_max_bfs_breadth": int(random.integers(1, 17)),
        "ngram_match_depth": int(random.integers(4, 19)),
    }
    return Config.of({"speculative_algorithm": "NGRAM", **drafts, **serving})


def _result(number: int, config: Config, random: np.random.Generator) -> TrialResult:
    width = config.get("speculative_num_draft_tokens")
    tokens = width if isinstance(width, int) else 1
    accept = 1.0 if config.is_plain else 1.7 - 0.7 / tokens
    cycle_ms = (10 + 1.5 * tokens) * (1 if config["NCCL_PROTO"] == "LL" else 1.2)
    cycle_ms *= float(np.exp(random.normal(0, 0.02)))
    rate = 1000 * accept / cycle_ms
    outcome = Outcome.MEASURED
    if number and number % 3 == 0:
        outcome = Outcome.STOPPED
    elif number and number % 50 == 7:
        outcome = Outcome.INFEASIBLE
    known = {"decode_tok_s": rate, "accept_length": accept, "cycle_ms": cycle_ms}
    values = {name: known.get(name, rate) for name in METRICS}
    estimates = {
        name: Estimate(value, value * 0.98, value * 1.02, 60.0, "10 time blocks", False)
        for name, value in values.items()
    }
    return replace(
        _BARE,
        trial=f"{SWEEP}-{number:04d}", number=number, config=config, outcome=outcome,
        reason="" if outcome is Outcome.MEASURED else "said by the server or the early stop",
        bound=rate * 1.05 if outcome is Outcome.STOPPED else None,
        signature="oom_serving" if outcome is Outcome.INFEASIBLE else "",
        estimates={} if outcome is Outcome.INFEASIBLE else estimates,
        requested={**config, "tp_size": 8}, effective={**config, "tp_size": 8},
        purpose="search" if number else "baseline",
    )  # fmt: skip


_BARE = TrialResult(
    trial="", sweep=SWEEP, number=0, config=Config.of({}), outcome=Outcome.MEASURED, reason="",
    phase=Phase.MEASURING, emulated=True, host="local", engine_version="0.5.23", gpu_hours=0.77,
    started_at="", phase_s={phase.value: spent_s for phase, spent_s in _PHASES.items()},
)  # fmt: skip


def _spool(path: Path, result: TrialResult, random: np.random.Generator) -> None:
    """Write as many requests, with as many arrivals, as a trial of the n-gram space has."""
    spool = Spool(path)
    for number in range(REQUESTS):
        arrivals = [round(float(t), 5) for t in np.cumsum(random.exponential(0.02, 350))]
        phase = Phase.COLD if number < 4 else Phase.MEASURING
        spool.append(
            "request",
            {"phase": phase.value, "end": "finished", "output_tokens": 512, "verify_steps": 350,
             "times_s": arrivals, "tokens": list(range(350))},
        )  # fmt: skip
    spool.append(RESULT, result_record(result))
    spool.close()


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    return {"the page can be mailed": 0 < figures["page_mb"] < MOST_PAGE_MB}


if __name__ == "__main__":
    run(__doc__ or "", measure, holds)
