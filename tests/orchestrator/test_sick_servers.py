"""Trials of servers that break, stall or lie: a stand-in misbehaves, and the trial must say so."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from orchestrator.health import RETRYABLE
from orchestrator.job import Purpose, TrialJob
from orchestrator.load_client.seam import PassProgress
from orchestrator.server_watch import LEAST_SILENCE_WALL_S, ServerWatch
from orchestrator.trial import MISCOUNTED, run_trial
from sweeps.breaker import may_retry
from sweeps.hosts import EngineName, HostSpec
from sweeps.ranking import rank
from sweeps.results import Outcome, TrialResult
from sweeps.sweep import Budget, Sweep
from sweeps.workloads import WARM_UP_PROMPTS
from tests.e2e.sweeping import run
from tests.fakes.stand_in import Behaviour, stand_in_tools, write_interpreter
from tests.fakes.stream_server import Fault, Script, stream_server
from tests.infra.trees import wait_until
from tests.orchestrator.test_course import spool
from tests.orchestrator.test_trial import Recorder
from tests.sweeps.makers import SMALL, ngram

pytestmark = pytest.mark.slow

BEFORE = 1 + WARM_UP_PROMPTS
"""Requests before the measured pass: the readiness probe and the warm-up."""
SCALE = 10.0
HOST = HostSpec(engine=EngineName.EMULATED, time_scale=SCALE, gpus=0)
SILENCE_S = 60.0
MEASURE_S = 100 * SILENCE_S
SWEEP = replace(
    SMALL,
    workload=replace(
        SMALL.workload, measured_prompts=8, most_measured_prompts=8,
        cold_prompts=0, warming_passes=0, probe_s=0,
        max_tokens=64, measure_s=MEASURE_S,
    ),
    budget=Budget(trials=1, start_s=1e4, phase_s=1e4, trial_s=1e6, silence_s=SILENCE_S),
)  # fmt: skip
ILLEGAL = (
    "[2026-01-01 00:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
)


def trial(folder: Path, behaviour: Behaviour, *, sweep: Sweep = SWEEP) -> TrialResult:
    job = TrialJob(f"sick-{folder.name}", "t", 0, sweep, ngram(4), HOST, folder, Purpose.SEARCH)
    return run_trial(job, stand_in_tools(behaviour, HOST), Recorder())


def measured(first: int, last: int | None = None) -> tuple[int, int]:
    """Return the numbers of some requests of the measured pass, counted from 1."""
    return BEFORE + first, BEFORE + (last or first)


def test_a_sound_server_is_measured_and_nothing_is_said(tmp_path: Path) -> None:
    result = trial(tmp_path, Behaviour())
    assert (result.outcome, result.reason) == (Outcome.MEASURED, "")
    assert not [note for note in result.notes if "request" in note]
    assert result.value("accept_length") == pytest.approx(3.0)


@dataclass(frozen=True)
class Break:
    """A server that breaks requests of the measured pass, and what is right."""

    behaviour: Behaviour
    outcome: Outcome
    says: str
    signature: str = ""


BREAKS = {
    "an illegal memory access, and a root that exits with 0 later": Break(
        Behaviour(dies_in=BEFORE + 4, lingers_s=2.0, last_lines=ILLEGAL),
        Outcome.INFEASIBLE,
        "TP3: Scheduler hit an exception | RuntimeError: CUDA error: an illegal memory access",
        "gpu_fault",
    ),
    "the last request is cut off, and the root ends later without a word": Break(
        Behaviour(dies_in=BEFORE + 8, lingers_s=1.0, exit_code=3),
        Outcome.FAILED, "the server ended with 3",
    ),
    "a port that closes below a root that stays": Break(
        Behaviour(dies_in=BEFORE + 4, lingers_s=1e3, last_lines=ILLEGAL),
        Outcome.INFEASIBLE, "the server answers no more; of eight requests", "gpu_fault",
    ),
    "a server that lives on and breaks three of eight": Break(
        Behaviour(fault=Fault.ERROR_EVENT, faulty=measured(2, 4)),
        Outcome.FAILED, "of eight requests 3 broken (the server reports: out of memory), 5 fin",
    ),
    "all are refused": Break(
        Behaviour(fault=Fault.REFUSED, faulty=measured(1, 8)),
        Outcome.FAILED, "of eight requests 8 refused for the load (HTTP 503: queue ful), 0 fin",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BREAKS.values(), ids=BREAKS)
def test_a_server_that_breaks_in_the_middle_is_not_ranked(tmp_path: Path, case: Break) -> None:
    result = trial(tmp_path, case.behaviour)
    assert result.outcome is case.outcome, result.reason
    assert case.says in result.reason
    assert result.signature == case.signature
    assert rank([result], "decode_tok_s", higher_is_better=True).best is None
    # What was measured until then is kept.
    assert ("decode_tok_s" in result.estimates) == (case.behaviour.fault is not Fault.REFUSED)


def test_one_broken_request_of_many_is_told_and_the_others_count(tmp_path: Path) -> None:
    sweep = replace(
        SWEEP,
        workload=replace(
            SWEEP.workload, measured_prompts=24, most_measured_prompts=24, max_tokens=16
        ),
    )
    result = trial(tmp_path, Behaviour(fault=Fault.CUT, faulty=measured(5)), sweep=sweep)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert "of 24 requests 1 broken" in result.notes[-1]
    assert "23 finished" in result.notes[-1]


CUT = Behaviour(fault=Fault.CUT, faulty=measured(5))


def test_a_pass_goes_on_with_further_prompts_only_while_none_breaks(tmp_path: Path) -> None:
    work = replace(SWEEP.workload, most_measured_prompts=None, measure_s=60.0)
    sweep = replace(SWEEP, workload=work)
    sound, cut = (tmp_path / name for name in ("sound", "cut"))
    for folder, behaviour in ((sound, Behaviour()), (cut, CUT)):
        folder.mkdir()
        trial(folder, behaviour, sweep=sweep)
    asked = {folder.name: len(spool(folder, "request")) for folder in (sound, cut)}
    assert asked["cut"] == WARM_UP_PROMPTS + work.measured_prompts
    assert asked["sound"] > asked["cut"]


def test_requests_that_the_load_itself_refuses_are_told_alone(tmp_path: Path) -> None:
    result = trial(tmp_path, Behaviour(refused=(BEFORE + 3, BEFORE + 4)))
    assert result.outcome is Outcome.MEASURED, result.reason
    assert "2 refused for the load (HTTP 503: queue ful), 6 finished" in result.notes[-1]


@pytest.mark.parametrize("streams", [1, 2])
def test_a_stalled_request_ends_its_pass_within_the_silence_allowed(
    tmp_path: Path, streams: int
) -> None:
    work = replace(
        SWEEP.workload, measured_prompts=200, most_measured_prompts=200, concurrency=streams
    )
    stalled = Behaviour(fault=Fault.STALL, faulty=measured(3))
    result = trial(tmp_path, stalled, sweep=replace(SWEEP, workload=work))
    assert result.outcome is Outcome.HUNG
    assert "silent while measuring: of" in result.reason
    assert "1 silent (nothing for 60 s)" in result.reason
    assert " finished" in result.reason
    assert result.phase_s["measuring"] < MEASURE_S / 10


def test_no_token_and_bad_health_end_a_trial_before_the_silence_is_over(tmp_path: Path) -> None:
    silence_s = 200.0
    budget = replace(SWEEP.budget, silence_s=silence_s)
    sick = Behaviour(fault=Fault.STALL, faulty=measured(2, 8), sick_from=BEFORE + 2)
    result = trial(tmp_path, sick, sweep=replace(SWEEP, budget=budget))
    assert result.outcome is Outcome.HUNG
    assert "its health is bad" in result.reason
    assert "1 of two requests finished" in result.reason
    assert silence_s / 2 <= result.phase_s["measuring"] < silence_s


class Health:
    """Answers for a server that is asked for its health, and counts how often."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: bytes | None = None

    async def page(self, _: str) -> bytes | None:
        self.asked += 1
        return self.answer


def test_health_is_asked_only_while_no_token_comes_and_tokens_outweigh_it() -> None:
    tools, health = stand_in_tools(Behaviour(), HOST), Health()
    quiet_s, looks = 4 * LEAST_SILENCE_WALL_S * SCALE, 3
    with stream_server(lambda _: Script()) as server:
        server.page = health.page
        watch = ServerWatch(server.url, tools, 4 * quiet_s)
        for _ in range(looks):
            watch.take(_seen(0.5 * quiet_s))
            watch.take(_seen(3.5 * quiet_s), warming=True)
        assert health.asked == 0
        for _ in range(looks):  # bad, and then a token comes
            watch.take(_seen(1.5 * quiet_s))
            wait_until(lambda: health.asked == 1, "the question for its health")
        assert not watch.ends_pass
        watch.take(_seen(0.0))
        watch.take(_seen(2.5 * quiet_s))
        wait_until(lambda: _taken(watch, 2.5 * quiet_s), "the verdict")
    assert health.asked == 2
    assert watch.verdict.startswith("no token for")


def _taken(watch: ServerWatch, quiet_s: float) -> bool:
    watch.take(_seen(quiet_s))
    return watch.ends_pass


def _seen(quiet_s: float) -> PassProgress:
    return PassProgress(quiet_s, 100, (), (), 1, 0, quiet_s=quiet_s)


MISCOUNTS = {
    "usage beyond the text, in no time": (
        Behaviour(fault=Fault.STOPS_SHORT), "usage counts 64 tokens, but 27 came without a text",
    ),
    "a count that falls by far": (
        Behaviour(fault=Fault.FALLS, chunk_tokens=30), "the count fell from 61 to 58",
    ),
    "many more than were asked for": (
        Behaviour(fault=Fault.SURPLUS), "tokens were counted of at most 64",
    ),
    "more than a verify step can commit": (
        Behaviour(chunk_tokens=7, info={"speculative_num_draft_tokens": 4}),
        "7.00 tokens a verify step by the counts of the requests, of 4",
    ),
    "other counters than requests": (
        Behaviour(counts_factor=0.6),
        "generation_tokens_total rose by 307, and its requests tell of 512",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("behaviour", "says"), MISCOUNTS.values(), ids=MISCOUNTS)
def test_counts_that_contradict_each_other_make_no_rate(
    tmp_path: Path, behaviour: Behaviour, says: str
) -> None:
    result = trial(tmp_path, replace(behaviour, faulty=measured(1, 8)))
    assert result.outcome is Outcome.FAILED
    assert says in result.reason
    assert result.signature == MISCOUNTED
    assert not may_retry(result, 1, RETRYABLE)
    assert rank([result], "decode_tok_s", higher_is_better=True).best is None


DEVIATIONS = {
    "one token over the limit": (
        Behaviour(fault=Fault.SURPLUS_ONE), "the token counts of 8 of 8 requests disagree",
    ),
    "a last count two lower": (
        Behaviour(fault=Fault.LOWER_END), "the token counts of 8 of 8 requests disagree",
    ),
    "counters a little higher": (
        Behaviour(counts_factor=1.01), "generation_tokens_total rose by 517, and its requests",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("behaviour", "says"), DEVIATIONS.values(), ids=DEVIATIONS)
def test_small_deviations_of_counts_are_told_and_tolerated(
    tmp_path: Path, behaviour: Behaviour, says: str
) -> None:
    result = trial(tmp_path, behaviour)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert any(says in note for note in result.notes)
    assert result.value("accept_length") == pytest.approx(3.0, rel=0.02)


UNPROVED = {
    "a counter that a flush leaves": (
        Behaviour(keeps_count=True),
        "the server still tells an accept length of 3, so that nothing",
    ),
    "a counter that a flush leaves, and a prefix cache that it empties": (
        Behaviour(keeps_count=True, cached_tokens=0),
        "found none of its tokens in the prefix cache",
    ),
    "a flush without effect": (
        Behaviour(keeps_count=True, cached_tokens=5), "the first prompt after it found 5 tokens",
    ),
    "no account of its settings": (
        Behaviour(tells_settings=False), "no account of its settings: ",
    ),
    "usage at the end alone": (
        Behaviour(fault=Fault.LATE_COUNT),
        "measured through generate, since chat says: text came without a token count",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("behaviour", "says"), UNPROVED.values(), ids=UNPROVED)
def test_a_proof_that_cannot_be_had_is_a_note_and_no_failure(
    tmp_path: Path, behaviour: Behaviour, says: str
) -> None:
    result = trial(tmp_path, behaviour)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert any(says in note for note in result.notes), result.notes
    assert result.value("accept_length") == pytest.approx(3.0)


def test_a_healthy_server_that_refuses_every_token_is_not_waited_for(tmp_path: Path) -> None:
    result = trial(tmp_path, Behaviour(fault=Fault.ERROR_EVENT))
    assert result.outcome is Outcome.FAILED
    assert result.reason.startswith("the server is healthy, but generated no token that counts")
    assert "chat: the server reports: out of memory" in result.reason
    assert result.phase_s["starting"] < SWEEP.budget.start_s / 10


SPACE = """
from sweeps import *

sweep = Sweep(
    name="sick",
    model=Model("some/model"),
    axes=[Choice("speculative_algorithm", [None, "NGRAM"])],
    fixed={{"speculative_num_draft_tokens": 4}},
    workload=Workload(measured_prompts=8, most_measured_prompts=8,
                      cold_prompts=1, warming_passes=1, probe_s=0.0,
                      max_tokens=64),
    budget=Budget(trials=4, silence_s=60.0),
    hosts=[HostSpec(engine=EngineName.SGLANG, python={python!r}, gpus=0)],
    early_stopping=False,
    prediction=False,
    sampler="grid",
)
"""


@pytest.mark.timeout(300)
def test_a_sweep_does_not_end_with_a_winner_that_broke(tmp_path: Path) -> None:
    """As the command says it: NGRAM streams three times as fast until it breaks."""
    cold, warming = 1, 4
    breaks = Behaviour(
        dies_in=BEFORE + cold + warming + 4, lingers_s=2.0, last_lines=ILLEGAL, chunk_tokens=3
    )
    plainly = Behaviour(chunk_tokens=1, speculates=False)
    python = write_interpreter(tmp_path, {"": plainly, "NGRAM": breaks})
    (tmp_path / "sick.py").write_text(SPACE.format(python=str(python)))
    swept = run(tmp_path, "sweep", "sick.py", "--driver", "serial")
    assert swept.returncode == 0, swept.stdout + swept.stderr
    rows = json.loads(run(tmp_path, "trials", "--json").stdout)
    by_algorithm: dict[str | None, set[str]] = {}
    for row in rows:
        outcomes = by_algorithm.setdefault(row["config"]["speculative_algorithm"], set())
        outcomes.add(row["outcome"])
    assert by_algorithm == {None: {"measured"}, "NGRAM": {"infeasible"}}
    exported = run(tmp_path, "export", "--output", "serve.sh")
    assert exported.returncode == 0, exported.stderr
    assert "--speculative-algorithm" not in (tmp_path / "serve.sh").read_text()
