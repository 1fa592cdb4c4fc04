"""Drives a sweep without Ray: one trial a host at a time, in threads of this process."""

import logging
from collections.abc import Callable

from orchestrator.job import StopKind, StopOrder, TrialJob
from orchestrator.signals import Interrupts
from orchestrator.sweep_run import SweepRun
from orchestrator.trial_records import lost_result
from orchestrator.trial_seam import Tools
from orchestrator.trial_thread import TrialThread
from sweeps.hosts import HostSpec
from sweeps.results import TrialResult

logger = logging.getLogger(__name__)

SLICE_S = 0.1
"""Wall seconds that the loop waits for news before it looks at the other hosts."""

STOP_WAIT_S = 30.0
"""Wall seconds for trials to stop their servers after an interrupt; guards do it after that."""


def drive(
    run: SweepRun, tools_for: Callable[[HostSpec], Tools], interrupts: Interrupts | None = None
) -> None:
    """Run a sweep to its end. KeyboardInterrupt stops the servers and comes out again.

    One that `interrupts` hears comes out between two turns, where it can leave nothing half done.
    """
    running: dict[str, TrialThread] = {}
    tools = {host.name: tools_for(host) for host in run.sweep.hosts}
    run.settle()
    with (interrupts or Interrupts(lambda: None)).held() as asked:
        try:
            while not run.is_over and not asked:
                _turn(run, running, tools)
        finally:
            _stop_all(run, running)


def _turn(run: SweepRun, running: dict[str, TrialThread], tools: dict[str, Tools]) -> None:
    _hand_out(run, running, tools)
    for host_name, thread in list(running.items()):
        _follow(run, thread)
        if thread.done:
            del running[host_name]
            run.on_result(result_of(thread))


def result_of(thread: TrialThread) -> TrialResult:
    """Return the result of a trial that has ended; an escaped error becomes a failure."""
    try:
        return thread.result()
    except Exception as error:  # the one guard of the loop
        logger.exception("trial %s failed by a fault of ours", thread.job.trial)
        return lost_result(thread.job, f"a fault of the platform: {error!r}")


def _hand_out(run: SweepRun, running: dict[str, TrialThread], tools: dict[str, Tools]) -> None:
    for host in run.sweep.hosts:
        if host.name in running:
            continue
        job = run.next_job(host)
        if job is not None:
            running[host.name] = _started(job, tools[host.name])


def _started(job: TrialJob, tools: Tools) -> TrialThread:
    thread = TrialThread(job, tools)
    thread.start()
    return thread


def _follow(run: SweepRun, thread: TrialThread) -> None:
    for progress in thread.wait(SLICE_S):
        order = run.on_progress(progress)
        if order is not None:
            thread.stop(order, wall_s=0)


def _stop_all(run: SweepRun, running: dict[str, TrialThread]) -> None:
    order = StopOrder(StopKind.INTERRUPT, "the sweep was interrupted")
    for thread in running.values():
        thread.stop(order, wall_s=0)
    for thread in running.values():
        if thread.stop(order, wall_s=STOP_WAIT_S):
            run.on_result(result_of(thread))
