"""One sweep under fire: struck at random instants, taken up again until it ends, and audited."""

import random
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from faulting.audit import Findings, audit, finished
from faulting.place import END_S, Place
from faulting.strikes import Scene, Strike, Target, throw
from faulting.tracker import TrackerServer
from orchestrator.state import RESULT_FILE

MOST_STARTS = 40
MOST_MISSES = 40
"""After so many in a row, whoever should be hit is not there any more."""
EARLY_SHARE = 0.25
"""Of the drivers that are hit, those that are hit before their first trial runs."""


@dataclass(frozen=True, slots=True)
class Round:
    """What was thrown, and what it did."""

    strikes: tuple[Strike, ...]
    findings: Findings
    starts: int
    rebuilt: bool
    """The store had not been told all at the end, and was told afterwards."""
    known: int
    """Measurements that were whole at some time before the end: what could be lost."""

    def as_data(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Round":
        """Read back what `as_data` wrote."""
        strikes = [Strike(Target(one["target"]), one["how"], one["hit"]) for one in data["strikes"]]
        found = {**data["findings"], "complaints": tuple(data["findings"]["complaints"])}
        return cls(**{**data, "strikes": tuple(strikes), "findings": Findings(**found)})


def under_fire(
    place: Place, plan: Sequence[Target], calm_s: float, luck: random.Random,
    tracker: TrackerServer | None = None,
) -> Round:  # fmt: skip
    """Throw a fault at each of the targets in turn, then kill the driver once something is
    measured, let the sweep end, and count what all that did.

    `calm_s` is the mean of the wall seconds between two faults.
    """
    strikes: list[Strike] = []
    known: dict[int, tuple[str, float]] = {}
    process = place.start()
    left, misses = list(plan), 0
    try:
        while left and not place.is_over and place.starts < MOST_STARTS:
            if process.poll() is not None:
                known |= finished(place)
                process = place.start()
            _bide(place, process, calm_s, luck)
            strike = throw(Scene(place, process.pid, tracker), left[0], luck)
            misses = 0 if strike.hit else misses + 1
            strikes += [strike] if strike.hit else []
            if strike.hit or misses > MOST_MISSES:
                del left[0]
            if strike.ends_driver:
                _wait(process)
        process = _until_measured(place, process)
        if process.poll() is None:
            process.kill()
            strikes.append(Strike(Target.DRIVER, signal.SIGKILL.name, hit=True))
        known |= _to_the_end(place, process)
        rebuilt = _is_tracker_behind(place, strikes, tracker)
        if rebuilt:
            place.rebuild()
        store = tracker.store_uri if tracker else ""
        found = audit(place, known, store)
    finally:
        place.clear()
        place.release()
    return Round(tuple(strikes), found, place.starts, rebuilt, len(known))


def _is_tracker_behind(
    place: Place, strikes: Sequence[Strike], tracker: TrackerServer | None
) -> bool:
    """Tell whether the store needs `rebuild`: its server was away, its disk took nothing, or the
    driver was killed after the end of its sweep and before the store was told of that."""
    if place.has_unsent:
        if tracker is not None:
            tracker.wait_ready()
        return True
    return any(strike.target is Target.DISK for strike in strikes)


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
