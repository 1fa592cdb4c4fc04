"""What is thrown at a sweep: a signal for one of the processes that it consists of."""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import psutil

from faulting.place import Place
from faulting.tracker import TrackerServer
from infra.reaper import GUARD_TAG, by_trial

LEAST_STOP_S, MOST_STOP_S = 0.1, 2.0
ACTOR = "ray::ResourceTrainable"
"""What Ray calls the process of a trial: Tune wraps ours in a class that says what it needs."""


class Target(StrEnum):
    """Who is hit."""

    DRIVER = "driver"
    ACTOR = "trial actor"
    GUARD = "guard"
    SERVER = "server"
    TRACKER = "MLflow server"
    HEAD = "Ray head"


SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault that was thrown, and whether anybody was there to be hit."""

    target: Target
    signal: signal.Signals
    hit: bool


@dataclass(frozen=True, slots=True)
class Scene:
    """A sweep that runs, with all who may be hit."""

    place: Place
    driver_pid: int
    tracker: TrackerServer | None


def throw(scene: Scene, target: Target, number: signal.Signals, luck: random.Random) -> Strike:
    """Send one signal; a stopped process goes on after a while."""
    pids = _FIND[target](scene)
    if not pids:
        return Strike(target, number, hit=False)
    pid = luck.choice(pids)
    hit = _send(pid, number)
    if hit and number == signal.SIGSTOP:
        time.sleep(luck.uniform(LEAST_STOP_S, MOST_STOP_S))
        _send(pid, signal.SIGCONT)
    if hit and target is Target.TRACKER and scene.tracker is not None:
        scene.tracker.come_back(number)
    return Strike(target, number, hit)


def _send(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _driver(scene: Scene) -> Sequence[int]:
    return [scene.driver_pid]


def _tagged(scene: Scene) -> list[psutil.Process]:
    sweep_id = scene.place.sweep_id
    return [one for (sweep, _), group in by_trial().items() if sweep == sweep_id for one in group]


def _servers(scene: Scene) -> Sequence[int]:
    return [one.pid for one in _tagged(scene) if not _is_guard(one)]


def _guards(scene: Scene) -> Sequence[int]:
    return [one.pid for one in _tagged(scene) if _is_guard(one)]


def _is_guard(process: psutil.Process) -> bool:
    try:
        return GUARD_TAG in process.environ()
    except psutil.Error:
        return False


def _named(scene: Scene, words: Sequence[str]) -> Sequence[int]:
    found = []
    for process in scene.place.ours():
        try:
            told = f"{process.name()} {' '.join(process.cmdline())}"
        except psutil.Error:
            continue
        if any(word in told for word in words):
            found.append(process.pid)
    return found


_FIND: dict[Target, Callable[[Scene], Sequence[int]]] = {
    Target.DRIVER: _driver,
    Target.ACTOR: lambda scene: _named(scene, [ACTOR]),
    Target.GUARD: _guards,
    Target.SERVER: _servers,
    Target.TRACKER: lambda scene: [scene.tracker.pid] if scene.tracker else [],
    Target.HEAD: lambda scene: _named(scene, ["gcs_server", "raylet/raylet"]),
}
