"""What a state folder holds of one trial, gathered so that it can be explained."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.cards import hours_unit_in
from orchestrator.files import read_json
from orchestrator.goals import answer_in
from orchestrator.job import OUTPUTS_FILE
from orchestrator.spool import read_spool
from orchestrator.state import State
from sweeps.evidence import Evidence, RequestEnd
from sweeps.problems import BadInputError, Problem, nearest
from sweeps.quality import Outputs, QualityReport, judge
from sweeps.results import TrialResult

BEST = "best"
"""Stands for the trial that a sweep recommends."""

_LIST = "`orchestrator trials` lists them."


def find_trial(state: State, trial: str, sweep_ids: Sequence[str]) -> TrialResult | None:
    """Find a trial in some sweeps by its id, by its number, or as the best of the last of them.

    None where a sweep has no best trial. Raises BadInputError, with the nearest id.
    """
    results = [result for sweep_id in sweep_ids for result in state.ended(sweep_id)]
    if trial == BEST:
        return _best(state, sweep_ids[-1], state.results(sweep_ids[-1]))
    number = int(trial) if trial.isdecimal() else None
    for result in results:
        if result.trial == trial or result.number == number:
            return result
    for sweep_id in sweep_ids:
        if _is_open(state, sweep_id, trial, number):
            why = "it left no result: it still runs, or it was killed"
            raise _no_trial(trial, why, "Wait for its end, or read its server.log.")
    numbers = ", ".join(str(result.number) for result in results)
    if number is not None:
        mend = f"{sweep_ids[-1]} has {numbers}." if numbers else _LIST
        raise _no_trial(trial, "there is no trial of this number", mend)
    mend = nearest(trial, [BEST, *(result.trial for result in results)]) or _LIST
    raise _no_trial(trial, "there is no such trial", mend)


def evidence_of(state: State, result: TrialResult) -> Evidence:
    """Gather what is known of a trial that has ended; what is not on disk is left out."""
    card = state.card(result.sweep)
    workload = card.get("workload")
    load = workload if isinstance(workload, Mapping) else {}
    folder = state.trial_folder(result.sweep, result.number)
    results = state.results(result.sweep)
    plan = read_json(folder / "plan.json") or {}
    renamed = plan.get("renamed")
    return Evidence(
        result=result,
        results=results,
        requests=read_requests(folder / "spool.jsonl"),
        prompts=_count(load.get("measured_prompts")),
        streams=_count(load.get("concurrency")),
        renamed=renamed if isinstance(renamed, Mapping) else {},
        quality=quality_of(state, result, results),
        answer=answer_in(card, results),
        hours_unit=hours_unit_in(card),
    )


def quality_of(
    state: State, result: TrialResult, results: Sequence[TrialResult]
) -> QualityReport | None:
    """Compare what a variant wrote with the first plain decode of its host; None without files."""
    reference = next((r for r in results if r.config.is_plain and r.host == result.host), None)
    if result.config.is_plain or reference is None:
        return None
    mine, plain = (_outputs(state, r) for r in (result, reference))
    return judge(mine, plain) if mine is not None and plain is not None else None


def read_requests(spool_path: Path) -> tuple[RequestEnd, ...]:
    """Read how the requests of a trial ended, as far as its spool is whole."""
    return read_spool(spool_path).requests()


def _best(state: State, sweep_id: str, results: Sequence[TrialResult]) -> TrialResult | None:
    answer = answer_in(state.card(sweep_id), results)
    return None if answer is None else next(r for r in results if r.trial == answer.trial)


def _is_open(state: State, sweep_id: str, trial: str, number: int | None) -> bool:
    if number is None:
        start, _, end = trial.rpartition("-")
        number = int(end) if start == sweep_id and end.isdecimal() else None
    return number is not None and state.trial_folder(sweep_id, number).is_dir()


def _outputs(state: State, result: TrialResult) -> Outputs | None:
    data = read_json(state.trial_folder(result.sweep, result.number) / OUTPUTS_FILE)
    return None if data is None else Outputs.from_data(data)


def _count(value: object) -> int | None:
    return value if type(value) is int else None


def _no_trial(trial: str, why: str, mend: str) -> BadInputError:
    return BadInputError("The command line", [Problem("TRIAL", trial, why, mend)])
