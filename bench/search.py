"""How many GPU-hours a sweep takes to hold a good configuration, and how often it names one.

Simulated sweeps on hosts whose truth is known by looking at all configurations: the emulated truths
S, M and G, each with and without a working PCIe-IPC all-reduce, and hosts drawn at random; spaces
joint and ngram; three kinds of text. Step times come from the emulated host's cost model, accept
lengths from its drafter on its own texts. A trial is a start of 240 s x lognormal(0.12) and 30
blocks of 5 s on 8 GPUs. Noise: 1.5 % between starts, and in a block 4.5 % on steps/s and 7 % on the
accept length of what drafts.

- `…_hold_…`: GPU-hours until what is held for the best is within 2 % of it, and stays so. Sweeps
  that never hold count as 104, the cost of 120 trials.
- `…_near_…`: share of sweeps whose recommendation is within 2 % of the best.
- `speculation` and `plain`: worlds where it wins by more than 2 %.
- `predicted` knows accept lengths by replay, `ours` does not, and `smooth` does not take step times
  apart either. `screened` is `predicted` after the screening of all-reduces, whose GPU-hours count.
- `…_gain_error_…`: mean error of the reported gain; `…_gain_covered_…`: share of its 95 % intervals
  that hold the truth. `…_good_stopped_…`: share of the trials of
  configurations within 2 % of the best that early stopping ended.

The planner was tuned on random hosts of TUNING_SEEDS. Those of HELD_SEEDS are what is printed.
"""

import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from statistics import fmean, quantiles

import numpy as np
from rich.console import Console
from rich.table import Table

from reporting.program import Figures, run, spread
from search_worlds.accept import FULL, OUT, QUICK, Grid, accept_table, keep
from search_worlds.hosts import PROMPTS, Setting, main_settings, random_setting
from search_worlds.recorded import Recorded
from search_worlds.scoring import CAP_STARTS, NEVER_GPU_HOURS, Score, sweep
from search_worlds.screened import gpu_hours, screened
from search_worlds.strategies import Asha, Listed, Ours, Staged, Strategy, floor, grid
from search_worlds.trials import draw
from search_worlds.world import World
from sweeps.results import TrialResult
from sweeps.sampling import valid_samples
from sweeps.search.brief import NO_FORESIGHT, Foresight
from sweeps.search.planner import Planner
from sweeps.search.steps import Purpose, Taste
from sweeps.values import digest

TUNING_SEEDS = range(3000, 3120)
HELD_SEEDS = range(7000, 7120)
SEEDS_PER_WORLD = 20
SEEDS_PER_WORLD_OF_OTHERS = 3
"""The others are slower and need not be told from each other so finely."""
RECORDED = 2
"""Raise it when worlds, noise or the other strategies change: their sweeps are kept."""
STRATEGIES = (
    "screened", "predicted", "ours", "smooth",
    "tpe", "tpe_stop", "asha", "random", "staged", "grid", "floor",
)  # fmt: skip
OWN = ("screened", "predicted", "ours", "smooth")
"""What changes with the code, so that its sweeps are not kept."""
WINS = 0.02
WORKERS = 2
SUGGESTIONS, OPENING = 5, 6
QUICK_SEEDS = (0, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class Task:
    """Sweeps of one strategy on one host, one for each seed."""

    setting: Setting
    strategy: str
    seeds: tuple[int, ...]
    grid: Grid = FULL

    @property
    def key(self) -> str:
        """Return the name under which the sweeps of another strategy are kept."""
        return digest([repr(self.setting), self.strategy, self.seeds, self.grid.name, RECORDED])


def measure(quick: bool) -> Figures:
    """Run all sweeps and return the figures; the table goes to standard error."""
    if quick:
        names = ("predicted", "ours", "random", "floor")
        return {**_summary(_scores(list(_quick_tasks())), names), **suggestions(200, QUICK)}
    for prompts in PROMPTS:
        accept_table(prompts, FULL)
    tasks = [*main_tasks(STRATEGIES), *random_tasks(STRATEGIES, HELD_SEEDS)]
    scores = _scores(tasks)
    show(scores, STRATEGIES)
    return {**_summary(scores, STRATEGIES), **suggestions(1000, FULL)}


def suggestions(trials: int, grid: Grid) -> dict[str, float]:
    """Time suggestions after many random trials, with nothing kept from the one before."""
    world = World(next(s for s in main_settings() if s.name == "M/joint/code"), grid)
    rng = np.random.default_rng(0)
    taste = Taste(drift_every_trials=0, least_gain_per_gpu_hour=0.0)

    def fresh() -> Planner:
        return Planner(world.space, canonical=world.canonical, taste=taste)

    history: list[TrialResult] = []
    configs = islice(valid_samples(world.space, 0), trials - OPENING)
    for config in chain([world.space.plain()], configs):
        purpose = "search" if history else "baseline"
        history.append(draw(world, config, len(history), rng, purpose=purpose).result)
    while (step := fresh().next(history)) is not None and step.purpose is not Purpose.SEARCH:
        drawn = draw(world, step.config, len(history), rng, purpose=step.purpose.value)
        history.append(drawn.result)
    took = []
    for _ in range(SUGGESTIONS):
        planner = fresh()
        began = time.perf_counter()
        planner.next(history)
        took.append(time.perf_counter() - began)
    return spread(f"suggestion_after_{trials}_trials", "s", took)


def main_tasks(strategies: Iterable[str]) -> Iterator[Task]:
    """Yield the sweeps on truths S, M and G."""
    for setting in main_settings():
        for strategy in strategies:
            if strategy in OWN:
                yield Task(setting, strategy, tuple(range(SEEDS_PER_WORLD)))
            else:
                for seed in range(SEEDS_PER_WORLD_OF_OTHERS):
                    yield Task(setting, strategy, (seed,))


def random_tasks(strategies: Iterable[str], seeds: Iterable[int]) -> Iterator[Task]:
    """Yield the sweeps on random hosts."""
    for seed in seeds:
        for strategy in strategies:
            yield Task(random_setting(seed), strategy, (seed,))


def perform(task: Task) -> list[Score]:
    """Run the sweeps of a task, or read what is kept of them."""
    path = OUT / "sweeps" / f"{task.key}.json"
    if task.strategy not in OWN and path.is_file():
        return [Score(**score) for score in json.loads(path.read_text())]
    world = World(task.setting, task.grid)
    scores = [_score(task.strategy, world, seed) for seed in task.seeds]
    if task.strategy not in OWN and task.grid == FULL:
        keep(path, [asdict(score) for score in scores])
    return scores


def _score(name: str, world: World, seed: int) -> Score:
    spent = gpu_hours(screened(world, seed)) if name == "screened" else 0.0
    return sweep(world, _strategy(name, world, seed), name, seed, CAP_STARTS, spent)


def show(scores: Sequence[Score], strategies: Iterable[str]) -> None:
    """Print the table of all strategies to standard error."""
    table = Table(title="GPU-hours to hold, and what was named", title_justify="left")
    head = ("strategy", "sweeps", "all q25/med/q75", "mean", "speculation", "mean", "plain", "mean",
            "near all/spec/plain", "plain, spec named", "gain error mean, sd", "good stopped",
            "starts med", "GPU-h med/q90", "slowest s")  # fmt: skip
    for name in head:
        table.add_column(name, justify="right")
    for strategy in strategies:
        own = [s for s in scores if s.strategy == strategy]
        if own:
            table.add_row(strategy, *_row(own))
    Console(stderr=True, width=230).print(table)


def _scores(tasks: Sequence[Task]) -> list[Score]:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if len(tasks) < 20:
        return [score for task in tasks for score in perform(task)]
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        done = []
        for number, scores in enumerate(pool.imap_unordered(perform, tasks, chunksize=4), 1):
            done += scores
            if number % 100 == 0:
                print(f"{number} of {len(tasks)}", file=sys.stderr)
    return done


def _strategy(name: str, world: World, seed: int) -> Strategy:
    match name:
        case "ours":
            return Ours(world, seed, CAP_STARTS, Foresight())
        case "screened":
            known = Foresight(Recorded(world, seed), all_reduces=screened(world, seed))
            return Ours(world, seed, CAP_STARTS, known)
        case "predicted":
            return Ours(world, seed, CAP_STARTS, Foresight(Recorded(world, seed)))
        case "smooth":
            return Ours(world, seed, CAP_STARTS, NO_FORESIGHT)
        case "tpe" | "tpe_stop":
            from search_worlds.tpe import Tpe  # Optuna is slow to import

            return Tpe(world, seed, stopping=name == "tpe_stop")
        case "asha":
            return Asha(world, seed)
        case "random":
            return Listed.at_random(world, seed)
        case "staged":
            return Staged(world)
        case "grid":
            return grid(world, seed)
        case _:
            return floor(world)


def _quick_tasks() -> Iterator[Task]:
    wanted = {"M+ipc/joint/chat", "M/ngram/code", "G+ipc/ngram/code"}
    for setting in main_settings():
        if setting.name in wanted:
            for strategy in ("predicted", "ours", "random", "floor"):
                yield Task(setting, strategy, QUICK_SEEDS, QUICK)


def _groups(scores: Sequence[Score]) -> dict[str, list[Score]]:
    return {
        "all": list(scores),
        "speculation": [s for s in scores if s.margin > WINS],
        "plain": [s for s in scores if s.margin < -WINS],
    }


def _hours(scores: Iterable[Score]) -> list[float]:
    return [min(s.hold_gpu_hours, NEVER_GPU_HOURS) for s in scores]


def _quartiles(values: Sequence[float]) -> list[float]:
    return quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3


def _share(flags: Iterable[bool]) -> float:
    found = list(flags)
    return fmean(found) if found else math.nan


def _row(scores: Sequence[Score]) -> list[str]:
    groups = _groups(scores)
    cells = [str(len(scores))]
    for group in groups.values():
        hours = _hours(group)
        never = _share(math.isinf(s.hold_gpu_hours) for s in group)
        cells.append("/".join(f"{q:.1f}" for q in _quartiles(hours)) if hours else "-")
        cells.append(f"{fmean(hours):.1f} ({never:.0%})" if hours else "-")
    cells.append("/".join(f"{_share(s.near for s in group):.1%}" for group in groups.values()))
    plain = _share(s.plain_named for s in groups["plain"])
    drafted = _share(not s.plain_named for s in groups["speculation"])
    cells.append(f"{plain:.1%}, {drafted:.1%}")
    errors = [s.gain_error for s in scores if s.gain_error is not None]
    spread = math.sqrt(fmean((e - fmean(errors)) ** 2 for e in errors)) if errors else 0.0
    cells.append(f"{fmean(errors):+.2%}, {spread:.2%}" if errors else "-")
    good = sum(s.good_trials for s in scores)
    cells.append(f"{sum(s.good_stopped for s in scores)} of {good}")
    starts = sorted(s.starts for s in scores)
    hours = sorted(s.gpu_hours for s in scores)
    cells.append(f"{starts[len(starts) // 2]}")
    cells.append(f"{hours[len(hours) // 2]:.1f}/{hours[int(0.9 * len(hours))]:.1f}")
    cells.append(f"{max(s.suggest_s for s in scores):.2f}")
    return cells


def _summary(scores: Sequence[Score], strategies: Iterable[str]) -> dict[str, float]:
    figures = {}
    for strategy in strategies:
        own = [s for s in scores if s.strategy == strategy]
        for name, group in _groups(own).items():
            if group:
                low, middle, high = _quartiles(_hours(group))
                head = f"{strategy}_{name}"
                figures[f"{head}_hold_q25_gpu_hours"] = low
                figures[f"{head}_hold_gpu_hours"] = middle
                figures[f"{head}_hold_q75_gpu_hours"] = high
                figures[f"{head}_hold_mean_gpu_hours"] = fmean(_hours(group))
                figures[f"{head}_near_ratio"] = _share(s.near for s in group)
                figures[f"{head}_sweeps_count"] = len(group)
    for strategy in OWN:
        figures |= _own_figures(strategy, [s for s in scores if s.strategy == strategy])
    return figures


def _own_figures(name: str, scores: Sequence[Score]) -> dict[str, float]:
    """Return what is asked of our own search beside how long it takes."""
    if not scores:
        return {}
    groups = _groups(scores)
    errors = [s.gain_error for s in scores if s.gain_error is not None]
    held = [s.gain_covered for s in scores if s.gain_covered is not None]
    good = sum(s.good_trials for s in scores)
    hours = sorted(s.gpu_hours for s in scores)
    return {
        f"{name}_plain_named_ratio": _share(s.plain_named for s in groups["plain"]),
        f"{name}_speculation_named_ratio": _share(not s.plain_named for s in groups["speculation"]),
        f"{name}_gain_error_ratio": fmean(errors) if errors else 0.0,
        f"{name}_gain_covered_ratio": _share(held),
        f"{name}_good_stopped_ratio": sum(s.good_stopped for s in scores) / max(1, good),
        f"{name}_starts_count": float(sorted(s.starts for s in scores)[len(scores) // 2]),
        f"{name}_sweep_gpu_hours": hours[len(hours) // 2],
        f"{name}_sweep_q90_gpu_hours": hours[int(0.9 * len(hours))],
        f"{name}_slowest_suggestion_s": max(s.suggest_s for s in scores),
    }


if __name__ == "__main__":
    run(__doc__ or "", measure)
