"""A sweep without Ray on emulated servers: to its end, and cut off in the middle."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from infra.reaper import find_tagged
from orchestrator.events import SweepStart, Tally
from orchestrator.job import TrialJob, TrialProgress
from orchestrator.serial_driver import drive
from orchestrator.tools import local_tools
from orchestrator.trial_seam import Tools
from sweeps.hosts import EngineName, HostSpec
from sweeps.results import Outcome, Phase, TrialResult
from tests.orchestrator.running import sweep_run
from tests.sweeps.makers import SMALL, patient

pytestmark = pytest.mark.slow

HOST = HostSpec(engine=EngineName.EMULATED, time_scale=200.0)
SWEEP = replace(
    SMALL,
    fixed={"tp_size": 8},
    hosts=[HOST],
    workload=replace(SMALL.workload, max_tokens=256, measure_s=1e6),
    budget=patient(3),
    early_stopping=False,
)


class Interrupter:
    """Raises what Ctrl-C raises once a trial measures."""

    def sweep_started(self, start: SweepStart) -> None: ...

    def trial_started(self, job: TrialJob) -> None: ...

    def progress(self, progress: TrialProgress, tally: Tally) -> None:
        if progress.phase is Phase.MEASURING:
            raise KeyboardInterrupt

    def trial_ended(self, result: TrialResult, tally: Tally) -> None: ...

    def sweep_ended(self, status: str) -> None: ...


def test_runs_to_its_end_and_leaves_nothing(tmp_path: Path) -> None:
    run = sweep_run(SWEEP, tmp_path)
    drive(run, local_tools)
    assert run.is_over
    assert [r.outcome for r in run.results] == [Outcome.MEASURED] * 3
    assert find_tagged(run.sweep_id) == []


def test_two_hosts_work_at_the_same_time(tmp_path: Path) -> None:
    hosts = [replace(HOST, name="one"), replace(HOST, name="two")]
    run = sweep_run(replace(SWEEP, hosts=hosts, budget=patient(4)), tmp_path)
    most: list[int] = []
    made: dict[str, Tools] = {}

    def tools_for(host: HostSpec) -> Tools:
        made[host.name] = local_tools(host)
        return made[host.name]

    original = run.on_progress

    def counting(progress: TrialProgress) -> object:
        most.append(len(run.open_jobs))
        return original(progress)

    run.on_progress = counting  # type: ignore[method-assign,assignment] # to count
    drive(run, tools_for)
    assert max(most) == 2
    assert {r.host for r in run.results} == {"one", "two"}
    assert sorted(r.number for r in run.results) == [0, 1, 2, 3]


def test_an_interrupt_stops_the_servers_and_keeps_the_cut_trial(tmp_path: Path) -> None:
    endless = replace(SWEEP.workload, max_tokens=100_000, measure_s=1e6)
    run = sweep_run(replace(SWEEP, workload=endless), tmp_path, Interrupter())
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        drive(run, local_tools)
    (cut,) = run.results
    assert cut.outcome is Outcome.CANCELLED
    assert not run.is_over
    assert find_tagged(run.sweep_id) == []
    run.end("interrupted")
    assert threading.active_count() <= threads


def test_a_fault_of_our_own_ends_a_trial_and_not_the_sweep(tmp_path: Path) -> None:
    def broken_tools(host: HostSpec) -> Tools:
        return replace(local_tools(host), client=None)  # type: ignore[arg-type] # the fault

    run = sweep_run(SWEEP, tmp_path)
    drive(run, broken_tools)
    assert {r.outcome for r in run.results} == {Outcome.FAILED}
    assert "a fault of the platform" in run.results[0].reason
    assert find_tagged(run.sweep_id) == []
