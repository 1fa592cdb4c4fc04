"""What a hostile or broken neighbour tries, and what happened: a row for each attack.

Attacks are tests with the mark `attack` of `tests/attacks.py`: the number of a kind of attack, and
what is tried; the name of a test says what holds. This runs them, and prints the rows on the error
output. `--python` runs them by another interpreter, whose environment has this project with its
tests. `--quick` leaves out those that start real services (Ray, MLflow, a browser).
"""

import argparse
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

from reporting.program import Figures, run_with

ROOT = Path(__file__).parents[1]
_QUICK = "attack and not slow"
_MOST_CHARS = 160


@dataclass(frozen=True, slots=True)
class Case:
    """One run of one test."""

    tried: str
    promise: str
    """What holds, as the name of the test says it."""
    trouble: str
    """Why it does not hold; empty where it does."""
    skipped: str
    """Why it was not tried here; empty where it was."""


def measure(options: argparse.Namespace) -> Figures:
    """Run the attacks and count what became of them."""
    with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
        report = Path(folder) / "report.xml"
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        chosen = ["-m", _QUICK if options.quick else "attack", *options.only]
        done = subprocess.run(
            [options.python, *words, *chosen], cwd=ROOT, stdout=sys.stderr, stderr=sys.stderr,
            check=False,
        )  # fmt: skip
        if not report.is_file():
            sys.exit(f"pytest ended with {done.returncode} and reported nothing")
        cases = list(_cases(report))
    rows = _rows(cases)
    Console(stderr=True, width=200).print(_table(rows))
    return {
        "attacks_count": len(rows),
        "cases_count": len(cases),
        "held_count": sum(_held(row) for row in rows.values()),
        "not_held_count": sum(any(case.trouble for case in row) for row in rows.values()),
        "not_tried_count": sum(all(case.skipped for case in row) for row in rows.values()),
    }


def _cases(report: Path) -> Iterator[Case]:
    for test in ElementTree.parse(report).iter("testcase"):
        tried = [
            one.get("value", "") for one in test.iter("property") if one.get("name") == "attack"
        ]
        troubles = [*test.iter("failure"), *test.iter("error")]
        told = next((one.get("message") or "it failed" for one in troubles), "")
        skipped = next((one.get("message") or "skipped" for one in test.iter("skipped")), "")
        name = test.get("name", "").partition("[")[0].removeprefix("test_").replace("_", " ")
        for one in tried:
            yield Case(one, name, told.partition("\n")[0][:_MOST_CHARS], skipped)


def _rows(cases: Sequence[Case]) -> Mapping[tuple[str, str], list[Case]]:
    rows: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        rows[case.tried, case.promise].append(case)
    return dict(sorted(rows.items(), key=lambda row: (_number(row[0][0]), row[0])))


def _number(tried: str) -> int:
    first = tried.partition(":")[0].partition(",")[0]
    return int(first) if first.isdigit() else sys.maxsize


def _held(row: Sequence[Case]) -> bool:
    return not any(case.trouble for case in row) and not all(case.skipped for case in row)


def _table(rows: Mapping[tuple[str, str], Sequence[Case]]) -> Table:
    table = Table("point", "tried", "what happened", "cases", title="attacks", title_justify="left")
    for (tried, promise), row in rows.items():
        point, _, what = tried.partition(": ")
        trouble = next((case.trouble for case in row if case.trouble), "")
        happened = f"IT DOES NOT HOLD: {trouble}" if trouble else f"it holds: {promise}"
        if not trouble and not _held(row):
            happened = f"not tried here: {row[0].skipped}"
        table.add_row(point, what, happened, str(len(row)))
    return table


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    return {
        "attacks were tried": figures["attacks_count"] > figures["not_tried_count"],
        "every attack is met": figures["not_held_count"] == 0,
    }


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--python", default=sys.executable, help="Whose tests are run.")
    parser.add_argument("only", nargs="*", help="Files of tests, for some rows alone.")


if __name__ == "__main__":
    run_with(__doc__ or "", _options, measure, holds)
