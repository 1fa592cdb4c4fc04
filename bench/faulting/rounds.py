"""One sweep under fire: struck at random instants, taken up again until it ends, and audited."""

import random
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from faulting.audit import Findings, audit, finished
from faulting.place import END_S, Place
from faulting.strikes import SIGNALS, Scene, Strike, Target, throw
from faulting.tracker import TrackerServer
from orchestrator.state import RESULT_FILE

MOST_STARTS = 40
EARLY_SHARE = 0.25
"""Of the drivers that are hit, those that are hit before their first trial runs."""


@dataclass(frozen=True, slots=True)
class Round:
    """What was thrown, and what it did."""

    strikes: tuple[Strike, ...]
    findings: Findings
    starts: int
    rebuilt: bool
    """The MLflow server was away at the end, and was told afterwards."""
    known: int
    """Measurements that were whole at some time before the end: what could be lost."""


def under_fire(
    place: Place, targets: Sequence[Target], kills: int, calm_s: float, luck: random.Random,
    tracker: TrackerServer | None = None,
) -> Round:  # fmt: skip
    """Throw so many faults at a sweep, then kill its driver once something is measured, let it
    end, and count what all that did.

    `calm_s` is the mean of the wall seconds between two faults.
    """
    strikes: list[Strike] = []
    known: dict[int, tuple[str, float]] = {}
    process = place.start()
    try:
        while len(strikes) < kills and not place.is_over and place.starts < MOST_STARTS:
            if process.poll() is not None:
                known |= finished(place)
                process = place.start()
            _bide(place, process, calm_s, luck)
            target, number = luck.choice(targets), luck.choice(SIGNALS)
            strike = throw(Scene(place, process.pid, tracker), target, number, luck)
            strikes += [strike] if strike.hit else []
            if strike.hit and target is Target.DRIVER and number != signal.SIGSTOP:
                _wait(process)
        process = _until_measured(place, process)
        if process.poll() is None:
            process.kill()
            strikes.append(Strike(Target.DRIVER, signal.SIGKILL, hit=True))
        known |= _to_the_end(place, process)
        rebuilt = tracker is not None and place.has_unsent
        if tracker is not None and rebuilt:
            tracker.wait_ready()
            place.rebuild()
        store = tracker.store_uri if tracker else ""
        found = audit(place, known, store)
    finally:
        place.clear()
    return Round(tuple(strikes), found, place.starts, rebuilt, len(known))


def _until_measured(place: Place, process: "subprocess.Popen[bytes]") -> "subprocess.Popen[bytes]":
    """Let the sweep go on until it has something to lose, however early the faults came."""
    until_s = time.monotonic() + END_S
    while not finished(place) and not place.is_over and time.monotonic() < until_s:
        if process.poll() is not None and place.starts < MOST_STARTS:
            process = place.start()
        time.sleep(0.05)
    return process


def _to_the_end(place: Place, process: "subprocess.Popen[bytes]") -> dict[int, tuple[str, float]]:
    known: dict[int, tuple[str, float]] = {}
    _wait(process)
    while not place.is_over and place.starts < MOST_STARTS:
        known |= finished(place)
        _wait(place.start())
    return known


def _bide(
    place: Place, process: "subprocess.Popen[bytes]", calm_s: float, luck: random.Random
) -> None:
    """Wait for a random time; mostly while a trial runs, as else nobody but the driver is there."""
    until_s = time.monotonic() + END_S
    if luck.random() > EARLY_SHARE:
        while not _is_busy(place) and process.poll() is None and time.monotonic() < until_s:
            time.sleep(0.02)
    until_s = time.monotonic() + luck.expovariate(1 / calm_s)
    while time.monotonic() < until_s and process.poll() is None:
        time.sleep(0.01)


def _is_busy(place: Place) -> bool:
    folders = (place.folder / "state").glob("sweeps/*/trials/*/")
    return any(not (folder / RESULT_FILE).exists() for folder in folders)


def _wait(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=END_S)
