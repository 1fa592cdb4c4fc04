"""The real SGLang on a CPU: measured, held against its own log, refused, and exported."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from infra.host import Command
from infra.local_host import LocalHost
from infra.reaper import all_tags, find_tagged
from infra.sglang.effective import account
from infra.sglang.flags import FLAGS
from infra.sglang_cpu.build import build
from infra.sglang_cpu.layout import DEFAULT_ENV, DEFAULT_MODEL, EnvLayout
from orchestrator.job import StopOrder, TrialJob, TrialProgress
from orchestrator.space_file import load_sweep, prepare
from orchestrator.state import State
from orchestrator.subjects import subject_of
from orchestrator.tools import local_tools
from orchestrator.trial import run_trial
from sweeps.config import Config
from sweeps.exporters.env_file import read_variables
from sweeps.results import Outcome, Phase
from tests.contracts.fidelity.peer import Peer
from tests.e2e.sweeping import ROOT, run
from tests.infra.trees import fresh_sweep, wait_until
from tests.patience import SGLANG_S
from tests.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

EXPORTS = {"sh": "serve.sh", "yaml": "serve.yaml", "systemd": "serve.service"}
SPACE = """
from dataclasses import replace
from search_spaces.cpu_tiny import sweep as whole

sweep = replace(
    whole,
    workload=replace(
        whole.workload, measured_prompts=8, most_measured_prompts=8,
        cold_prompts=1, probe_s=1.0, warming_prompts=2,
        warming_passes=2,
    ),
    budget=replace(whole.budget, trials=2, start_s=500.0, trial_s=1500.0),
    hosts=[replace(whole.hosts[0], name="{host}")],
)
"""


@pytest.fixture(scope="module", autouse=True)
def environment() -> None:
    """Build the environment and the model where they are not yet built."""
    build(EnvLayout(ROOT / DEFAULT_ENV), ROOT / DEFAULT_MODEL, print)


@pytest.fixture
def sweep() -> Iterator[str]:
    """Lend a sweep id whose processes must all be gone after the test."""
    with fresh_sweep() as name:
        yield name


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the state folder of a finished sweep."""
    folder = tmp_path_factory.mktemp("real")
    # Another run of the tests may have the machine "cpu".
    (folder / "space.py").write_text(SPACE.format(host=f"cpu-{uuid.uuid4().hex[:8]}"))
    words = (
        "sweep",
        str(folder / "space.py"),
        "--driver",
        "serial",
        "--state-dir",
        str(folder / "state"),
    )
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=2 * SGLANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "EMULATED" not in done.stdout
    return folder / "state"


def test_every_trial_is_measured_and_its_accept_length_is_what_sglang_logged(state: Path) -> None:
    rows = json.loads(run(ROOT, "trials", "--json", "--state-dir", str(state)).stdout)
    assert [row["outcome"] for row in rows] == ["measured"] * 2
    assert not any(row["emulated"] for row in rows)
    speculative = [row for row in rows if row["config"]["speculative_algorithm"] == "NGRAM"]
    assert speculative
    for row in speculative:
        assert row["accept_length"] > 1.05
        # A verify step at the end of a request may accept more than the request still takes.
        assert row["log_accept_length"] == pytest.approx(row["accept_length"], rel=0.03)
        asked = row["config"]["speculative_num_draft_tokens"]
        assert row["effective"]["speculative_num_draft_tokens"] == asked
        assert row["steps_per_s"] * row["accept_length"] == pytest.approx(
            row["decode_tok_s"], rel=0.1
        )
    plain = [row for row in rows if row["config"]["speculative_algorithm"] is None]
    assert [row["accept_length"] for row in plain] == [1.0] * len(plain)
    assert not {row["sweep"] for row in rows} & all_tags().keys()


@pytest.fixture(scope="module")
def exported(state: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the winner as a script, as SGLang's own file, and as a unit."""
    folder = tmp_path_factory.mktemp("exported")
    for form, name in EXPORTS.items():
        words = ("--format", form, "--output", str(folder / name))
        done = run(ROOT, "export", "--state-dir", str(state), *words)
        assert done.returncode == 0, done.stderr
    return folder


def test_sglang_starts_from_its_own_file_as_it_was_measured(
    state: Path, exported: Path, sweep: str, tmp_path: Path
) -> None:
    path = exported / EXPORTS["yaml"]
    record = subject_of(str(path), State(state), edited=False).record
    results = State(state).results(str(record["sweep"]))
    (trial,) = [r for r in results if r.trial == record["trial"]]
    rest = read_variables(path.with_suffix(".env").read_text()).launch
    python, port, log = str(ROOT / DEFAULT_ENV / "bin" / "python"), free_port(), tmp_path / "log"
    argv = (
        python, "-m", "sglang.launch_server", "--config", str(path), *rest.options,
        "--port", str(port),
    )  # fmt: skip
    env = {"PATH": os.environ["PATH"], **dict(rest.env)}
    server = LocalHost().start(Command(argv, env, log, sweep, "yaml", cwd=ROOT))
    try:
        peer = Peer("real", port, log)
        wait_until(lambda: server.poll() is not None or _is_ready(peer), "SGLang", SGLANG_S)
        assert server.poll() is None, log.read_text()
        reply = peer.generate("def add(a, b):", 8).json
        told = account(peer.ask("GET", "/server_info").json, trial.requested, "0.5.23").settings
    finally:
        assert server.stop().clean
    assert reply["meta_info"]["completion_tokens"] == 8
    measured = {name: value for name, value in trial.effective.items() if name in FLAGS}
    assert {name: value for name, value in told.items() if name in FLAGS} == measured
    assert {name for name, value in trial.config.items() if value is not None} <= measured.keys()


def _is_ready(peer: Peer) -> bool:
    with suppress(OSError):
        return peer.ask("GET", "/health").status == 200
    return False


def test_the_exports_hold_one_plan_and_verify_passes(state: Path, exported: Path) -> None:
    """One start says little of a rate, and the zone is wide: other tests hold the statistics."""
    subjects = [subject_of(str(exported / name), State(state), edited=False)
                for name in EXPORTS.values()]  # fmt: skip
    assert len({subject.launch.plan for subject in subjects}) == 1
    words = (str(exported / EXPORTS["systemd"]), "--starts", "1", "--within", "900", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "verify", *words, "--state-dir", str(state)],
        cwd=ROOT, capture_output=True, text=True, timeout=2 * SGLANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["verdict"] == "alike"
    assert not told["emulated"]
    made = State(state).results(told["sweep"])[0]
    best = State(state).results(str(subjects[0].record["sweep"]))
    before = next(r for r in best if r.trial == subjects[0].record["trial"])
    ours = [argv[: argv.index("--host")] for argv in (made.argv, before.argv)]
    assert sorted(ours[0]) == sorted(ours[1])
    assert made.env == before.env


class _Nobody:
    def report(self, progress: TrialProgress) -> None: ...

    def order(self) -> StopOrder | None:
        return None


def test_flags_that_sglang_refuses_are_infeasible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sweep: str
) -> None:
    monkeypatch.chdir(ROOT)
    path = ROOT / "search_spaces" / "cpu_tiny.py"
    space = prepare(load_sweep(path), path)
    config = Config.of({"speculative_algorithm": None, "sampling_backend": "no-such-backend"})
    host = space.hosts[0]
    job = TrialJob(f"{sweep}-0", sweep, 0, space, config, host, tmp_path)
    result = run_trial(job, local_tools(host), _Nobody())
    assert result.outcome is Outcome.INFEASIBLE, result.reason
    assert "no-such-backend" in result.reason


class _Killer(_Nobody):
    """Kills a scheduler once it is measured."""

    def __init__(self, sweep: str) -> None:
        self.killed: list[int] = []
        self._sweep = sweep

    def report(self, progress: TrialProgress) -> None:
        if progress.phase is not Phase.PROBING or self.killed:
            return
        for found in find_tagged(self._sweep):
            if "scheduler" in " ".join(psutil.Process(found.pid).cmdline()):
                os.kill(found.pid, signal.SIGKILL)
                self.killed.append(found.pid)


def test_a_scheduler_that_is_killed_ends_its_trial_as_failed_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sweep: str
) -> None:
    monkeypatch.chdir(ROOT)
    path = ROOT / "search_spaces" / "cpu_tiny.py"
    space = prepare(load_sweep(path), path)
    host, killer = space.hosts[0], _Killer(sweep)
    plain = space.space.plain()
    job = TrialJob(f"{sweep}-0", sweep, 0, space, plain, host, tmp_path / "trial")
    job.folder.mkdir()
    result = run_trial(job, local_tools(host), killer)
    assert killer.killed
    assert result.outcome is Outcome.FAILED, result.reason
    assert "scheduler" in result.reason
    assert not result.dirty
    assert sweep not in all_tags()
