"""What several hosts are worth: the time of one sweep on one, two and three of them over Ray.

The hosts are network namespaces of this machine with sshd of their own, and emulated 8-GPU servers
in them; the sweep runs as a user starts it, `sweep --hosts`. Needs root, sshd and iproute2.

`--quick` is one small sweep on two hosts.

- `makespan`: from the first trial handed out to the last end, in the hosts' seconds. The hosts run
  faster than life, so what the platform costs weighs that many times more than on real ones.
- `placement`: wall seconds of a trial that are neither its own phases nor another trial's: from the
  end of one trial on a host until the next runs there, its files brought here in between.
- `requeue`: wall seconds from the moment a host's cable is cut, so that nobody is told, until its
  trial is back in the queue.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

from reporting.loads import LONG_ANSWER_TOKENS
from reporting.program import Figures, run, spread

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from tests.infra.ssh.lan import GPU_HOSTS, Lan, lan  # noqa: E402 - not installed with ours

TIME_SCALE, QUICK_TIME_SCALE = 25.0, 100.0
TRIALS, QUICK_TRIALS = 24, 4
LIMIT_S = 1800.0
PLACED_S = 5.0
"""Wall seconds until a trial that was handed out is surely in the middle of its start."""

SPACE = """
from sweeps import *

NGRAM = {{"speculative_algorithm": "NGRAM"}}

sweep = Sweep(
    name="cluster",
    model=Model("some/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 32, NGRAM),
    ],
    fixed={{"tp_size": 8}},
    workload=Workload(max_tokens={tokens}, measured_prompts=4, most_measured_prompts=4,
                      cold_prompts=1,
                      measure_s=1e6, ignore_eos=True),
    budget=Budget(trials={trials}, trial_s=1e6, start_s=1e6, phase_s=1e6, silence_s=1e6),
    early_stopping=False,
    sampler="random",
)
"""
_NAMES = {1: "one_host", 2: "two_hosts", 3: "three_hosts"}
_LINE = re.compile(r"^(?P<at>\S+ \S+) \S+ \S+ sweep=\S+ trial=(?P<trial>\S+) (?P<what>\w+)")


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial as the driver saw it, in wall seconds since the epoch."""

    host: str
    begin_s: float
    end_s: float
    own_s: float
    """What its phases took."""
    outcome: str


def measure(quick: bool) -> Figures:
    """Return the figures of all runs."""
    if os.getuid() != 0:
        sys.exit("bench/cluster.py makes network namespaces: run it as root")
    scale, trials = (QUICK_TIME_SCALE, QUICK_TRIALS) if quick else (TIME_SCALE, TRIALS)
    names = {2: _NAMES[2]} if quick else _NAMES
    figures: dict[str, float] = {}
    with lan() as net:
        for count, name in names.items():
            with _sweep(net, GPU_HOSTS[:count], trials, scale) as (process, state):
                _await_end(process)
                figures |= _makespan(name, _trials(state), scale)
        if quick:
            return figures
        figures["requeue_s"] = _requeue_s(net, scale)
    one_host_s = figures["one_host_makespan_host_s"]
    for name in ("two_hosts", "three_hosts"):
        figures[f"{name}_over_one_ratio"] = figures[f"{name}_makespan_host_s"] / one_host_s
    return figures


def _requeue_s(net: Lan, scale: float) -> float:
    """Cut the cable of a host in the middle of a trial."""
    with _sweep(net, GPU_HOSTS[:2], 6, scale) as (process, state):
        lost = GPU_HOSTS[1]
        _wait(lambda: _runs_on(state, lost), process)
        time.sleep(PLACED_S)
        net[lost].cut()
        cut_s = time.time()
        try:
            _wait(lambda: any(t.outcome == "failed" for t in _trials(state)), process)
            return next(t.end_s for t in _trials(state) if t.outcome == "failed") - cut_s
        finally:
            net[lost].mend()


@contextmanager
def _sweep(
    net: Lan, hosts: Sequence[str], trials: int, scale: float
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run a sweep on some hosts; it is ended with the block."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "space.py").write_text(SPACE.format(trials=trials, tokens=LONG_ANSWER_TOKENS))
        net.write_inventory(folder / "hosts.toml", *hosts, time_scale=scale)
        words = [
            sys.executable, "-m", "orchestrator", "sweep", str(folder / "space.py"),
            "--hosts", ",".join(hosts), "--inventory", str(folder / "hosts.toml"),
            "--state-dir", str(folder / "state"),
        ]  # fmt: skip
        with subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT
        ) as process:
            try:
                yield process, folder / "state"
            finally:
                process.terminate()


def _await_end(process: subprocess.Popen[bytes]) -> None:
    _, told = process.communicate(timeout=LIMIT_S)
    if process.returncode != 0:
        sys.exit(f"the sweep exited with {process.returncode}: {told.decode()}")


def _wait(true: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not true():
        if process.poll() is not None or time.monotonic() > until_s:
            sys.exit("the sweep ended before its host was lost")
        time.sleep(0.2)


def _runs_on(state: Path, host: str) -> bool:
    """Tell whether a trial was handed out for a host."""
    return any(f" starts on {host}:" in path.read_text() for path in _logs(state))


def _logs(state: Path) -> list[Path]:
    return list(state.glob("sweeps/*/driver.log"))


def _trials(state: Path) -> list[Trial]:
    """Read all trials that have ended, in their order."""
    [log] = _logs(state)
    times: dict[str, list[float]] = {}
    for line in log.read_text().splitlines():
        if found := _LINE.match(line):
            at = datetime.strptime(found["at"], "%Y-%m-%d %H:%M:%S,%f").timestamp()
            times.setdefault(found["trial"], []).append(at)
    rows = [json.loads(path.read_text()) for path in state.glob("sweeps/*/trials/*/result.json")]
    made = [
        Trial(row["host"], times[row["trial"]][0], times[row["trial"]][-1],
              sum(row["phase_s"].values()), row["outcome"])
        for row in rows
        if len(times.get(row["trial"], ())) > 1
    ]  # fmt: skip
    return sorted(made, key=lambda trial: trial.begin_s)


def _makespan(name: str, trials: list[Trial], scale: float) -> dict[str, float]:
    span_s = max(t.end_s for t in trials) - min(t.begin_s for t in trials)
    by_host: dict[str, list[Trial]] = {}
    for trial in trials:
        by_host.setdefault(trial.host, []).append(trial)
    around_s = [
        later.begin_s - earlier.begin_s - earlier.own_s / scale
        for held in by_host.values()
        for earlier, later in pairwise(held)
    ]
    return {
        f"{name}_trials_count": len(trials),
        f"{name}_makespan_host_s": span_s * scale,
        f"{name}_trial_host_s": median(trial.own_s for trial in trials),
        **spread(f"{name}_placement", "s", around_s),
    }


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    names = [name for name in _NAMES.values() if f"{name}_trials_count" in figures]
    return {
        "all trials were made": all(figures[f"{n}_trials_count"] >= QUICK_TRIALS for n in names)
        and bool(names),
        "a sweep lasts longer than a trial": all(
            figures[f"{n}_makespan_host_s"] > figures[f"{n}_trial_host_s"] for n in names
        ),
        "a host waits between two trials": all(figures[f"{n}_placement_min_s"] > 0 for n in names),
    }


if __name__ == "__main__":
    run(__doc__ or "", measure, holds)
