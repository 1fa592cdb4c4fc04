"""Times all-reduces on this machine, one setting a program, each with a deadline."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from infra.clock import Clock, host_s
from infra.engines import ENGINES, INHERITED, place_variables
from infra.host import Command, Host, Premises, Process
from sweeps.config import Config
from sweeps.hosts import HostSpec
from sweeps.launch import Deadlines
from sweeps.screening import Reduction, Screened
from sweeps.values import Value

ROUNDS = 40
LEAST_WALL_S = 20.0
"""Where a host is emulated faster than life, a program takes its time to start all the same."""
_LOOK_WALL_S = 0.05
_LAST_LINES = 60
_RANKS = Path(__file__).with_name("ranks.py")


@dataclass(frozen=True, slots=True)
class AllReduceProbe:
    """Runs the program of a host under a guard. One thread uses it."""

    spec: HostSpec
    host: Host
    premises: Premises
    clock: Clock
    folder: Path
    sweep: str
    """The tag of its programs: whatever is left of them is found by it."""
    deadline_s: float
    """Host seconds for one setting, in which a hang is recognised."""

    def measure(
        self, number: int, setting: Config, settings: Mapping[str, Value], sizes: Sequence[int]
    ) -> Screened:
        """Time one setting; `settings` are all that a server would get. Raises HostError."""
        trial = f"s{number:03d}"
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.premises.reserve(self.sweep, trial, self.folder) as reserved:
            command = self._command(settings, sizes, trial, reserved.temp_folder)
            process = self.host.start(command)
            try:
                trouble = self._wait(process)
            finally:
                process.stop(0.0)
        reductions = () if trouble else _read(command.log_path)
        if not trouble and len(reductions) < len(sizes):
            trouble = "failed: it printed fewer sizes than it was asked for"
        return Screened(setting, reductions, trouble)

    def _command(
        self, settings: Mapping[str, Value], sizes: Sequence[int], trial: str, temp: Path
    ) -> Command:
        plan = ENGINES[self.spec.engine].plan(settings, self.spec, 1, Deadlines(), start=0)
        argv = _emulated_argv(plan.argv, sizes) if self.spec.emulated else self._argv(sizes)
        return Command(
            argv=argv,
            env={**place_variables(temp), **dict(plan.env)},
            inherit=INHERITED,
            log_path=self.folder / f"{trial}.log",
            cwd=None,
            sweep=self.sweep,
            trial=trial,
            grace_s=0.5,
        )

    def _argv(self, sizes: Sequence[int]) -> tuple[str, ...]:
        python = self.spec.python or sys.executable
        ranks = str(max(2, self.spec.gpus))
        return (python, str(_RANKS), ranks, str(ROUNDS), *map(str, sizes))

    def _wait(self, process: Process) -> str:
        """Return why there are no times; empty where the program ended well."""
        limit_s = max(self.deadline_s, host_s(self.clock, LEAST_WALL_S))
        until_s = self.clock.now_s() + limit_s
        while (code := process.poll()) is None:
            if self.clock.now_s() > until_s:
                return f"hung: no answer in {self.deadline_s:g} s"
            self.clock.sleep_s(host_s(self.clock, _LOOK_WALL_S))
        if code == 0:
            return ""
        lines = [line for line in process.log_tail(_LAST_LINES) if line.strip()]
        told = next((line for line in reversed(lines) if "rror" in line), "")
        return f"failed with {code}: {(told or (lines or ['it wrote nothing'])[-1]).strip()}"


def _emulated_argv(argv: Sequence[str], sizes: Sequence[int]) -> tuple[str, ...]:
    program = (*argv[:2], "infra.emulated.all_reduce", str(ROUNDS), ",".join(map(str, sizes)))
    return (*program, "--", *argv[3:])


def _read(log_path: Path) -> tuple[Reduction, ...]:
    found = []
    for line in log_path.read_text(errors="replace").splitlines():
        if line.startswith('{"size_bytes"'):
            data = json.loads(line)
            low, median, high = quantiles(data["times_us"], n=4)
            found.append(Reduction(data["size_bytes"], median, low, high, len(data["times_us"])))
    return tuple(found)
