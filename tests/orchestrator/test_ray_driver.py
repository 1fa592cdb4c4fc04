"""The Ray driver in this process: hooks that fail, and the environment that servers get."""

import logging
import os
import stat
import warnings
from collections.abc import Iterator
from concurrent import futures
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from infra.reaper import find_tagged
from orchestrator.events import SweepStart, Tally
from orchestrator.hooks import Hooks
from orchestrator.job import TrialJob, TrialProgress
from orchestrator.search.study import StudySearch
from orchestrator.signals import Interrupts
from orchestrator.state import State
from orchestrator.sweep_run import Attendants, SweepRun
from orchestrator.tracking.jsonl import JsonlTracker
from sweeps.hosts import EngineName, HostSpec
from sweeps.results import Outcome, TrialResult
from sweeps.sweep import Budget
from tests.sweeps.makers import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Breaker:
    """Fails whenever it is called from a hook of Tune."""

    def sweep_started(self, start: SweepStart) -> None: ...

    def trial_started(self, job: TrialJob) -> None: ...

    def progress(self, progress: TrialProgress, tally: Tally) -> None:
        raise RuntimeError("a broken display")

    def trial_ended(self, result: TrialResult, tally: Tally) -> None:
        raise RuntimeError("a broken display")

    def sweep_ended(self, status: str) -> None: ...


@pytest.fixture
def third_party_warnings() -> Iterator[None]:
    """Let Ray's own deprecations pass: they are not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        yield


@pytest.mark.usefixtures("third_party_warnings")
def test_failing_hooks_never_end_a_sweep(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from orchestrator import ray_driver

    sweep = replace(
        SMALL,
        fixed={"tp_size": 8},
        hosts=[HostSpec(engine=EngineName.EMULATED, time_scale=200.0)],
        workload=replace(SMALL.workload, max_tokens=256, measure_s=900.0),
        budget=Budget(trials=3),
        early_stopping=False,
    )
    state = State(tmp_path)
    name = f"rd-{tmp_path.name}"
    search = StudySearch(sweep, state.study_path, name)
    tracker = JsonlTracker(tmp_path / "events.jsonl")
    run = SweepRun(name, sweep, state, search, Attendants(tracker, [Breaker()]))
    with caplog.at_level(logging.ERROR, logger="orchestrator"):
        ray_driver.drive(run, state, Interrupts(lambda: None))
    assert run.is_over
    assert [r.outcome for r in run.results] == [Outcome.MEASURED] * 3
    assert "the sweep goes on" in caplog.text
    assert run.hooks.faults["Breaker.trial_ended"] == 3
    for result in run.results:
        assert "OMP_NUM_THREADS" not in result.env
        assert result.env["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"  # Ray would say otherwise
    assert find_tagged(name) == []
    token = Path(os.environ.get("RAY_AUTH_TOKEN_PATH", ray_driver.TOKEN_PATH)).expanduser()
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


def test_a_trial_that_waits_for_a_lost_host_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    from orchestrator import ray_driver

    def trial(host: str, status: str) -> SimpleNamespace:
        job = SimpleNamespace(host=HostSpec(name=host))
        return SimpleNamespace(config={"job": job}, status=status)

    trials = [
        trial("a", "PENDING"), trial("b", "PENDING"), trial("b", "RUNNING"), trial("b", "PENDING"),
    ]  # fmt: skip
    stopped: list[object] = []
    tune = SimpleNamespace(
        get_live_trials=lambda: trials, get_trials=lambda: trials, stop_trial=stopped.append
    )
    cluster = SimpleNamespace(lost=lambda: frozenset({"b"}))
    monkeypatch.setitem(ray_driver._RUNS, "s", SimpleNamespace(hooks=Hooks()))
    monkeypatch.setitem(ray_driver._CLUSTERS, "s", cluster)
    assert ray_driver.BoundScheduler("s").choose_trial_to_run(tune) is trials[0]
    assert stopped == [trials[1], trials[3]]


@pytest.mark.usefixtures("third_party_warnings")
def test_workers_get_only_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    from orchestrator import ray_driver

    foreign = ["MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_TRACKING_PASSWORD", "WANDB_API_KEY"]
    for name in foreign:
        monkeypatch.setenv(name, "of-another-project")
    monkeypatch.setenv("HF_HOME", "/models")
    with futures.ThreadPoolExecutor(1) as starter:
        starter.submit(ray_driver._init_here, [HostSpec(engine=EngineName.EMULATED)]).result()
        try:
            got = ray.get(ray.remote(lambda: dict(os.environ)).remote())
        finally:
            ray.shutdown()
    assert not [name for name in foreign if name in got]
    assert got["HF_HOME"] == "/models"
    assert {name: os.environ.copy()[name] for name in foreign}  # the driver keeps its own
