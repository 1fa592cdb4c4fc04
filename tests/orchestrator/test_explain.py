"""`explain` on what real trials leave: emulated hosts on a simulated clock, and bad trial ids."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from infra.sglang.server_keys import ServerKeys
from orchestrator.cli import app
from orchestrator.explain import evidence_of, read_requests
from orchestrator.files import write_json
from orchestrator.job import OUTPUTS_FILE, Purpose, StopOrder, TrialJob, TrialProgress
from orchestrator.load_client.seam import LoadClient, ProbeAnswer, Sampling
from orchestrator.simulation import simulated_tools
from orchestrator.state import State
from orchestrator.trial import run_trial
from sweeps import Budget, EngineName, HostSpec, Model, Sweep, Workload
from sweeps.axes import Choice
from sweeps.config import Config
from sweeps.prompts import Prompt
from sweeps.quality import Output, Outputs, QualityReport, Verdict, judge
from sweeps.records import EndReason, PassRecord
from sweeps.results import Outcome, TrialResult
from sweeps.values import Value
from tests.sweeps.makers import ngram, plain, result

pytestmark = pytest.mark.slow

HOST = HostSpec(engine=EngineName.EMULATED, truth="M")
PLAIN: dict[str, Value] = {"speculative_algorithm": None}
EIGHT: dict[str, Value] = {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 8}
FOUNDING = Sweep(
    name="founding",
    model=Model("any/model"),
    axes=[Choice("speculative_algorithm", [None, "NGRAM"])],
    fixed={"tp_size": 8},
    workload=Workload(
        max_tokens=8192,
        measured_prompts=3,
        most_measured_prompts=3,
        cold_prompts=0,
        measure_s=1e5,
        ignore_eos=True,
        probe_s=0,
        warming_passes=0,
    ),
    budget=Budget(trials=2, trial_s=600.0),
    hosts=[HOST],
)
SHORT = replace(
    FOUNDING,
    workload=Workload(max_tokens=128, measured_prompts=4, most_measured_prompts=4, cold_prompts=1),
    budget=Budget(),
)


class Quiet:
    """Follows a trial and lets it be."""

    def report(self, progress: TrialProgress) -> None:
        pass

    def order(self) -> StopOrder | None:
        return None


class Keeping:
    """A client that keeps the last pass, with the prompts of its texts."""

    def __init__(self, client: LoadClient) -> None:
        self._client = client
        self.last_health = None
        self.outputs = Outputs({})

    def bearing(self, keys: ServerKeys) -> "Keeping":
        return self

    def probe(self, url: str, dialect: str, deadline_s: float) -> ProbeAnswer:
        return self._client.probe(url, dialect, deadline_s)

    def run_pass(
        self, url: str, prompts: Iterable[Prompt], sampling: Sampling, **terms: Any
    ) -> PassRecord:
        record = self._client.run_pass(url, prompts, sampling, **terms)
        self.outputs = Outputs(
            {
                r.prompt_key: Output(r.text, r.output_tokens, r.end is EndReason.FINISHED)
                for r in record.requests
            }
        )
        return record


def ran(
    state: State, number: int, config: dict[str, Value], sweep: Sweep, world: str = ""
) -> tuple[TrialResult, Outputs]:
    """Run a trial on a simulated host and leave all that it leaves in the state folder."""
    folder = state.trial_folder(sweep.name, number)
    folder.mkdir(parents=True)
    host = sweep.hosts[0]
    if world:
        (folder / "world.toml").write_text(world)
        host = replace(host, env={"EMULATED_SCENARIO": str(folder / "world.toml")})
    purpose = Purpose.SEARCH if number else Purpose.BASELINE
    trial = f"{sweep.name}-{number:04d}"
    tools = simulated_tools()
    client = Keeping(tools.client)
    job = TrialJob(trial, sweep.name, number, sweep, Config.of(config), host, folder, purpose)
    made = run_trial(job, replace(tools, client=client), Quiet())
    write_json(folder / OUTPUTS_FILE, client.outputs.as_data())
    return made, client.outputs


def with_card(state: State, sweep: Sweep) -> None:
    """Note the sweep as the driver does."""
    workload = sweep.workload.as_data()
    card = {"name": sweep.name, "objective": "decode_tok_s", "created_at": "1"}
    state.write_card(sweep.name, {**card, "workload": workload})


def explained(state: State, *words: str) -> tuple[int, str, str]:
    """Run the command; return its exit code, what it printed with single spaces, and its errors."""
    done = CliRunner().invoke(app, ["explain", *words, "--state-dir", str(state.root)])
    return done.exit_code, " ".join(done.stdout.split()), done.stderr


@pytest.fixture(scope="module")
def founding(tmp_path_factory: pytest.TempPathFactory) -> State:
    """Return the state of the founding benchmark: plain decode, then eight draft tokens."""
    state = State(tmp_path_factory.mktemp("founding"))
    with_card(state, FOUNDING)
    for number, config in enumerate((PLAIN, EIGHT)):
        ran(state, number, config, FOUNDING)
    return state


def test_the_founding_benchmark_reads_right(founding: State) -> None:
    code, text, _ = explained(founding, "founding-0001")
    assert code == 0
    assert text.startswith("EMULATED trial founding-0001: NGRAM with 8 draft tokens, partial, 4")
    assert re.search(r"partial, 4[0-2]\.\d tok/s \(95 % interval", text)
    assert re.search(r"1[67],\d{3} tokens were received from three requests", text)
    assert re.search(r"over 12\.\d ms a step of the best plain decode", text)
    assert "slower than plain decode by about half" in text
    assert "13.7" not in text
    assert "viable" not in text
    assert "measured one setting of NGRAM so far" in text


def test_the_founding_factors_are_the_known_ones(founding: State) -> None:
    code, text, _ = explained(founding, "1", "--json")
    assert code == 0
    factors = json.loads(text)["factors"]
    assert factors["cycle_ms"]["value"] == pytest.approx(31.7, rel=0.03)
    assert factors["plain_step_ms"]["value"] == pytest.approx(12.2, rel=0.03)
    assert factors["break_even"]["value"] == pytest.approx(2.6, rel=0.03)
    assert factors["accept_length"]["value"] == pytest.approx(1.3, abs=0.1)
    assert factors["speed_up"]["value"] == pytest.approx(0.5, rel=0.1)


def test_best_is_the_trial_that_the_sweep_recommends(founding: State) -> None:
    code, text, _ = explained(founding, "best", "--sweep", "founding")
    assert code == 0
    assert "trial founding-0000: plain decode, measured" in text


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """Return what plain decode writes."""
    return ran(State(tmp_path_factory.mktemp("plain")), 0, PLAIN, SHORT)[1]


def test_corrupt_verification_is_caught(tmp_path: Path, reference: Outputs) -> None:
    world = "[speed]\ncorrupt_verify = true\n"
    state = State(tmp_path)
    made, outputs = ran(state, 1, EIGHT, SHORT, world)
    assert made.value("accept_length") == pytest.approx(1.06, abs=0.02)
    report = judge(outputs, reference)
    assert report.verdict is Verdict.BROKEN
    assert report.identical_fraction == 0


def test_honest_verification_writes_what_plain_decode_writes(
    tmp_path: Path, reference: Outputs
) -> None:
    _, outputs = ran(State(tmp_path), 1, EIGHT, SHORT)
    report = judge(outputs, reference)
    assert report.verdict is Verdict.SAME
    assert len(report.comparisons) == 4


def test_outputs_in_the_folder_are_compared(tmp_path: Path) -> None:
    state = State(tmp_path)
    with_card(state, SHORT)
    ran(state, 0, PLAIN, SHORT)
    made, _ = ran(state, 1, EIGHT, SHORT, "[speed]\ncorrupt_verify = true\n")
    quality = evidence_of(state, made).quality
    assert isinstance(quality, QualityReport)
    assert quality.verdict is Verdict.BROKEN
    assert "its output BROKEN" in explained(state, "1")[1]


@pytest.fixture
def made(tmp_path: Path) -> State:
    """Return the state of a sweep of three trials, of which the last has not ended."""
    state = State(tmp_path)
    with_card(state, replace(FOUNDING, name="t"))
    for one in (result(0, plain(), 82.0, purpose="baseline"), result(1, ngram(8), 41.0)):
        write_json(state.trial_folder("t", one.number) / "result.json", one.as_data())
    state.trial_folder("t", 2).mkdir(parents=True)
    return state


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("t-0009",), ("t-0009", "no such trial", "Did you mean `t-0001`?")),
        (("bets",), ("no such trial", "Did you mean `best`?")),
        (("7",), ("no trial of this number", "0, 1")),
        (("2",), ("left no result",)),
        (("t-0002",), ("left no result",)),
        (("1", "--sweep", "tt"), ("--sweep", "no such sweep", "Did you mean `t`?")),
        (("../../etc",), ("no such trial",)),
        (("",), ("no such trial",)),
    ],
)
def test_a_bad_trial_is_one_error_and_exit_2(
    made: State, words: tuple[str, ...], says: tuple[str, ...]
) -> None:
    code, text, errors = explained(made, *words)
    assert code == 2
    assert text == ""
    assert errors.count("\n") == 2
    for word in says:
        assert word in errors


def test_an_empty_state_folder_is_one_error_and_exit_2(tmp_path: Path) -> None:
    code, _, errors = explained(State(tmp_path), "best")
    assert code == 2
    assert "no sweep lies there" in errors


def test_a_sweep_without_a_rate_has_no_best(made: State) -> None:
    for number in (0, 1):
        failed = result(number, plain(), outcome=Outcome.FAILED)
        write_json(made.trial_folder("t", number) / "result.json", failed.as_data())
    code, _, errors = explained(made, "best")
    assert code == 3
    assert "no best one" in errors


def test_a_result_alone_can_be_explained(made: State) -> None:
    """Spool, plan and outputs are only more evidence."""
    code, text, _ = explained(made, "1")
    assert code == 0
    assert "slower than plain decode by about half" in text


def test_a_line_that_a_kill_cut_off_is_passed_over(tmp_path: Path) -> None:
    spool = tmp_path / "spool.jsonl"
    entry = {"kind": "request", "phase": "measuring", "end": "finished", "output_tokens": 5}
    spool.write_text(f'{json.dumps(entry)}\n{{"kind": "phase"}}\n{json.dumps(entry)[:30]}')
    assert [r.output_tokens for r in read_requests(spool)] == [5]
    assert list(read_requests(tmp_path / "none")) == []
