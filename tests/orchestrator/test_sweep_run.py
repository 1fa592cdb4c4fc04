"""What a sweep tries, takes and stops, driven without servers on a real study."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.events import SweepStart, Tally
from orchestrator.job import Purpose, StopKind, TrialJob, TrialProgress
from orchestrator.search.study import StudySearch
from orchestrator.state import State
from orchestrator.sweep_run import Attendants, SweepRun
from orchestrator.tracking.jsonl import JsonlTracker
from sweeps.config import Config
from sweeps.results import Outcome, Phase, TrialResult
from sweeps.sweep import Budget, Sweep
from tests.orchestrator.search.ready import study_file
from tests.sweeps.makers import SMALL, result

Rate = Callable[[Config], float | None]


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.tallies: list[Tally] = []

    def sweep_started(self, start: SweepStart) -> None:
        self.told.append("sweep")

    def trial_started(self, job: TrialJob) -> None:
        self.told.append(f"start {job.number}")

    def progress(self, progress: TrialProgress, tally: Tally) -> None:
        self.told.append("progress")

    def trial_ended(self, result: TrialResult, tally: Tally) -> None:
        self.told.append(f"end {result.number}")
        self.tallies.append(tally)

    def sweep_ended(self, status: str) -> None:
        self.told.append(status)


def _search(folder: Path, sweep: Sweep = SMALL) -> StudySearch:
    return StudySearch(sweep, study_file(folder), "s")


def _run(
    folder: Path,
    sweep: Sweep = SMALL,
    listener: Listener | None = None,
    search: StudySearch | None = None,
) -> SweepRun:
    attendants = Attendants(JsonlTracker(folder / "events.jsonl"), [listener or Listener()])
    return SweepRun("s", sweep, State(folder), search or _search(folder, sweep), attendants)


def _job(run: SweepRun) -> TrialJob:
    job = run.next_job(run.sweep.hosts[0])
    assert job is not None
    return job


def _end(run: SweepRun, job: TrialJob, rate: float | None,
         outcome: Outcome = Outcome.MEASURED) -> None:  # fmt: skip
    made = result(job.number, job.config, rate, outcome=outcome, purpose=job.purpose.value)
    run.on_result(replace(made, trial=job.trial))


def _drive(run: SweepRun, rate: Rate) -> list[TrialJob]:
    jobs = []
    while not run.is_over:
        jobs.append(_job(run))
        _end(run, jobs[-1], rate(jobs[-1].config))
    return jobs


def _rate(config: Config) -> float:
    return 100.0 + 10 * (config.get("speculative_num_draft_tokens") == 3)


def test_a_sweep_starts_plain_and_closes_with_leader_and_plain(tmp_path: Path) -> None:
    jobs = _drive(_run(tmp_path), _rate)
    assert len(jobs) == SMALL.budget.trials
    assert [job.number for job in jobs] == list(range(len(jobs)))
    assert jobs[0].purpose is Purpose.BASELINE
    assert jobs[0].config.is_plain
    confirm, again = jobs[-2:]
    assert confirm.purpose is Purpose.CONFIRM
    assert _rate(confirm.config) == max(_rate(job.config) for job in jobs)
    assert again.purpose is Purpose.BASELINE
    assert again.config.is_plain


def test_faults_cost_no_trials_but_end_a_sweep_that_knows_nothing_else(tmp_path: Path) -> None:
    run = _run(tmp_path)
    count = 0
    while not run.is_over:
        _end(run, _job(run), None, Outcome.FAILED)
        count += 1
    assert count == 3  # the baseline, and twice more
    assert "the baseline cannot run after three tries" in str(run.health.trouble)


def test_a_fault_is_tried_again_even_where_the_space_is_used_up(tmp_path: Path) -> None:
    sweep = replace(SMALL, axes=[SMALL.axes[0], SMALL.axes[3]], rules=(), budget=Budget(trials=20))
    run = _run(tmp_path, sweep)
    jobs = [_job(run) for _ in range(4)]
    assert run.next_job(sweep.hosts[0]) is None
    for job in jobs[1:]:
        _end(run, job, 50.0)
    _end(run, jobs[0], None, Outcome.FAILED)
    again = _job(run)
    assert again.config == jobs[0].config
    _end(run, again, 50.0)
    assert run.next_job(sweep.hosts[0]) is None
    assert run.is_over


def test_the_budget_of_gpu_hours_ends_a_sweep(tmp_path: Path) -> None:
    sweep = replace(SMALL, budget=Budget(trials=50, gpu_hours=1.4))
    jobs = _drive(_run(tmp_path, sweep), _rate)
    assert len(jobs) == 3


def test_followers_hear_everything_in_order(tmp_path: Path) -> None:
    listener = Listener()
    run = _run(tmp_path, replace(SMALL, budget=Budget(trials=2)), listener)
    run.start()
    _drive(run, _rate)
    run.end("finished")
    assert listener.told == [
        "sweep", "start 0", "end 0", "start 1", "end 1", "finished",
    ]  # fmt: skip
    assert [tally.trials_done for tally in listener.tallies] == [1, 2]
    assert listener.tallies[-1].gpu_hours == 1.0


def _progress(job: TrialJob, *blocks: float, phase: Phase = Phase.MEASURING) -> TrialProgress:
    return TrialProgress(job.trial, phase, 10.0, blocks=blocks)


def test_a_surely_worse_trial_is_stopped_and_a_close_one_is_not(tmp_path: Path) -> None:
    run = _run(tmp_path)
    _end(run, _job(run), 100.0)
    job = _job(run)
    assert run.on_progress(_progress(job, *[95.0] * 8)) is None
    order = run.on_progress(_progress(job, *[30.0] * 8))
    assert order is not None
    assert order.kind is StopKind.BOUND
    assert order.bound is not None
    assert 30 < order.bound < 99
    assert run.on_progress(_progress(job, *[30.0] * 2)) is None
    assert run.on_progress(_progress(job, *[30.0] * 8, phase=Phase.COLD)) is None


@pytest.mark.parametrize("sweep", [replace(SMALL, early_stopping=False)])
def test_early_stopping_can_be_switched_off(tmp_path: Path, sweep: Sweep) -> None:
    run = _run(tmp_path, sweep)
    _end(run, _job(run), 100.0)
    assert run.on_progress(_progress(_job(run), *[1.0] * 8)) is None


def test_the_baseline_is_never_stopped(tmp_path: Path) -> None:
    run = _run(tmp_path)
    assert run.on_progress(_progress(_job(run), *[1.0] * 8)) is None


def test_progress_and_results_of_unknown_trials_change_nothing(tmp_path: Path) -> None:
    run = _run(tmp_path)
    job = _job(run)
    _end(run, job, 100.0)
    _end(run, job, 1.0)
    assert run.on_progress(_progress(job, 1.0)) is None
    assert [r.value("decode_tok_s") for r in run.results] == [100.0]


def test_a_resumed_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    search = _search(tmp_path)
    first = _run(tmp_path, search=search)
    done = []
    for _ in range(3):
        job = _job(first)
        made = replace(result(job.number, job.config, 100.0), trial=job.trial)
        job.folder.mkdir(parents=True, exist_ok=True)
        job.result_path.write_text(json.dumps(made.as_data()))
        first.on_result(made)
        done.append(job.config.variant)
    cut_off = _job(first)
    search.close()
    State(tmp_path).write_card("s", {"created_at": "now"})
    resumed = _run(tmp_path)
    jobs = _drive(resumed, _rate)
    assert jobs[0].config == cut_off.config
    assert len(done) + len(jobs) == SMALL.budget.trials
    assert not {job.config.variant for job in jobs[:-2]} & set(done)
