"""The tracker's outage: what a sweep notices of an MLflow server that hangs for ten minutes."""

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from faulting.audit import Findings, audit, finished
from faulting.place import END_S, Place
from faulting.tracker import TrackerServer

OUTAGE_S = 600.0
"""Of the host's time."""
SCALE = 100.0
TRIALS = 8


@dataclass(frozen=True, slots=True)
class Outage:
    """Trial times with the server there and with it gone, and what was wrong afterwards."""

    calm_trial_s: float
    struck_trial_s: float
    findings: Findings


def outage(folder: Path, tracker: TrackerServer) -> Outage:
    """Run the same sweep twice, once with the outage in its middle."""
    calm = Place(folder / "calm", TRIALS, scale=SCALE, tracking_uri=tracker.uri)
    calm.start().wait(timeout=END_S)
    struck = Place(folder / "struck", TRIALS, scale=SCALE, tracking_uri=tracker.uri)
    process = struck.start()
    _wait_for_trial(struck, 2)
    with tracker.stopped():
        time.sleep(OUTAGE_S / SCALE)
    process.wait(timeout=END_S)
    found = audit(struck, finished(struck), tracker.store_uri)
    return Outage(_trial_s(calm), _trial_s(struck), found)


def _wait_for_trial(place: Place, number: int) -> None:
    until_s = time.monotonic() + END_S
    while not (place.sweep_id and place.state.next_number(place.sweep_id) > number):
        if time.monotonic() > until_s:
            raise RuntimeError(place.log_path.read_text())
        time.sleep(0.05)


def _trial_s(place: Place) -> float:
    """Return host seconds of a trial after its start, which the machine's load decides."""
    ends = place.state.ended(place.sweep_id)
    return median(
        sum(s for phase, s in end.phase_s.items() if phase not in ("starting", "stopping"))
        for end in ends
    )
