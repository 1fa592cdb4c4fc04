"""How many GPU-hours a sweep takes to hold a good configuration, and how often it names one.

Sweeps of the product, as `sweep --driver simulated` runs them: its decisions, the course of its
trials, its early stop, planner and claim, over the emulated engine with that engine's noise. Only
the display and MLflow are left out. A test holds such a sweep to the command, trial by trial.

The truth of a world comes from the same engine with its noise off: accept lengths of all drafting
settings by its own drafters on the texts that a trial serves, step times by its cost model.
Worlds: emulated hosts S, M, G and switch with and without a working PCIe-IPC all-reduce, and
nvlink; three kinds of text; spaces joint, ngram, eagle3 and nccl; and hosts drawn at random, of
HELD_SEEDS, that nothing was tuned on.

- `hold`: GPU-hours until what would be recommended is within 2 % of the best, and stays so.
- `good`: share of sweeps whose recommendation is that near in the end.
- `speculation` and `plain`: worlds where it wins by more than 2 %.
- `decided`: share of sweeps whose answer fresh starts decided; `wrong`: of those, what is not so.
- `lift`: what search starts promised and what they brought, summed up over all sweeps; `drawn`:
  over those of the random hosts alone.
- `gain_half_width`: of the claimed gains that at least six fresh starts stand behind.
- `steps_held`, `rates_held`: 90 % intervals of predicted step rates that held what was measured,
  and of predicted tok/s that held the truth.

Sweeps that are done are kept in bench/out until the code changes, so that a run that was cut off
goes on. `--only NAME` runs one strategy, `--seeds N` so many seeds of each main world, `--hosts N`
so many of the random hosts.
"""

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from rich.console import Console
from rich.table import Table

import infra
import orchestrator
import search_worlds
import sweeps
from infra.code_digest import code_digest
from reporting.program import Figures, run_with
from search_worlds.hosts import PROMPTS, Setting, main_settings, random_setting
from search_worlds.kept import OUT, keep
from search_worlds.product import TRIALS, How, sweep_world
from search_worlds.scoring import Score, score
from search_worlds.truth import World
from sweeps.values import digest

HELD_SEEDS = range(7000, 7120)
SEEDS = 8
WORKERS = 2
WINS = 0.02
SIX = 6
"""Fresh starts that tell a gain within 3 % at the usual spread between starts."""
STRATEGIES: Mapping[str, How] = {
    "default": How(),
    "prediction=False": How(prediction=False),
    "after screen": How(screened=True),
    "tpe, whole trials": How("tpe", stop_rule=None),
    "tpe": How("tpe"),
    "asha": How("random", stop_rule="asha"),
    "random": How("random", stop_rule=None),
    "grid": How("grid", stop_rule=None),
    "one axis at a time": How("staged", stop_rule=None),
}
QUICK_WORLDS = ("M+ipc/joint/code", "S/joint/code", "G+ipc/joint/code", "M/eagle3/reasoning")
"""Most share one kind of text: its truth takes longer than their sweeps."""
QUICK_TRIALS = 24
QUICK_STRATEGIES = ("default", "tpe")


@dataclass(frozen=True, slots=True)
class Task:
    """One sweep of one strategy in one world."""

    setting: Setting
    strategy: str
    seed: int
    trials: int = TRIALS

    @property
    def key(self) -> str:
        """Return the name under which it is kept: other code, another sweep."""
        code = code_digest(sweeps, orchestrator, infra, search_worlds)
        return digest([repr(self.setting), self.strategy, self.seed, self.trials, code])


def look_at_all(settings: Sequence[Setting]) -> None:
    """Find and keep what is best in worlds that share a text."""
    for setting in settings:
        _ = World(setting).best


def perform(task: Task) -> Score:
    """Run a sweep, or read what is kept of it."""
    path = OUT / "sweeps" / f"{task.key}.json"
    if path.is_file():
        return _score_of(json.loads(path.read_text()))
    world = World(task.setting)
    swept = sweep_world(world, task.seed, STRATEGIES[task.strategy], task.trials)
    found = score(world, task.strategy, task.seed, swept)
    keep(path, asdict(found))
    return found


def _score_of(data: Mapping[str, Any]) -> Score:
    pairs = {name: tuple(data[name]) for name in ("steps_held", "rates_held")}
    return Score(**{**data, **pairs})


def tasks(strategies: Iterable[str], seeds: int, hosts: int, *, quick: bool) -> Iterator[Task]:
    """Yield all sweeps, those of so many random hosts last."""
    for setting in main_settings():
        if not quick or setting.name in QUICK_WORLDS:
            for strategy in strategies:
                for seed in range(1 if quick else seeds):
                    yield Task(setting, strategy, seed, QUICK_TRIALS if quick else TRIALS)
    for seed in () if quick else HELD_SEEDS[:hosts]:
        for strategy in strategies:
            yield Task(random_setting(seed), strategy, seed)


def measure(strategies: Sequence[str], seeds: int, hosts: int, *, quick: bool) -> Figures:
    """Run all sweeps; the table goes to standard error."""
    began_s = time.monotonic()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    wanted = list(tasks(strategies, seeds, hosts, quick=quick))
    settings = {task.setting.name: task.setting for task in wanted}.values()
    by_text = [[s for s in settings if s.prompts == prompts] for prompts in PROMPTS]
    scores = []
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        pool.map(look_at_all, by_text, chunksize=1)  # once, for all sweeps
        for number, found in enumerate(pool.imap_unordered(perform, wanted), 1):
            scores.append(found)
            if number % 20 == 0:
                print(f"{number} of {len(wanted)} sweeps", file=sys.stderr)
    show(scores, strategies)
    figures: dict[str, float] = {"took_s": time.monotonic() - began_s}
    for strategy in strategies:
        figures |= _figures(strategy, [s for s in scores if s.strategy == strategy])
    return figures


GROUPS: Mapping[str, Callable[[Score], bool]] = {
    "all": lambda s: True,
    "speculation": lambda s: s.margin > WINS,
    "plain": lambda s: s.margin < -WINS,
}


def _figures(strategy: str, scores: Sequence[Score]) -> dict[str, float]:
    head = strategy.replace(", ", "_").replace("=", "_").replace(" ", "_").lower()
    found: dict[str, float] = {}
    for name, belongs in GROUPS.items():
        group = [s for s in scores if belongs(s)]
        if not group:
            continue
        found |= {
            f"{head}_{name}_sweeps_count": float(len(group)),
            f"{head}_{name}_hold_gpu_hours": _finite(median(s.hold_gpu_hours for s in group)),
            f"{head}_{name}_whole_gpu_hours": median(s.gpu_hours for s in group),
            f"{head}_{name}_whole_p90_gpu_hours": _quantile([s.gpu_hours for s in group], 0.9),
            f"{head}_{name}_good_ratio": fmean(s.near for s in group),
            f"{head}_{name}_starts_count": median(s.starts for s in group),
        }
    return {**found, **_honesty(head, scores)}


def _honesty(head: str, scores: Sequence[Score]) -> dict[str, float]:
    """Return how often what was said is so."""
    errors = [s.gain_error for s in scores if s.gain_error is not None]
    covered = [s.gain_covered for s in scores if s.gain_covered is not None]
    widths = [w for s in scores if s.confirms >= SIX and (w := s.gain_half_width) is not None]
    found = {
        "decided_ratio": fmean(s.decided for s in scores),
        "wrong_ratio": fmean(s.wrong for s in scores),
        "good_stopped_ratio": _share(
            sum(s.good_stopped for s in scores), sum(s.good_trials for s in scores)
        ),
        "steps_held_ratio": _share(*_sums(s.steps_held for s in scores)),
        "rates_held_ratio": _share(*_sums(s.rates_held for s in scores)),
        "cpu_s": median(s.cpu_s for s in scores),
    }
    if errors:
        found |= {
            "gain_error_ratio": fmean(errors), "gain_covered_ratio": fmean(covered),
        }  # fmt: skip
    if widths:
        found["gain_half_width_ratio"] = median(widths)
    for where, group in (("", scores), ("drawn_", [s for s in scores if s.is_drawn])):
        for name in sorted({name for s in group for name in s.promised}):
            found |= {
                f"lift_promised_{where}{name}_ratio": sum(s.promised.get(name, 0) for s in group),
                f"lift_realised_{where}{name}_ratio": sum(s.realised.get(name, 0) for s in group),
            }
    return {f"{head}_{name}": value for name, value in found.items()}


def _finite(hours: float) -> float:
    """Return hours as JSON can hold them: -1 stands for never."""
    return -1.0 if math.isinf(hours) else hours


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[round(share * (len(values) - 1))]


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _sums(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    told = list(pairs)
    return sum(a for a, _ in told), sum(b for _, b in told)


def show(scores: Sequence[Score], strategies: Iterable[str]) -> None:
    """Print the table of all strategies to standard error."""
    table = Table(title="GPU-hours, and what was named", title_justify="left")
    head = (
        "search", "sweeps", "hold: all / speculation / plain", "whole sweep", "90th percentile",
        "good: all / speculation", "starts", "decided", "wrong", "gain off by, covered",
    )  # fmt: skip
    for name in head:
        table.add_column(name, justify="right")
    for strategy in strategies:
        own = [s for s in scores if s.strategy == strategy]
        if own:
            table.add_row(strategy, *_row(own))
    Console(stderr=True, width=180).print(table)


def _row(scores: Sequence[Score]) -> list[str]:
    groups = [[s for s in scores if belongs(s)] for belongs in GROUPS.values()]
    errors = [s.gain_error for s in scores if s.gain_error is not None]
    covered = [s.gain_covered for s in scores if s.gain_covered is not None]

    def each(of: Callable[[Sequence[Score]], str]) -> str:
        return " / ".join(of(group) if group else "-" for group in groups)

    return [
        str(len(scores)),
        each(lambda g: _hours(median(s.hold_gpu_hours for s in g))),
        each(lambda g: f"{median(s.gpu_hours for s in g):.1f}"),
        f"{_quantile([s.gpu_hours for s in scores], 0.9):.1f}",
        each(lambda g: f"{fmean(s.near for s in g):.1%}"),
        f"{median(s.starts for s in scores):.0f}",
        f"{fmean(s.decided for s in scores):.1%}",
        f"{fmean(s.wrong for s in scores):.1%}",
        f"{fmean(errors):+.2%}, {fmean(covered):.1%}" if errors else "-",
    ]


def _hours(hours: float) -> str:
    return "never" if math.isinf(hours) else f"{hours:.1f}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Take which strategies run, and how often."""
    parser.add_argument("--only", choices=STRATEGIES, action="append", help="One strategy.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="Sweeps of each main world.")
    most = len(HELD_SEEDS)
    parser.add_argument("--hosts", type=int, default=most, help=f"Random hosts, {most} at most.")


def measure_asked(options: argparse.Namespace) -> Figures:
    """Run what was asked for."""
    strategies = options.only or (QUICK_STRATEGIES if options.quick else list(STRATEGIES))
    return measure(strategies, options.seeds, options.hosts, quick=options.quick)


def holds(figures: Figures) -> Mapping[str, bool]:
    """Return what holds of any run of the default search."""
    named = [value for name, value in figures.items() if name == "default_all_good_ratio"]
    return {"the default search names good configurations": all(ratio >= 0.75 for ratio in named)}


if __name__ == "__main__":
    run_with(__doc__ or "", add_options, measure_asked, holds)
