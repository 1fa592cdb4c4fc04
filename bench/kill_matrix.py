"""What is left of a server when whoever runs it comes to an end, by kind of end and of server.

A driver connects to Ray and has an actor start servers under guards, as a trial does. Then the
scheduler stops the trial, the driver gets SIGINT, SIGTERM or SIGKILL, the actor or the guards get
SIGKILL, or the actor is frozen by SIGSTOP. Over all runs are counted the processes and ports that
are still there 5 s after the grace period (and the lease, where the owner is frozen), and the
longest time after the grace period until none was. Servers: emulated ones whose processes end when
asked, leave their tree, or ignore SIGTERM; and the real SGLang on a CPU, where its environment is
built. `--quick` leaves out the first and the last. The matrix goes to the error output as well.
"""

import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from rich.console import Console
from rich.table import Table

from killing.runs import Aftermath, End, run_once
from killing.trees import EMULATED, ROOT, Tree, is_built
from reporting.program import Figures, run

RUNS, QUICK_RUNS = 20, 1
QUICK_TREES = (Tree.DETACHED, Tree.DEAF)
OBJECT_STORE_BYTES = 80 << 20

Matrix = dict[tuple[End, Tree], list[Aftermath]]


def measure(quick: bool) -> Figures:
    """Return what was left, cell by cell."""
    matrix: Matrix = defaultdict(list)
    runs = QUICK_RUNS if quick else RUNS
    with _ray() as address:
        _fill(matrix, QUICK_TREES if quick else EMULATED, runs, address)
        if not quick and is_built():
            _fill(matrix, (Tree.SGLANG,), runs, address)
    Console(stderr=True).print(_table(matrix))
    figures: dict[str, float] = {"runs_count": runs}
    for (end, tree), cell in matrix.items():
        figures[f"{end}_{tree}_survivors_count"] = sum(one.survivors for one in cell)
        figures[f"{end}_{tree}_ports_held_count"] = sum(one.ports_held for one in cell)
        figures[f"{end}_{tree}_after_grace_max_s"] = max(one.after_grace_s for one in cell)
    return figures


def _fill(matrix: Matrix, trees: Sequence[Tree], runs: int, address: str) -> None:
    for number in range(runs):
        for end in End:
            for tree, aftermath in run_once(end, trees, address).items():
                matrix[end, tree].append(aftermath)
            print(f"{number + 1}/{runs} {end} {' '.join(trees)}", file=sys.stderr, flush=True)


@contextmanager
def _ray() -> Iterator[str]:
    """Run one Ray for all drivers; yield its address."""
    os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{ROOT / 'bench'}"
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=OBJECT_STORE_BYTES,
    )
    try:
        yield str(ray.get_runtime_context().gcs_address)
    finally:
        ray.shutdown()


def _table(matrix: Matrix) -> Table:
    trees = [tree for tree in Tree if any(tree is found for _, found in matrix)]
    table = Table("end", *trees, title="survivors, ports held, longest s after the grace period")
    for end in End:
        table.add_row(end, *(_cell(matrix[end, tree]) for tree in trees))
    return table


def _cell(cell: Sequence[Aftermath]) -> str:
    survivors, ports = sum(one.survivors for one in cell), sum(one.ports_held for one in cell)
    return f"{survivors}, {ports}, {max(one.after_grace_s for one in cell):.2f} ({len(cell)} runs)"


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    left = [v for n, v in figures.items() if n.endswith(("_survivors_count", "_held_count"))]
    trees, rest = divmod(len(left), 2 * len(End))
    return {
        "every end was tried on several kinds of servers": trees >= len(QUICK_TREES) and not rest,
        "nothing is left, whoever ends": set(left) == {0},
    }


if __name__ == "__main__":
    run(__doc__ or "", measure, holds)
