"""The in-process form of the emulated host says what the HTTP form says, and sweeps in seconds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from infra.emulated.truth import TRUTHS
from orchestrator import simulation
from orchestrator.cli import app
from orchestrator.job import StopKind, StopOrder, TrialJob, TrialProgress
from orchestrator.simulation import simulated_tools
from orchestrator.tools import local_tools
from orchestrator.trial import run_trial
from orchestrator.trial_seam import Tools
from sweeps import Budget, EngineName, HostSpec, Model, Sweep, Workload
from sweeps.axes import Choice
from sweeps.config import Config
from sweeps.results import Outcome, TrialResult
from sweeps.values import Value
from tests.orchestrator.running import sweep_run

pytestmark = pytest.mark.slow

HOST = HostSpec(engine=EngineName.EMULATED, time_scale=50)
NGRAM: dict[str, Value] = {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 4}
SWEEP = Sweep(
    name="sim",
    model=Model("any/model"),
    axes=[Choice("speculative_algorithm", [None, "NGRAM"])],
    fixed={"tp_size": 8},
    workload=Workload(
        max_tokens=512, measured_prompts=3, most_measured_prompts=3, cold_prompts=1, measure_s=1e5
    ),
    budget=Budget(trials=4, trial_s=1e6),
    hosts=[HOST],
    sampler="tpe",
)


class Follower:
    """Follows a trial, and orders a stop after so many blocks."""

    def __init__(self, stop_at_blocks: int = 0) -> None:
        self.stop_at_blocks = stop_at_blocks
        self.seen: list[TrialProgress] = []

    def report(self, progress: TrialProgress) -> None:
        self.seen.append(progress)

    def order(self) -> StopOrder | None:
        blocks = len(self.seen[-1].blocks) if self.seen else 0
        if self.stop_at_blocks and blocks >= self.stop_at_blocks:
            return StopOrder(StopKind.BOUND, "worse", 12.5)
        return None


def trial(
    folder: Path,
    tools: Tools,
    config: dict[str, Value],
    sweep: Sweep = SWEEP,
    follower: Follower | None = None,
) -> TrialResult:
    folder.mkdir()
    host = sweep.hosts[0]
    job = TrialJob("sim-1", "sim", 1, sweep, Config.of(config), host, folder)
    return run_trial(job, tools, follower or Follower())


@pytest.mark.parametrize("config", [{"speculative_algorithm": None}, NGRAM], ids=["plain", "ngram"])
def test_both_forms_give_the_same_figures(tmp_path: Path, config: dict[str, Value]) -> None:
    world = tmp_path / "world.toml"
    world.write_text("[start]\nslow_factor = 0.02\n")
    # Slow enough for a busy machine to keep the pace.
    host = replace(HOST, time_scale=8, scenario=str(world))
    work = replace(SWEEP.workload, probe_s=0, warming_passes=0)
    sweep = replace(SWEEP, hosts=[host], workload=work)
    wire = trial(tmp_path / "wire", local_tools(host), config, sweep)
    here = trial(tmp_path / "here", simulated_tools(), config, sweep)
    assert (wire.outcome, here.outcome) == (Outcome.MEASURED, Outcome.MEASURED)
    for metric in ("accept_length", "accept_length_cold"):
        assert here.value(metric) == wire.value(metric)
    assert here.value("decode_tok_s") == pytest.approx(wire.value("decode_tok_s"), rel=0.03)


def test_same_seed_same_result(tmp_path: Path) -> None:
    one, two = (trial(tmp_path / name, simulated_tools(), NGRAM) for name in ("one", "two"))
    assert one.estimates == two.estimates


def test_streams_share_the_batch(tmp_path: Path) -> None:
    work = replace(SWEEP.workload, concurrency=4, measured_prompts=12, most_measured_prompts=12)
    alone = trial(tmp_path / "alone", simulated_tools(), NGRAM)
    four = trial(tmp_path / "four", simulated_tools(), NGRAM, replace(SWEEP, workload=work))
    assert four.outcome is Outcome.MEASURED
    one_s, four_s = alone.value("decode_tok_s"), four.value("decode_tok_s")
    assert one_s is not None
    assert four_s is not None
    assert 1.5 < four_s / one_s < 4


def test_a_deadline_keeps_the_rate_so_far(tmp_path: Path) -> None:
    work = replace(SWEEP.workload, max_tokens=50_000, cold_prompts=0, ignore_eos=True)
    budget = replace(SWEEP.budget, trial_s=600.0)
    result = trial(
        tmp_path / "cut", simulated_tools(), NGRAM, replace(SWEEP, workload=work, budget=budget)
    )
    assert result.outcome is Outcome.PARTIAL
    assert result.estimates["decode_tok_s"].duration_s > 30


def test_an_order_to_stop_ends_a_trial_at_its_block(tmp_path: Path) -> None:
    work = replace(
        SWEEP.workload, max_tokens=50_000, ignore_eos=True, cold_prompts=0, warming_passes=0
    )
    follower = Follower(stop_at_blocks=3)
    sweep = replace(SWEEP, workload=work)
    result = trial(tmp_path / "stop", simulated_tools(), NGRAM, sweep, follower)
    assert (result.outcome, result.bound) == (Outcome.STOPPED, 12.5)
    assert len(follower.seen[-1].blocks) <= 4


@pytest.mark.parametrize(
    ("fixed", "says"),
    [
        ({"no_such_flag": 1}, "no-such-flag"),
        ({"tp_size": 16}, "tp_size"),
        ({"NCCL_PROTO": "Sample"}, "NCCL"),
        ({"mem_fraction_static": 0.5}, "memory"),
    ],
)
def test_a_refusal_is_infeasible(tmp_path: Path, fixed: dict[str, Value], says: str) -> None:
    sweep = replace(SWEEP, fixed={"tp_size": 8, **fixed})
    result = trial(tmp_path / "refused", simulated_tools(), {"speculative_algorithm": None}, sweep)
    assert result.outcome is Outcome.INFEASIBLE
    assert says in result.reason


def test_only_emulated_hosts_can_be_simulated(tmp_path: Path) -> None:
    real = replace(SWEEP, hosts=[HostSpec(engine=EngineName.SGLANG)])
    with pytest.raises(ValueError, match="local"):
        simulation.drive(sweep_run(real, tmp_path))


@pytest.mark.parametrize("truth", TRUTHS)
def test_a_sweep_of_every_host_ends(tmp_path: Path, truth: str) -> None:
    run = sweep_run(replace(SWEEP, hosts=[replace(HOST, truth=truth)]), tmp_path)
    simulation.drive(run)
    assert [result.config.is_plain for result in run.results] == [True, False]
    assert {result.outcome for result in run.results} <= {Outcome.MEASURED, Outcome.STOPPED}


WORLDS: list[tuple[str, Outcome, str, str]] = [
    # A scenario, and how a trial ends that meets it: its outcome, signature and words.
    ('[[oom]]\nmoment = "serving"\n', Outcome.INFEASIBLE, "oom_load", "out of memory"),
    ('[[oom]]\nmoment = "serving"\ncontext_tokens_from = 200\n', Outcome.INFEASIBLE,
     "oom_serving", "Tried to allocate 1.17 GiB"),
    ('[[oom]]\nmoment = "weights"\n', Outcome.INFEASIBLE, "oom_load", "out of memory"),
    ('[[oom]]\nmoment = "graphs"\n', Outcome.INFEASIBLE, "oom_capture", "out of memory"),
    ('[start]\ndie_in = "weights"\nlast_line = "RuntimeError: Error 802: system not yet '
     'initialized"\n', Outcome.FAILED, "fabric_manager", "nvidia-fabricmanager"),
    ('[start]\ndie_in = "graphs"\nexit_code = 137\nlast_line = "gone"\n', Outcome.INFEASIBLE,
     "crashed", "gone"),
    ('[start]\nhang_in = "weights"\n', Outcome.HUNG, "hung_spawn", "not ready"),
    ("[faults]\ndie_at_request = 4\n", Outcome.INFEASIBLE, "gpu_fault", "illegal memory access"),
    ("[faults]\nabort_at_request = 4\n", Outcome.INFEASIBLE, "native_abort", "Aborted"),
]  # fmt: skip


@pytest.mark.parametrize(("world", "outcome", "signature", "told"), WORLDS)
@pytest.mark.parametrize("load", [{}, {"concurrencies": (4,), "requests_per_s": 2.0}])
def test_a_server_that_a_scenario_ends_leaves_the_process_alone(
    tmp_path: Path, world: str, outcome: Outcome, signature: str, told: str, load: dict[str, Any]
) -> None:
    (tmp_path / "world.toml").write_text(world)
    host = replace(HOST, scenario=str(tmp_path / "world.toml"))
    sweep = replace(SWEEP, hosts=[host], workload=replace(SWEEP.workload, **load))
    found = trial(tmp_path / "trial", simulated_tools(), NGRAM, sweep)
    assert (found.outcome, found.signature) == (outcome, signature), found.reason
    assert told in found.reason


@pytest.mark.parametrize(
    ("world", "named"),
    [
        ("[stream]\nstall_after_tokens = 9\n", "stream"),
        ("[processes]\nignore_sigterm = true\n", "processes"),
        ('[health]\n"/health" = "late"\n', "health"),
        ("[faults]\nhang_at_request = 3\n", "faults.hang_at_request"),
        ("[overrides.reported]\ntp_size = 3\n", "overrides.reported"),
    ],
)
def test_what_takes_a_process_is_refused_by_its_name(
    tmp_path: Path, world: str, named: str
) -> None:
    (tmp_path / "world.toml").write_text(world)
    (tmp_path / "space.py").write_text(
        "from sweeps import *\nsweep = Sweep(name='x', model=Model('a/b'),"
        " axes=[Choice('speculative_algorithm', [None, 'NGRAM'])])\n"
    )
    words = ["sweep", str(tmp_path / "space.py"), "--engine", "emulated", "--driver", "simulated"]
    words += ["--scenario", str(tmp_path / "world.toml"), "--state-dir", str(tmp_path / "state")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2, done.output
    told = " ".join(done.output.split())
    assert f"hosts.local.scenario = {named}:" in told
    assert "--driver serial" in told
