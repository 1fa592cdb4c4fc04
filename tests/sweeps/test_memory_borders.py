"""What a host has no memory for: learned from failures, refuted by what ran, and no dead end."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.sglang.signatures import LOG_SIGNATURES
from orchestrator.health import SweepHealth
from sweeps import Choice, IntRange
from sweeps.breaker import tripped
from sweeps.config import Config
from sweeps.memory_borders import MEMORY_FAULTS, MemoryBorder
from sweeps.results import Outcome, TrialResult
from sweeps.search.brief import Limits
from sweeps.search.planner import Planner
from sweeps.search.steps import Step
from sweeps.space import Space
from sweeps.speculation import speculation_beside_plain
from tests.sweeps.makers import SMALL, ngram, plain, result
from tests.sweeps.search.host import Host

SHARE, STEPS, STREAMS = "mem_fraction_static", "speculative_num_steps", "max_running_requests"


def config(share: float, steps: int, streams: int = 48, algorithm: str = "EAGLE3") -> Config:
    return Config.of(
        {"speculative_algorithm": algorithm, STEPS: steps, SHARE: share, STREAMS: streams}
    )


def out(number: int, asked: Config, fault: str = "oom_capture") -> TrialResult:
    return replace(result(number, asked, outcome=Outcome.INFEASIBLE), signature=fault)


def border(*results: TrialResult) -> MemoryBorder:
    made = MemoryBorder()
    for one in results:
        made.take(one)
    return made


def test_the_faults_are_those_that_logs_tell() -> None:
    assert {row.name for row in LOG_SIGNATURES} >= MEMORY_FAULTS


def test_all_that_asks_for_as_much_is_refused_and_nothing_else() -> None:
    found = border(out(7, config(0.85, 5)))
    assert "trial 7" in found.refusal(config(0.85, 5))
    assert "oom_capture" in found.refusal(config(0.9, 8))
    for fits in (config(0.8, 5), config(0.85, 4), config(0.9, 4), config(0.85, 5, 24),
                 config(0.9, 8, algorithm="EAGLE")):  # fmt: skip
        assert found.refusal(fits) == ""


def test_a_pool_that_is_too_small_is_bordered_from_the_other_side() -> None:
    found = border(out(1, config(0.7, 5), "no_kv_room"))
    assert found.refusal(config(0.6, 5))
    assert found.refusal(config(0.8, 5)) == ""


def test_what_ran_refutes_a_failure_that_asked_for_less() -> None:
    once = out(1, config(0.8, 5))
    assert border(once, result(2, config(0.85, 5), 90.0)).refusal(config(0.8, 5)) == ""
    assert border(once, result(2, config(0.7, 5), 90.0)).refusal(config(0.8, 5))


def test_a_default_is_like_no_amount() -> None:
    found = border(out(1, Config.of({**config(0.85, 5), STREAMS: None})))
    assert found.refusal(config(0.9, 8)) == ""
    assert found.refusal(Config.of({**config(0.9, 8), STREAMS: None}))


def test_settings_without_memory_do_not_hide_the_border() -> None:
    found = border(out(1, Config.of({**config(0.85, 5), "NCCL_PROTO": "LL"})))
    assert found.refusal(Config.of({**config(0.85, 6), "NCCL_PROTO": "Simple"}))
    assert "PROTO=LL and all that asks for more (oom_capture)" in next(found.lines())


@settings(deadline=None, max_examples=50)
@given(
    room=st.floats(0.3, 3.0), weights=st.tuples(*[st.floats(0.1, 1.0)] * 3), seed=st.integers(0, 99)
)
def test_nothing_that_fits_is_ever_refused_where_memory_only_grows(
    room: float, weights: tuple[float, float, float], seed: int
) -> None:
    def fits(share: float, steps: int, streams: int) -> bool:
        asked = (share, steps / 24, streams / 96)
        return sum(w * a for w, a in zip(weights, asked, strict=True)) <= room * 0.5

    draw = random.Random(seed)
    points = [
        (draw.choice([0.5, 0.6, 0.7, 0.8, 0.9]), draw.randint(1, 24), draw.choice([8, 24, 48, 96]))
        for _ in range(120)
    ]
    found, failures = MemoryBorder(), 0
    for number, point in enumerate(points):
        refused = found.refusal(config(*point))
        assert not (refused and fits(*point))
        if not refused:
            failures += not fits(*point)
            ran = result(number, config(*point), 90.0)
            found.take(ran if fits(*point) else out(number, config(*point)))
    assert failures <= 40  # of up to 120: the rest was known beforehand


def test_lack_of_memory_never_ends_a_sweep_and_is_not_asked_for_again() -> None:
    baseline = result(0, plain(), 80.0, purpose="baseline")
    failed = [out(i, config(0.85, 30 - i)) for i in range(1, 13)]
    assert tripped([baseline, *failed], ["local"]) is None
    unknown = [replace(one, signature="") for one in failed]
    assert "failed in a row" in str(tripped([baseline, *unknown], ["local"]))
    health = SweepHealth(SMALL)
    health.look([baseline, *failed])
    assert health.trouble is None
    assert "found no room" in health.why_closed(config(0.9, 18))
    assert health.why_closed(config(0.85, 17)) == ""
    assert len(health.no_room) == 1


SPACE = Space(
    (
        Choice("speculative_algorithm", [None, "EAGLE3"]),
        IntRange(STEPS, 2, 8, {"speculative_algorithm": "EAGLE3"}),
        Choice("speculative_eagle_topk", [1], {"speculative_algorithm": "EAGLE3"}),
        Choice(SHARE, [0.9, 0.85, 0.8, 0.7]),
    )
)


class Tight(Host):
    """A host on which EAGLE3 finds memory at a smaller share alone, and is then the best."""

    def cycle_ms(self, config: Config) -> float:
        return 12.0 if config.is_plain else 14.0

    def accept(self, config: Config) -> float:
        return 1.0 if config.is_plain else 1.8

    def trial(self, number: int, step: Step) -> TrialResult:
        made = super().trial(number, step)
        share = made.config[SHARE]
        if made.config.is_plain or not isinstance(share, float) or share < 0.72:
            return made
        return replace(made, outcome=Outcome.INFEASIBLE, signature="oom_capture", estimates={})


@pytest.mark.parametrize("seed", range(4))
def test_an_algorithm_without_room_is_found_where_it_asks_for_less(seed: int) -> None:
    found, host = MemoryBorder(), Tight()
    history: list[TrialResult] = []
    ours = Planner(SPACE, canonical=Config.of, refusal=found.refusal, seed=seed, limits=Limits(24))
    while len(history) < 24 and (step := ours.next(history)) is not None:
        history.append(host.trial(len(history), step))
        found.take(history[-1])
    rates = [(r.value("decode_tok_s") or 0.0, r.config) for r in history]
    assert not max(rates, key=lambda pair: pair[0])[1].is_plain
    failed = [r for r in history if r.outcome is Outcome.INFEASIBLE]
    assert 1 <= len(failed) <= 3
    drafted = [r.outcome for r in history if not r.config.is_plain]
    assert drafted[:2] == [Outcome.INFEASIBLE, Outcome.MEASURED]  # at once where it asks for least


def test_it_did_not_pay_is_said_of_what_was_measured_alone() -> None:
    base = result(0, plain(), 80.0, purpose="baseline")
    assert speculation_beside_plain([base, result(1, plain(NCCL_PROTO="LL"), 70.0)]) == ""
    assert speculation_beside_plain([base, out(1, ngram(4)), out(2, ngram(5))]) == (
        "speculation was not measured: 2 infeasible"
    )
    cut = result(3, ngram(6), outcome=Outcome.CANCELLED)
    assert speculation_beside_plain([base, cut]) == ""
    stopped = replace(result(4, ngram(4), outcome=Outcome.STOPPED), bound=60.0)
    said = speculation_beside_plain(
        [base, stopped, result(5, ngram(3), 70.0), out(6, config(1, 2))]
    )
    assert said == (
        "speculation did not pay in two variants that had a measurement; one algorithm had none"
    )
