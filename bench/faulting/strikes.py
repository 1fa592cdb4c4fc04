"""What is thrown at a sweep: a signal for one of its processes, or a trouble of its host."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import psutil

from faulting.place import GPUS, Place
from faulting.tracker import TrackerServer
from faulting.troubles import STEP_S, answer_garbage, fill_disk, set_clock, take_gpu
from infra.reaper import GUARD_TAG, by_trial

LEAST_STOP_S, MOST_STOP_S = 0.1, 2.0
ACTOR = ("ray::ResourceTrainable", "ray::ServerTrial")
"""What Ray calls the process of a trial: while it works, by the class in which Tune wraps ours to
say what it needs, and between two calls by ours."""


class Target(StrEnum):
    """Who or what is hit."""

    DRIVER = "driver"
    ACTOR = "trial actor"
    GUARD = "guard"
    SERVER = "server"
    TRACKER = "MLflow server"
    HEAD = "Ray head"
    CLOCK = "wall clock"
    DISK = "disk"
    ANSWERS = "answers of servers"
    GPU = "memory of a GPU"


TROUBLES = (Target.CLOCK, Target.DISK, Target.ANSWERS, Target.GPU)
"""What is no process."""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
TROUBLE = "trouble"


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault that was thrown: a signal by its name, or a trouble; and whether it hit."""

    target: Target
    how: str
    hit: bool

    @property
    def ends_driver(self) -> bool:
        """Tell whether the driver is gone after it."""
        return self.hit and self.target is Target.DRIVER and self.how != signal.SIGSTOP.name


@dataclass(frozen=True, slots=True)
class Scene:
    """A sweep that runs, with all who may be hit."""

    place: Place
    driver_pid: int
    tracker: TrackerServer | None


def throw(scene: Scene, target: Target, luck: random.Random) -> Strike:
    """Throw one fault; a stopped process goes on after a while, and a trouble goes by."""
    if target in TROUBLES:
        return Strike(target, TROUBLE, _trouble(scene.place, target, luck))
    number = luck.choice(SIGNALS)
    pids = _FIND[target](scene)
    hit = bool(pids) and _send(luck.choice(pids), number, luck)
    if hit and target is Target.TRACKER and scene.tracker is not None:
        scene.tracker.come_back(number)
    return Strike(target, number.name, hit)


def _trouble(place: Place, target: Target, luck: random.Random) -> bool:
    match target:
        case Target.CLOCK if place.clock is not None:
            set_clock(place.clock_file, luck.randint(-STEP_S, STEP_S))
            return True
        case Target.DISK if place.own_disk:
            return fill_disk(place.state.root, luck)
        case Target.ANSWERS:
            return answer_garbage(place.world, luck)
        case Target.GPU:
            hosts = [path for path in place.state.root.glob("hosts/*/") if path.is_dir()]
            return bool(hosts) and take_gpu(luck.choice(hosts), GPUS, luck)
        case _:
            return False


def _send(pid: int, number: signal.Signals, luck: random.Random) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    if number == signal.SIGSTOP:
        time.sleep(luck.uniform(LEAST_STOP_S, MOST_STOP_S))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
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
    Target.ACTOR: lambda scene: _named(scene, ACTOR),
    Target.GUARD: _guards,
    Target.SERVER: _servers,
    Target.TRACKER: lambda scene: [scene.tracker.pid] if scene.tracker else [],
    Target.HEAD: lambda scene: _named(scene, ["gcs_server", "raylet/raylet"]),
}
