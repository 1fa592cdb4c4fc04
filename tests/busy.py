"""Runs the slow tests again and again in random order on a machine that is kept busy.

`python -m tests.busy --runs 5 -- PYTEST OPTIONS` keeps one busy loop for each core beside them.
What has run is noted in a folder: a series that was interrupted goes on with the test where it
stopped, unless the sources are others by then. In the end it tells what failed how often.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".busy"
RAN_TO_THE_END = (0, 1, 5)
"""Exit codes of pytest: all passed, some failed, none was left to run."""
_LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(1_000_000))"
"""Ends by itself where whoever started it was killed."""

Outcomes = Mapping[str, bool]
"""Whether each test of a run failed."""


@dataclass(frozen=True, slots=True)
class Series:
    """What is run. Each run has the seed of its order, the series' own and its number."""

    version: str
    seed: int
    runs: int

    def seed_of(self, number: int) -> int:
        """Return the seed of a run; the first has number 1."""
        return self.seed + number


@dataclass(frozen=True, slots=True)
class Notes:
    """The folder in which a series is on record."""

    folder: Path

    def begin(self, version: str, runs: int) -> Series:
        """Return the series that is to go on; a new one where there is none of these sources."""
        found = self._read()
        if found is None or found.version != version:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            found = Series(version, random.SystemRandom().randrange(1_000_000), runs)
        series = Series(found.version, found.seed, runs)
        self._path.write_text(json.dumps(asdict(series)))
        return series

    def outcomes(self, number: int) -> Outcomes:
        """Return what is known of a run: a test that failed once in it has failed."""
        found: dict[str, bool] = {}
        for line in _lines(self.news(number)):
            try:
                said = json.loads(line)
                found[said["test"]] = found.get(said["test"], False) or said["failed"]
            except ValueError:
                continue  # cut off by the end of its writer
        return found

    def news(self, number: int) -> Path:
        """Return the file to which a run adds a line for each test that has ended."""
        return self.folder / f"run-{number}.jsonl"

    def done_before(self, number: int) -> Path:
        """Write down which tests a run does not need to repeat; it must not change under it."""
        path = self.folder / f"run-{number}.before"
        path.write_text("\n".join(self.outcomes(number)))
        return path

    def is_over(self, number: int) -> bool:
        """Tell whether all tests of a run have ended."""
        return self._over(number).exists()

    def end(self, number: int) -> None:
        """Note that all tests of a run have ended."""
        self._over(number).touch()

    def _over(self, number: int) -> Path:
        return self.folder / f"run-{number}.over"

    @property
    def _path(self) -> Path:
        return self.folder / "series.json"

    def _read(self) -> Series | None:
        try:
            return Series(**json.loads(self._path.read_text()))
        except (OSError, ValueError, TypeError):
            return None


def summary(runs: Sequence[Outcomes]) -> str:
    """Say what failed how often, most often first."""
    failed = Counter(test for run in runs for test, is_failed in run.items() if is_failed)
    count = len(runs)
    lines = [f"failed in {times} of {count} runs: {test}" for test, times in failed.most_common()]
    tests = ", ".join(str(len(run)) for run in runs)
    return "\n".join([*lines, f"{count} runs of {tests} tests: {len(failed)} tests failed"])


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@contextmanager
def busy_loops(count: int) -> Iterator[list[int]]:
    """Keep so many cores busy; yield the ids of the processes."""
    loops = [subprocess.Popen([sys.executable, "-I", "-S", "-c", _LOOP]) for _ in range(count)]
    try:
        yield [loop.pid for loop in loops]
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _run(series: Series, notes: Notes, number: int, options: Sequence[str]) -> int:
    before, seed = notes.done_before(number), series.seed_of(number)
    ended = len(_lines(before))
    _say(f"run {number} of {series.runs}: --randomly-seed={seed}, {ended} tests have ended before")
    words = [
        "-m", "slow", "-o", "addopts=--strict-markers --strict-config -ra",
        "-p", "tests.busy", f"--randomly-seed={seed}", f"--ended-before={before}",
        f"--note-ends={notes.news(number)}", *options,
    ]  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, check=False)
    return done.returncode


def _version() -> str:
    words = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is left of a series; return 0 if no test failed, 1 else, 2 if it was interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.busy", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("options", nargs="*", help="of pytest")
    asked = parser.parse_args(arguments)
    notes = Notes(asked.folder.absolute())
    series = notes.begin(_version(), asked.runs)
    numbers = range(1, series.runs + 1)
    with busy_loops(len(os.sched_getaffinity(0))):
        for number in numbers:
            if notes.is_over(number):
                continue
            code = _run(series, notes, number, asked.options)
            if code not in RAN_TO_THE_END:
                _say(f"run {number} ended with {code}; the same command goes on with it")
                return 2
            notes.end(number)
    runs = [notes.outcomes(number) for number in numbers]
    _say(summary(runs))
    return 1 if any(any(run.values()) for run in runs) else 0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say where a run notes what has ended, and where it finds what had ended before."""
    parser.addoption("--note-ends", help="add a line for each test that ends")
    parser.addoption("--ended-before", help="leave out the tests that this file names")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what had ended before."""
    path = config.getoption("--ended-before")
    before = set(_lines(Path(path))) if path else set()
    left = [item for item in items if item.nodeid not in before]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in before])
    items[:] = left


class _Ends:
    """Notes the end of each test, in the process that hears of all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
        # A test whose process died has no teardown.
        if report.failed or report.when == "teardown":
            self._note(report.nodeid)

    def _note(self, test: str) -> None:
        with self._path.open("a") as file:
            # The line before may have been cut off.
            file.write("\n" + json.dumps({"test": test, "failed": test in self._failed}))


def pytest_configure(config: pytest.Config) -> None:
    """Note ends, but not in a worker: its reports come to who started it."""
    path = config.getoption("--note-ends")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Ends(Path(path)))


if __name__ == "__main__":
    sys.exit(main())
