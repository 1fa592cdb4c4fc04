"""One benchmark as a program: its options, its figures, and the machine they come from.

It measures under a guard: however it ends, nothing that it started is left. It exits with 1 where a
figure is no number with a unit, or a statement about the figures does not hold.
"""

import argparse
import json
import math
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import psutil
from rich.console import Console
from rich.table import Table

from reporting.guarded import Figures, guarded

__all__ = ["Figures", "Holds", "machine", "run", "run_counted", "run_with", "spread"]

Holds = Callable[[Figures], Mapping[str, bool]]
"""Says of each statement about the figures whether it holds: at any load of the machine, also where
it must be quick."""

UNITS = ("s", "ms", "bytes", "mb", "hours", "tokens", "tokens_per_step", "count", "ratio")
"""A figure's name ends in one of them, or in `_per_` and one of RATES."""
RATES = ("s", "step")


def _nothing(figures: Figures) -> Mapping[str, bool]:
    return {}


def run(about: str, measure: Callable[[bool], Figures], holds: Holds = _nothing) -> None:
    """Measure and print. `measure` is told whether it must be quick, under a minute."""
    options = _parser(about).parse_args()
    _tell(guarded(lambda: measure(options.quick)), holds, as_json=options.json)


def run_with(
    about: str,
    add: Callable[[argparse.ArgumentParser], None],
    measure: Callable[[argparse.Namespace], Figures],
    holds: Holds = _nothing,
) -> None:
    """As `run`, with options of the program's own."""
    parser = _parser(about)
    add(parser)
    options = parser.parse_args()
    _tell(guarded(lambda: measure(options)), holds, as_json=options.json)


def run_counted(
    about: str, measure: Callable[[bool, int], Figures], option: str, counts: tuple[int, int],
    holds: Holds = _nothing,
) -> None:  # fmt: skip
    """As `run`, where an option says how often; the second count is for where it must be quick."""
    many, few = counts
    parser = _parser(about)
    parser.add_argument(option, type=int, dest="count", help=f"How many; {many}, or {few}.")
    options = parser.parse_args()
    count = options.count or (few if options.quick else many)
    _tell(guarded(lambda: measure(options.quick, count)), holds, as_json=options.json)


def _parser(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"bench/{_name()}.py", description=about.partition("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="Fewer runs, under a minute.")
    parser.add_argument("--json", action="store_true", help="Print one JSON object.")
    return parser


def _name() -> str:
    return Path(sys.argv[0]).stem


def _tell(figures: Figures, holds: Holds, *, as_json: bool) -> None:
    """Print the figures; exit with 1 where they cannot be right."""
    malformed = [f"{name} = {value}" for name, value in figures.items() if _is_bad(name, value)]
    if malformed or not figures:
        sys.exit(f"no finite figures with units: {', '.join(malformed) or 'none at all'}")
    _print(figures, as_json=as_json)
    broken = [statement for statement, is_true in holds(figures).items() if not is_true]
    if broken:
        sys.exit("\n".join(f"it does not hold that {one}" for one in broken))


def _is_bad(name: str, value: object) -> bool:
    units = (*UNITS, *(f"per_{rate}" for rate in RATES))
    number = isinstance(value, int | float) and math.isfinite(value)
    return not number or not name.endswith(tuple(f"_{unit}" for unit in units))


def _print(figures: Figures, *, as_json: bool) -> None:
    name = _name()
    if as_json:
        command = " ".join(["python", f"bench/{name}.py", *sys.argv[1:]])
        report = {"bench": name, "command": command, "figures": figures, "machine": machine()}
        print(json.dumps(report, allow_nan=False))
    else:
        Console().print(_table(name, figures))


def spread(name: str, unit: str, values: Sequence[float]) -> dict[str, float]:
    """Return the median of some values under a name, with the least and the most beside it."""
    return {
        f"{name}_{unit}": median(values),
        f"{name}_min_{unit}": min(values),
        f"{name}_max_{unit}": max(values),
    }


def machine() -> dict[str, str | float]:
    """Describe this machine as far as it matters to a figure, and how busy it is."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "load_1_min": round(os.getloadavg()[0], 2),
    }


def _table(name: str, figures: Figures) -> Table:
    table = Table("figure", title=name, title_justify="left")
    table.add_column("value", justify="right")
    for figure, value in figures.items():
        table.add_row(figure, f"{value:.4g}")
    return table
