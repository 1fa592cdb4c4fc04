"""One trial against a real emulated server: what it measures, and how each bad end is named."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from infra.probing.neighbours import listeners
from infra.reaper import find_tagged
from orchestrator import trial_thread
from orchestrator.job import Purpose, StopKind, StopOrder, TrialJob, TrialProgress
from orchestrator.tools import local_tools
from orchestrator.trial import run_trial
from orchestrator.trial_thread import TrialThread
from sweeps.config import Config
from sweeps.hosts import EngineName, HostSpec
from sweeps.results import Outcome, Phase, TrialResult
from sweeps.sweep import Sweep
from sweeps.values import digest
from tests.sweeps.makers import SMALL, ngram, patient, plain

pytestmark = pytest.mark.slow

FAST = HostSpec(engine=EngineName.EMULATED, time_scale=200.0)
_ORDER = StopOrder(StopKind.INTERRUPT, "enough")
# Long enough answers that one arrives in several reads, whatever the scale.
SWEEP = replace(
    SMALL, fixed={"tp_size": 8}, workload=replace(SMALL.workload, max_tokens=256, measure_s=1e6),
    budget=patient(1),
)  # fmt: skip


class Recorder:
    """Keeps the progress; gives an order once a condition holds."""

    def __init__(self, when: Callable[[TrialProgress], bool] = lambda _: False) -> None:
        self.seen: list[TrialProgress] = []
        self._when = when
        self._order: StopOrder | None = None

    def report(self, progress: TrialProgress) -> None:
        self.seen.append(progress)
        if self._when(progress):
            self._order = StopOrder(StopKind.BOUND, "worse", 12.5)

    def order(self) -> StopOrder | None:
        return self._order


def _job(folder: Path, config: Config, sweep: Sweep = SWEEP, host: HostSpec = FAST) -> TrialJob:
    folder = folder / "a folder"
    folder.mkdir(exist_ok=True)
    # Two runs of the tests have one process table, and end each what carries its id.
    sweep_id = f"tt-{digest(str(folder))}"
    return TrialJob(f"{sweep_id}-0000", sweep_id, 0, sweep, config, host, folder, Purpose.SEARCH)


def _run(job: TrialJob, recorder: Recorder | None = None) -> TrialResult:
    result = run_trial(job, local_tools(job.host), recorder or Recorder())
    assert find_tagged(job.sweep_id, job.trial) == []
    assert json.loads(job.result_path.read_text())["outcome"] == result.outcome.value
    if "--port" in result.argv:
        port = int(result.argv[result.argv.index("--port") + 1])
        assert job.sweep_id not in [one.sweep for one in listeners((port, port))]
    return result


def test_a_speculative_trial_is_measured_and_agrees_with_the_servers_own_log(
    tmp_path: Path,
) -> None:
    recorder = Recorder()
    # Without a probe all three figures are of one pass, however busy the machine.
    work = replace(SWEEP.workload, measured_prompts=8, most_measured_prompts=8, probe_s=0)
    job = _job(tmp_path, ngram(4, NCCL_PROTO="LL"), replace(SWEEP, workload=work))
    result = _run(job, recorder)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert result.emulated
    length = result.value("accept_length")
    assert length is not None
    assert 1.0 < length < 4.0
    assert result.log_accept_length == pytest.approx(length, rel=0.1)
    assert result.value("output_tokens") == 8 * 256
    rate, steps = result.value("decode_tok_s"), result.value("steps_per_s")
    assert rate is not None
    assert steps is not None
    assert rate == pytest.approx(length * steps, rel=0.05)
    assert result.effective["speculative_num_draft_tokens"] == 4
    assert list(dict.fromkeys(p.phase for p in recorder.seen)) == [
        Phase.STARTING, Phase.WARMING, Phase.COLD, Phase.SETTLING, Phase.MEASURING,
        Phase.STOPPING, Phase.CLEAN,
    ]  # fmt: skip
    assert result.phase is Phase.MEASURING
    assert result.gpu_hours == pytest.approx(8 * sum(result.phase_s.values()) / 3600, rel=0.05)
    kinds = [json.loads(line)["kind"] for line in job.spool_path.read_text().splitlines()]
    assert kinds.count("request") >= 2 + 1 + 8
    assert kinds.count("stop") == 1


def test_plain_decode_has_an_accept_length_of_one(tmp_path: Path) -> None:
    result = _run(_job(tmp_path, plain()))
    assert result.outcome is Outcome.MEASURED
    assert result.value("accept_length") == 1.0
    assert result.log_accept_length is None


def test_refused_flags_are_infeasible(tmp_path: Path) -> None:
    result = _run(_job(tmp_path, plain(no_such_flag=3)))
    assert result.outcome is Outcome.INFEASIBLE
    assert "--no-such-flag" in result.reason
    assert result.estimates == {}


def test_a_missing_program_is_a_fault_of_the_host(tmp_path: Path) -> None:
    host = replace(FAST, engine=EngineName.SGLANG, python=str(tmp_path / "no-python"))
    result = _run(_job(tmp_path, plain(), host=host))
    assert result.outcome is Outcome.FAILED
    assert "no-python" in result.reason


@pytest.mark.parametrize(
    ("world", "outcome", "says"),
    [
        ('[start]\nhang_in = "weights"', Outcome.HUNG, "hung in weights"),
        ("[stream]\nstall_after_tokens = 20", Outcome.HUNG, "silent"),
        ('[stream]\nusage = "wrong"', Outcome.FAILED, "tokens were counted of at most"),
        ('[stream]\nusage = "falling"', Outcome.FAILED, "the count fell"),
        ('[stream]\nusage = "final"', Outcome.MEASURED, ""),
        ("[processes]\nignore_sigterm = true", Outcome.MEASURED, ""),
    ],
)
def test_faults_of_a_server_are_named(
    tmp_path: Path, world: str, outcome: Outcome, says: str
) -> None:
    budget = replace(SWEEP.budget, start_s=4000.0, phase_s=600.0, silence_s=60.0)
    scenario_path = tmp_path / "world.toml"
    scenario_path.write_text(world)
    host = replace(FAST, env={"EMULATED_SCENARIO": str(scenario_path)})
    result = _run(_job(tmp_path, plain(), replace(SWEEP, budget=budget), host))
    assert result.outcome is outcome, result.reason
    assert says in result.reason


def test_a_deadline_keeps_the_rate_so_far(tmp_path: Path) -> None:
    work = replace(SWEEP.workload, max_tokens=20_000, measured_prompts=40, most_measured_prompts=40,
                   cold_prompts=0,
                   measure_s=100_000, ignore_eos=True)  # fmt: skip
    budget = replace(SWEEP.budget, trial_s=1600.0)
    result = _run(_job(tmp_path, plain(), replace(SWEEP, workload=work, budget=budget)))
    assert result.outcome is Outcome.PARTIAL, result.reason
    rate = result.estimates["decode_tok_s"]
    assert rate.value > 0
    assert rate.low is not None
    assert rate.duration_s > 30


def test_an_order_to_stop_keeps_the_bound_and_the_rate(tmp_path: Path) -> None:
    work = replace(SWEEP.workload, max_tokens=20_000, measure_s=100_000, ignore_eos=True)
    recorder = Recorder(when=lambda progress: len(progress.blocks) >= 3)
    result = _run(_job(tmp_path, plain(), replace(SWEEP, workload=work)), recorder)
    assert result.outcome is Outcome.STOPPED
    assert (result.reason, result.bound) == ("worse", 12.5)
    assert result.value("decode_tok_s") is not None


def test_an_order_that_comes_during_a_look_for_one_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, given = TrialThread(_job(tmp_path, plain()), local_tools(FAST)), _ORDER

    def look(job: TrialJob) -> None:
        with suppress(RuntimeError):  # a thread that was not started cannot be waited for
            thread.stop(given, wall_s=0.0)

    monkeypatch.setattr(trial_thread, "read_order", look)
    assert thread.order() == given
    assert thread.order() == given


def test_a_trial_in_a_thread_stops_while_its_server_still_loads(tmp_path: Path) -> None:
    slow = replace(FAST, time_scale=1.0)
    thread = TrialThread(_job(tmp_path, plain(), host=slow), local_tools(slow))
    thread.start()
    while not any(p.phase is Phase.STARTING for p in thread.wait(5.0)):
        assert not thread.done
    assert thread.stop(_ORDER, wall_s=200.0)
    result = thread.result()
    assert result.outcome is Outcome.CANCELLED, result.reason
    assert result.phase is Phase.STARTING
    assert find_tagged("tt", thread.job.trial) == []
    assert threading.active_count() < 20
