"""The passes of a trial: their order, what each is for, and what becomes of a broken variant."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import simulation
from orchestrator.course import Course, why_unmeasured
from orchestrator.job import TrialJob
from orchestrator.load_client.seam import PassProgress
from orchestrator.simulation import simulated_tools
from orchestrator.trial import run_trial
from sweeps import Budget, Choice, EngineName, HostSpec, IntRange, Model, Sweep, Workload
from sweeps.config import Config
from sweeps.quality import Verdict
from sweeps.ranking import rank
from sweeps.records import Baseline, PassRecord
from sweeps.results import Outcome, Phase, TrialResult
from sweeps.values import Value
from tests.orchestrator.running import sweep_run
from tests.orchestrator.test_simulation import Follower
from tests.sweeps.passes import of, request

pytestmark = pytest.mark.slow

NGRAM: dict[str, Value] = {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 4}
PLAIN: dict[str, Value] = {"speculative_algorithm": None}
WORK = Workload(
    prompts="code",
    max_tokens=256,
    cold_prompts=4,
    measured_prompts=6,
    most_measured_prompts=6,
    concurrencies=(2, 4),
)
SWEEP = Sweep(
    name="course",
    model=Model("any/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 3, {"speculative_algorithm": "NGRAM"}),
    ],
    fixed={"tp_size": 8},
    workload=WORK,
    budget=Budget(trials=3, trial_s=1e6),
    hosts=[HostSpec(engine=EngineName.EMULATED)],
)


def trial(
    folder: Path, config: dict[str, Value], sweep: Sweep = SWEEP, baseline: Baseline | None = None
) -> TrialResult:
    host = sweep.hosts[0]
    job = TrialJob("c-1", "c", 1, sweep, Config.of(config), host, folder, baseline=baseline)
    return run_trial(job, simulated_tools(), Follower())


def spool(folder: Path, kind: str) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (folder / "spool.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def phases(folder: Path) -> list[object]:
    return [line["phase"] for line in spool(folder, "phase")]


def test_a_speculative_trial_makes_every_pass(tmp_path: Path) -> None:
    work = replace(WORK, requests_per_s=0.5, open_loop_prompts=4)
    result = trial(tmp_path, NGRAM, replace(SWEEP, workload=work), Baseline(12.2, 12.1, 12.3))
    assert result.outcome is Outcome.MEASURED, result.reason
    made = phases(tmp_path)
    assert made[1:5] == ["warming", "step probe", "step probe", "step probe"]
    assert made[5] == "cold pass"
    before = made.index("measuring")
    warmings = made[:before].count("generated warm-up")
    assert 2 <= warmings <= work.warming_passes
    # Each load begins where the measured pass began: the cold prompts and as many warm-ups.
    again = ["generated warm-up"] * (1 + warmings)
    assert made[before:] == [
        "measuring", *again, "loaded pass", *again, "loaded pass", *again, "open loop",
        "stopping", "clean",
    ]  # fmt: skip
    for metric in ("steps_per_s", "accept_length_cold", "decode_tok_s_c2", "decode_tok_s_c4",
                   "ttft_ms_open"):  # fmt: skip
        assert result.value(metric) is not None, metric
    rate, length, steps = (
        result.estimates[m].value for m in ("decode_tok_s", "accept_length", "steps_per_s")
    )
    assert length * steps == pytest.approx(rate, rel=0.03)
    speed_up, break_even = result.value("speed_up"), result.value("break_even")
    assert speed_up is not None
    assert break_even is not None
    assert speed_up * break_even == pytest.approx(length, rel=0.01)
    assert not any("accept length x steps/s" in note for note in result.notes)


LONG = replace(
    WORK, concurrencies=(), measured_prompts=2, most_measured_prompts=None, probe_s=0
)  # fmt: skip


def measured(folder: Path) -> list[dict[str, object]]:
    return [line for line in spool(folder, "request") if line["phase"] == "measuring"]


@pytest.mark.parametrize("streams", [1, 2])
def test_a_measured_pass_goes_on_as_long_as_that_pays(tmp_path: Path, streams: int) -> None:
    work = replace(LONG, concurrency=streams, measured_prompts=3 * streams)
    result = trial(tmp_path, PLAIN, replace(SWEEP, workload=work))
    assert result.outcome is Outcome.MEASURED, result.reason
    requests = measured(tmp_path)
    assert len(requests) > work.measured_prompts
    assert {line["end"] for line in requests} == {"finished"}  # none is cut by the limit
    rate = result.estimates["decode_tok_s"]
    assert not rate.provisional
    told = [line["prompt_key"] for line in spool(tmp_path, "request")]
    assert len(set(told)) == len(told)


def test_a_measured_pass_keeps_to_its_most_prompts_and_its_time(tmp_path: Path) -> None:
    few, brief = (tmp_path / name for name in ("few", "brief"))
    trial(few, PLAIN, replace(SWEEP, workload=replace(LONG, most_measured_prompts=3)))
    assert len(measured(few)) == 3
    work = replace(LONG, measure_s=30.0)
    trial(brief, PLAIN, replace(SWEEP, workload=work))
    ends = [line["end"] for line in measured(brief)]
    assert len(ends) > 2
    assert ends.count("deadline") <= 1  # one that was likely to end before


def test_plain_decode_has_nothing_to_settle(tmp_path: Path) -> None:
    result = trial(tmp_path, PLAIN)
    assert result.outcome is Outcome.MEASURED
    assert "generated warm-up" not in phases(tmp_path)
    assert result.value("accept_length") == 1


def test_no_prompt_is_measured_twice_and_only_warm_ups_are_repeated(tmp_path: Path) -> None:
    trial(tmp_path, NGRAM)
    lines = spool(tmp_path, "request")
    keys = [line.get("prompt_key") for line in lines]
    assert all(keys)
    told = [line["prompt_key"] for line in lines if line["phase"] != "generated warm-up"]
    assert len(set(told)) == len(told)
    warmed = {line["prompt_key"] for line in lines if line["phase"] == "generated warm-up"}
    cold = {line["prompt_key"] for line in lines if line["phase"] == "cold pass"}
    assert warmed & set(told) == cold


def test_a_trial_out_of_time_says_which_passes_it_lacks(tmp_path: Path) -> None:
    whole = trial(tmp_path / "whole", PLAIN)
    loaded_s = whole.phase_s["loaded pass"]
    spent_s = sum(s for name, s in whole.phase_s.items() if name not in ("stopping", "clean"))
    budget = replace(SWEEP.budget, trial_s=spent_s - loaded_s * 0.9)
    result = trial(tmp_path / "cut", PLAIN, replace(SWEEP, budget=budget))
    assert result.outcome is Outcome.MEASURED
    assert "4 streams" in result.reason
    assert result.value("decode_tok_s") == pytest.approx(whole.value("decode_tok_s"), rel=0.02)
    assert result.value("decode_tok_s_c4") is None


def test_broken_text_is_marked_and_never_recommended(tmp_path: Path) -> None:
    world = tmp_path / "world.toml"
    world.write_text("[speed]\ncorrupt_verify = true\n")
    host = replace(SWEEP.hosts[0], scenario=str(world))
    run = sweep_run(
        replace(SWEEP, hosts=[host], early_stopping=False,
                workload=replace(WORK, concurrencies=(), measured_prompts=2,
                                 most_measured_prompts=2)),
        tmp_path,
    )  # fmt: skip
    simulation.drive(run)
    verdicts = {result.config.algorithm: result.quality for result in run.results}
    assert verdicts == {None: Verdict.SAME, "NGRAM": Verdict.BROKEN}
    ranking = rank(run.results, "decode_tok_s", higher_is_better=True)
    assert [standing.config.is_plain for standing in ranking.standings] == [True]


def test_sound_text_is_the_same_and_survives_a_resume(tmp_path: Path) -> None:
    sweep = replace(SWEEP, early_stopping=False, workload=replace(WORK, concurrencies=()))
    run = sweep_run(sweep, tmp_path)
    simulation.drive(run)
    assert {result.quality for result in run.results} == {Verdict.SAME}
    again = sweep_run(sweep, tmp_path)
    assert [result.quality for result in again.results] == [r.quality for r in run.results]


def test_a_pass_that_still_warms_up_is_noted(tmp_path: Path) -> None:
    rates_per_s = [20 + 2 * min(second, 30) + second % 3 for second in range(90)]
    times_s = [float(second) for second in range(90)]
    tokens = [sum(rates_per_s[: second + 1]) for second in range(90)]
    course = Course(WORK, simulated_tools().client, "", 60.0, True, Idle())
    chunks = [(t + part / 10, n + part) for t, n in zip(times_s, tokens, strict=True)
              for part in range(10)]  # fmt: skip
    course.measured = of(request([t for t, _ in chunks], [n for _, n in chunks]))
    (note,) = course.notes({})
    assert "rose" in note


class Idle:
    """A stage on which nothing happens."""

    def enter(self, phase: Phase) -> None: ...

    def left_s(self) -> float:
        return 1e6

    def spent_s(self) -> float:
        return 0.0

    def should_stop(self) -> bool:
        return False

    def progress(self, seen: PassProgress) -> None: ...

    def keep(self, record: PassRecord) -> None: ...

    def flush(self) -> None: ...


def test_answers_without_a_time_between_tokens_are_told_from_none(tmp_path: Path) -> None:
    short = replace(SWEEP, workload=replace(WORK, max_tokens=1, concurrencies=()))
    result = trial(tmp_path, PLAIN, short)
    assert result.outcome is Outcome.FAILED
    assert result.reason.startswith("6 tokens came, all of an answer at once")
    assert "workload.max_tokens" in result.reason
    assert "decode_tok_s" not in result.estimates
    assert why_unmeasured(None) == why_unmeasured(of()) == "no token was measured"


def test_a_load_is_measured_alike_wherever_it_stands_on_its_ladder(tmp_path: Path) -> None:
    found = []
    for name, loads in (("up", (2, 4, 16)), ("down", (16, 4, 2))):
        folder = tmp_path / name
        folder.mkdir()
        work = replace(
            WORK, concurrencies=loads, measured_prompts=12, most_measured_prompts=12, probe_s=0
        )
        found.append(trial(folder, NGRAM, replace(SWEEP, workload=work)))
        assert phases(folder).count("loaded pass") == 3
    up, down = found
    for load in (2, 4, 16):
        lengths = [result.estimates[f"accept_length_c{load}"].value for result in found]
        assert lengths[1] == pytest.approx(lengths[0], rel=0.005)
        rates = [result.estimates[f"decode_tok_s_c{load}"].value for result in found]
        assert rates[1] == pytest.approx(rates[0], rel=0.04)  # steps differ from one to the next
    for result in (up, down):
        assert any("each load began with an emptied cache" in note for note in result.notes)


def test_plain_decode_has_no_cache_to_prepare(tmp_path: Path) -> None:
    result = trial(tmp_path, PLAIN)
    assert phases(tmp_path).count("generated warm-up") == 0
    assert not [note for note in result.notes if "cache" in note]
