"""Closes the trials that a killed driver left open, with what they had measured until then."""

from itertools import pairwise
from pathlib import Path

from orchestrator.files import read_result, write_json
from orchestrator.spool import SpoolReading, read_spool
from orchestrator.state import RESULT_FILE, SPOOL_FILE, State
from orchestrator.sweep_run import SweepRun
from orchestrator.trial_records import lost_result
from sweeps.hosts import billed_hours
from sweeps.results import Estimate, Outcome, Phase, TrialResult

REASON = "its driver was killed"
STOPPED = "the sweep was interrupted"
_METHOD = "the rate so far, when it was cut off"


def close_interrupted(state: State, sweep_id: str) -> list[TrialResult]:
    """Write a result for each trial that began and left none; nothing of the sweep runs."""
    closed = []
    for folder in state.unended(sweep_id):
        result = interrupted_result(state, sweep_id, folder)
        if result is not None:
            write_json(folder / RESULT_FILE, result.as_data())
            closed.append(result)
    return closed


def close_open(run: SweepRun, state: State) -> None:
    """Tell a sweep the end of the trials that its driver left open, as their folders have it."""
    for job in run.open_jobs:
        result = read_result(job.result_path)
        if result is None:
            known = interrupted_result(state, job.sweep_id, job.folder, STOPPED)
            result = known or lost_result(job, STOPPED, Outcome.CANCELLED)
            write_json(job.result_path, result.as_data())
        run.on_result(result)


def interrupted_result(
    state: State, sweep_id: str, folder: Path, reason: str = REASON
) -> TrialResult | None:
    """Return the end of a trial that was cut off; None where not even its begin was written."""
    reading = read_spool(folder / SPOOL_FILE)
    trial = reading.trial
    if trial is None:
        return None
    phases = reading.phases()
    elapsed_s = max([0.0, *(at_s for _, at_s in phases), *(s.elapsed_s for s in reading.samples())])
    return TrialResult(
        trial=trial.trial, sweep=sweep_id, number=trial.number, config=trial.config,
        outcome=Outcome.CANCELLED, reason=reason, phase=_last_phase(phases),
        emulated=trial.emulated, host=trial.host, engine_version="",
        gpu_hours=billed_hours(_gpus(state, sweep_id, trial.host), elapsed_s), started_at="",
        purpose=trial.purpose, why=trial.why,
        retry_of=trial.retry_of, phase_s=_phase_s(phases, elapsed_s),
        estimates=_estimates(reading, phases),
    )  # fmt: skip


def _last_phase(phases: tuple[tuple[str, float], ...]) -> Phase:
    return Phase(phases[-1][0]) if phases else Phase.ADMITTED


def _phase_s(phases: tuple[tuple[str, float], ...], elapsed_s: float) -> dict[str, float]:
    spent: dict[str, float] = {}
    begun = [(Phase.ADMITTED.value, 0.0), *phases, ("", elapsed_s)]
    for (name, from_s), (_, to_s) in pairwise(begun):
        spent[name] = spent.get(name, 0.0) + round(max(0.0, to_s - from_s), 3)
    return spent


def _estimates(reading: SpoolReading, phases: tuple[tuple[str, float], ...]) -> dict[str, Estimate]:
    """Return the last rate that was told; it is never ranked, as its trial did not end."""
    samples = [sample for sample in reading.samples() if sample.tok_s is not None]
    if not samples:
        return {}
    last = samples[-1]
    began_s = next((at_s for name, at_s in phases if name == Phase.MEASURING.value), 0.0)
    lasted_s = max(0.0, last.elapsed_s - began_s)
    found = {"decode_tok_s": (last.tok_s, last.low, last.high),
             "accept_length": (last.accept_length, None, None)}  # fmt: skip
    return {
        name: Estimate(value, low, high, lasted_s, _METHOD, provisional=True)
        for name, (value, low, high) in found.items()
        if value is not None
    }


def _gpus(state: State, sweep_id: str, host_name: str) -> int:
    """Return how many GPUs the host of a trial has, as the sweep's card says."""
    hosts = state.card(sweep_id).get("hosts")
    for host in hosts if isinstance(hosts, list) else []:
        if isinstance(host, dict) and host.get("name") == host_name:
            return int(host.get("gpus", 0))
    return 0
