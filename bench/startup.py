"""How long the commands that start nothing take to answer, beside an empty Python program.

Each round runs all of them once, one after the other, so that a busy machine slows all alike. Times
are medians over the rounds, ratios are medians of each round's ratio to `python -c pass`. Bytecode
is cached, in a folder of this run's own; `..._first_s` is a run that found such a folder empty and
had to compile everything, Python's own library included, as happens once after an installation.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from reporting.program import Figures, run, spread

ROOT = Path(__file__).parents[1]
SPACE = "search_spaces/ngram.py"
ROUNDS, QUICK_ROUNDS = 21, 3
DEADLINE_S = 60.0
MOST_CHECK_TO_HELP = 5.0

COMMANDS = {
    "nothing": ("-c", "pass"),
    "help": ("-m", "orchestrator", "--help"),
    "check": ("-m", "orchestrator", "check", SPACE),
    "plan": ("-m", "orchestrator", "plan", SPACE),
}


def measure(quick: bool) -> Figures:
    """Return the seconds of each command, and its ratio to an empty program."""
    first: dict[str, float] = {}
    for name, words in COMMANDS.items():
        with _bytecode_cache() as env:
            first[name] = _answer_s(words, env)
    with _bytecode_cache() as env:
        _round(env)
        rounds = [_round(env) for _ in range(QUICK_ROUNDS if quick else ROUNDS)]
    figures: dict[str, float] = {"rounds_count": len(rounds)}
    for name in COMMANDS:
        figures |= spread(name, "s", [one[name] for one in rounds])
        figures[f"{name}_first_s"] = first[name]
        figures[f"{name}_ratio"] = median(one[name] / one["nothing"] for one in rounds)
    return figures


@contextmanager
def _bytecode_cache() -> Iterator[Mapping[str, str]]:
    """Yield an environment in which Python caches bytecode in a folder that is empty at first."""
    inherited = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        yield {**inherited, "PYTHONPYCACHEPREFIX": folder}


def _round(env: Mapping[str, str]) -> dict[str, float]:
    return {name: _answer_s(words, env) for name, words in COMMANDS.items()}


def _answer_s(words: tuple[str, ...], env: Mapping[str, str]) -> float:
    began_s = time.perf_counter()
    # Its output is read to the end: waiting for an exit with a deadline polls every 50 ms.
    subprocess.run(
        [sys.executable, *words],
        cwd=ROOT, env=env, capture_output=True, check=True, timeout=DEADLINE_S,
    )  # fmt: skip
    return time.perf_counter() - began_s


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    ratio = figures["check_s"] / figures["help_s"]
    return {"`check` answers nearly as fast as `--help`": ratio < MOST_CHECK_TO_HELP}


if __name__ == "__main__":
    run(__doc__ or "", measure, holds)
