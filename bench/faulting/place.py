"""Where a sweep under fire lives: its file, its state folder, and the command that runs it."""

import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from faulting.troubles import mount_disk, set_clock, unmount_disk
from infra.reaper import find_tagged
from orchestrator.continuing import OVER
from orchestrator.state import State
from reporting.loads import LONG_ANSWER_TOKENS

ROOT = Path(__file__).parents[2]
MARK = "TUNE_FAULTS_PLACE"
"""Variable by which all that a command starts is found again, whatever became of its parents. Ray's
processes get those of a driver's variables that begin so."""
CLOCK = "TUNE_FAULTS_CLOCK"
"""Variable that names the file by which `clock.c` moves the wall clock."""
GPUS = 2

END_S = 240.0
GONE_S = 40.0
_LOOK_S = 0.05

_SPACE = """
from sweeps import *

NGRAM = {{"speculative_algorithm": "NGRAM"}}

sweep = Sweep(
    name="faults",
    model=Model("some/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 8, NGRAM),
        Choice("NCCL_PROTO", [None, "LL", "Simple"]),
    ],
    fixed={{"tp_size": {gpus}}},
    workload=Workload(max_tokens={tokens}, measured_prompts=2, most_measured_prompts=2,
                      cold_prompts=1, probe_s=0,
                      warming_passes=0, measure_s=1e6, ignore_eos=True),
    # Nothing in this space fails or hangs by itself, however busy the machine is.
    budget=Budget(trials={trials}, trial_s=1e7, start_s=1e7, phase_s=1e7),
    hosts=[HostSpec(time_scale={scale:g}, gpus={gpus})],
    early_stopping=False,
    sampler="{sampler}",
)
"""


@dataclass(slots=True)
class Place:
    """A folder for one sweep, which is begun and taken up again there until it has ended."""

    folder: Path
    trials: int
    driver: str = "serial"
    scale: float = 2000.0
    tracking_uri: str = ""
    sampler: str = "factorised"
    """`random` makes all its trials; the default search may be sure of its answer after three."""
    starts: int = 0
    clock: Path | None = None
    """The library that moves the wall clock, where there is one."""
    own_disk: bool = False
    """Whether the state folder asks for a disk of its own; afterwards, whether it has one."""
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        space = _SPACE.format(
            trials=self.trials, scale=self.scale, tokens=LONG_ANSWER_TOKENS, sampler=self.sampler,
            gpus=GPUS,
        )  # fmt: skip
        (self.folder / "faults.py").write_text(space)
        self.world.write_text("")
        set_clock(self.clock_file, 0)
        if self.own_disk:
            self.state.root.mkdir(exist_ok=True)
            self.own_disk = mount_disk(self.state.root)

    @property
    def world(self) -> Path:
        """Return the scenario of its host, which may change at any time."""
        return self.folder / "world.toml"

    @property
    def clock_file(self) -> Path:
        """Return what says by how much its wall clock is moved."""
        return self.folder / "clock"

    @property
    def state(self) -> State:
        """Return the state folder."""
        return State(self.folder / "state")

    @property
    def sweep_id(self) -> str:
        """Return the one sweep; empty where it has not begun."""
        return next(iter(self.state.sweep_ids()), "")

    @property
    def is_over(self) -> bool:
        """Tell whether the sweep has ended by itself."""
        return self.state.card(self.sweep_id).get("status") in OVER

    @property
    def log_path(self) -> Path:
        """Return what all commands printed."""
        return self.folder / "output.log"

    def start(self) -> "subprocess.Popen[bytes]":
        """Run the command that a user types; the second time it takes the sweep up."""
        words = ["--resume"] if self.sweep_id else []
        argv = [
            sys.executable, "-m", "orchestrator", "sweep", "faults.py", "--state-dir", "state",
            "--driver", self.driver, "--engine", "emulated", "--scenario", self.world.name, *words,
        ]  # fmt: skip
        self.starts += 1
        with self.log_path.open("ab") as log:
            return subprocess.Popen(
                argv, cwd=self.folder, env=self._env(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    @property
    def has_unsent(self) -> bool:
        """Tell whether the tracker was not told all of the sweep."""
        return self.state.outbox_path(self.sweep_id).exists()

    def rebuild(self) -> None:
        """Run the command that a user types after that."""
        words = ["rebuild", "--state-dir", "state"]
        subprocess.run(
            [sys.executable, "-m", "orchestrator", *words],
            cwd=self.folder, env=self._env(), check=True, timeout=END_S, capture_output=True,
        )  # fmt: skip

    def _env(self) -> dict[str, str]:
        env = {**os.environ, MARK: self.mark, "PYTHONPATH": str(ROOT)}
        if self.clock is not None:
            env |= {"LD_PRELOAD": str(self.clock), CLOCK: str(self.clock_file)}
        env.pop("MLFLOW_TRACKING_URI", None)
        return {**env, "MLFLOW_TRACKING_URI": self.tracking_uri} if self.tracking_uri else env

    def ours(self) -> list[psutil.Process]:
        """Return the live processes that the commands of this place started, but no servers."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and is_alive(process):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def left(self) -> set[int]:
        """Return the processes that are left after the time that they are given to go."""
        until_s = time.monotonic() + GONE_S
        while (found := self._all()) and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        return found

    def _all(self) -> set[int]:
        servers = {one.pid for one in find_tagged(self.sweep_id)} if self.sweep_id else set()
        return servers | {one.pid for one in self.ours()}

    def clear(self) -> None:
        """Kill whatever is left, so that one sweep does not spoil the next."""
        for pid in self._all():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def release(self) -> None:
        """Take its disk away, if it has one, with what lies there."""
        if self.own_disk:
            unmount_disk(self.state.root)


def is_alive(process: psutil.Process) -> bool:
    """Tell whether a process runs; one that only waits to be collected does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
