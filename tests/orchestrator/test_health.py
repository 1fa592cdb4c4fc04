"""What failures mean for the rest of a sweep, on a real study and with real servers."""

import json
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from infra.sglang.signatures import AMOUNTS, HOST_FAULTS, LOG_SIGNATURES
from orchestrator.health import SweepHealth
from orchestrator.job import TrialJob
from orchestrator.search.known import KnownHost, KnownRules
from orchestrator.search.study import StudySearch
from orchestrator.state import State
from orchestrator.sweep_run import Attendants, SweepRun
from orchestrator.tools import local_tools
from orchestrator.tracking.jsonl import JsonlTracker
from orchestrator.trial import run_trial
from sweeps.hosts import EngineName, HostSpec
from sweeps.memory_borders import MEMORY_FAULTS
from sweeps.results import Outcome
from sweeps.sweep import Budget, Sweep
from sweeps.values import Value
from tests.orchestrator.search.ready import study_file
from tests.orchestrator.test_trial import Recorder
from tests.sweeps.makers import SMALL, result

LOGS = Path(__file__).parents[1] / "data/logs"
MANY = replace(SMALL, budget=Budget(trials=40), early_stopping=False, fixed={"tp_size": 8})


def run_of(folder: Path, sweep: Sweep) -> SweepRun:
    # Processes are ended by their sweep's id: no other test may have it.
    sweep_id = f"health-{uuid.uuid4().hex[:8]}"
    health = SweepHealth(sweep)
    hosts = [KnownHost(host.name, "0.5.23") for host in sweep.hosts]
    search = StudySearch(
        sweep, study_file(folder), sweep_id, guide=KnownRules(sweep, hosts, health.why_closed)
    )
    attendants = Attendants(JsonlTracker(folder / "events.jsonl"), [])
    return SweepRun(sweep_id, sweep, State(folder), search, attendants, health)


def job_of(run: SweepRun) -> TrialJob:
    job = run.next_job(run.sweep.hosts[0])
    assert job is not None
    return job


@pytest.mark.parametrize(
    "sampler", ["tpe", "random", pytest.param("factorised", marks=pytest.mark.slow)]
)
def test_a_value_that_always_fails_alike_is_tried_three_times(tmp_path: Path, sampler: str) -> None:
    run = run_of(tmp_path, replace(MANY, sampler=sampler))
    failed = 0
    while (job := run.next_job(run.sweep.hosts[0])) is not None and len(run.results) < 25:
        bad = job.config.get("NCCL_PROTO") == "LL"
        failed += bad
        made = result(
            job.number, job.config, None if bad else 80.0 + job.number,
            outcome=Outcome.INFEASIBLE if bad else Outcome.MEASURED, purpose=job.purpose.value,
        )  # fmt: skip
        run.on_result(replace(made, trial=job.trial, signature="nccl_invalid" if bad else ""))
    if sampler != "factorised":  # it has its own reasons not to try a value again
        assert failed == 3
        (closed,) = run.health.closed
        assert "NCCL_PROTO=LL failed 3 of 3" in str(closed)
    assert failed <= 3
    assert run.health.trouble is None


def test_capacity_of_the_first_plain_decode_holds_for_all_arms(tmp_path: Path) -> None:
    run = run_of(tmp_path, MANY)
    first = job_of(run)
    assert first.pins == {"max_running_requests": 48}
    told: dict[str, Value] = {
        "mem_fraction_static": 0.86,
        "chunked_prefill_size": 8192,
        "page_size": 1,
    }
    made = result(0, first.config, 80.0, purpose="baseline")
    run.on_result(replace(made, trial=first.trial, effective=told))
    assert job_of(run).pins == {"max_running_requests": 48, **told}


@pytest.mark.slow
def test_a_host_that_keeps_its_memory_gets_no_more_trials(tmp_path: Path) -> None:
    scenario = tmp_path / "world.toml"
    scenario.write_text("[processes]\nrelease_memory_s = 1e9\n")
    host = HostSpec(
        engine=EngineName.EMULATED, time_scale=200.0, scenario=str(scenario),
        folder=str(tmp_path / "host"),
    )  # fmt: skip
    budget = replace(MANY.budget, clean_s=60.0, start_s=4000.0, trial_s=1e6)
    run = run_of(tmp_path, replace(MANY, hosts=[host], budget=budget))
    ended = run_trial(job_of(run), local_tools(host), Recorder())
    assert "GPU 0 holds" in ended.dirty
    run.on_result(ended)
    assert run.next_job(host) is None
    assert run.is_over
    assert run.health.trouble is not None
    assert "no host is left that is proved clean" in run.health.trouble


@pytest.mark.slow
def test_what_a_hung_server_left_to_be_seen_is_kept(tmp_path: Path) -> None:
    scenario = tmp_path / "world.toml"
    scenario.write_text('[start]\nhang_in = "distributed_init"\n')
    host = HostSpec(engine=EngineName.EMULATED, time_scale=200.0, scenario=str(scenario))
    budget = replace(MANY.budget, start_s=4000.0, phase_s=1000.0, trial_s=1e6)
    run = run_of(tmp_path, replace(MANY, hosts=[host], budget=budget))
    job = job_of(run)
    ended = run_trial(job, local_tools(host), Recorder())
    assert ended.outcome is Outcome.HUNG
    assert ended.reason.startswith("hung in distributed init")
    assert ended.signature == "hung_distributed_init"
    kept = {path.name for path in (job.folder / "evidence").iterdir()}
    assert {"log_tail.txt", "processes.txt", "environment.json", "stacks"} <= kept
    assert "infra.emulated" in (job.folder / "evidence" / "processes.txt").read_text()
    assert ended.dirty == ""


@pytest.mark.slow
@pytest.mark.parametrize("log", ["unbalanced_old.txt", "error802.txt", "gloo_mesh.txt"])
def test_what_a_host_does_wrong_is_tried_again_and_sets_it_aside(tmp_path: Path, log: str) -> None:
    """The lines that such a host wrote, from a server that dies with them as it starts."""
    told = (LOGS / log).read_text().splitlines()
    scenario = tmp_path / "world.toml"
    line = next(line for line in reversed(told) if "Error: " in line)
    scenario.write_text(f"[start]\ndie_in = 'distributed_init'\nlast_line = {json.dumps(line)}\n")
    host = HostSpec(engine=EngineName.EMULATED, time_scale=1000.0, scenario=str(scenario))
    budget = replace(MANY.budget, start_s=40_000.0, phase_s=20_000.0, trial_s=1e6)
    run = run_of(tmp_path, replace(MANY, hosts=[host], budget=budget))
    while (job := run.next_job(host)) is not None:
        run.on_result(run_trial(job, local_tools(host), Recorder()))
    assert [result.outcome for result in run.results] == [Outcome.FAILED] * 3
    assert {result.signature for result in run.results} <= HOST_FAULTS
    assert len({result.config for result in run.results}) == 1, "the same trial, again"
    assert run.health.closed == ()
    hint = next(r.hint for r in LOG_SIGNATURES if r.name == run.results[0].signature)
    assert hint in run.health.quarantined[host.name]
    assert hint in str(run.health.trouble)


def test_every_lack_of_memory_has_a_border() -> None:
    assert AMOUNTS == MEMORY_FAULTS
