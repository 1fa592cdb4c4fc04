"""Power cuts: what the disk holds at one instant is taken up again."""

import random
import shutil
import signal
import time
from pathlib import Path

from faulting.audit import Findings, audit, finished
from faulting.place import END_S, Place
from orchestrator.spool import read_spool

PAUSE_S = 0.5
"""Mean wall seconds between two instants."""
TORN_SHARE = 0.5
"""Of the copies, those in which the spool of a running trial ends in the middle of a line."""


def power_cuts(place: Place, copies: int, luck: random.Random) -> Findings:
    """Copy the state folder of a running sweep at random instants; each copy must come to its end.

    The driver stands still while it is copied, so that a copy is of one instant, as the disk is
    when the power goes; what was never synced may lack its end.
    """
    taken = _taken(place, copies, luck)
    found = Findings()
    try:
        for copy in taken:
            _lay_back(place, copy, luck)
            known = finished(place)
            for _ in range(3):
                if not place.is_over:
                    place.start().wait(timeout=END_S)
            found += audit(place, known)
    finally:
        place.clear()
    return found


def _taken(place: Place, copies: int, luck: random.Random) -> list[Path]:
    taken: list[Path] = []
    process = place.start()
    state = place.folder / "state"
    while process.poll() is None and len(taken) < copies:
        time.sleep(luck.expovariate(1 / PAUSE_S))
        if not place.sweep_id:
            continue
        target = place.folder / f"copy-{len(taken)}"
        process.send_signal(signal.SIGSTOP)
        try:
            shutil.copytree(state, target, symlinks=True, ignore_dangling_symlinks=True)
        finally:
            process.send_signal(signal.SIGCONT)
        taken.append(target)
    process.wait(timeout=END_S)
    return taken


def _lay_back(place: Place, copy: Path, luck: random.Random) -> None:
    """Put a copy where it came from: MLflow's store names its files by their whole path."""
    state = place.folder / "state"
    shutil.rmtree(state)
    copy.rename(state)
    for spool in state.glob("sweeps/*/trials/*/spool.jsonl"):
        if read_spool(spool).result is None and luck.random() < TORN_SHARE:
            content = spool.read_bytes()
            last = content.rstrip(b"\n").rfind(b"\n") + 1
            spool.write_bytes(content[: luck.randint(last, len(content))])
