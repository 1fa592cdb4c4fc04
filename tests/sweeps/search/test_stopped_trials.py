"""What a trial teaches that was stopped in its probe, and what a start is worth that may be."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.config import Config
from sweeps.results import Estimate, Outcome, TrialResult
from sweeps.search.beliefs import Lessons, expected_gain
from sweeps.search.brief import Foresight
from sweeps.search.evidence import gather
from sweeps.search.planner import Planner
from sweeps.search.roles import width_of
from sweeps.search.steps import Purpose, Step
from sweeps.values import Value
from tests.sweeps.search.host import BREADTH, PROTO, SPACE, WIDTH, Host, canonical


def stopped(at: TrialResult, steps_per_s: float) -> TrialResult:
    """Return a trial as the step probe leaves it that ends it."""
    low, high = steps_per_s * 0.98, steps_per_s * 1.02
    steps = Estimate(steps_per_s, low, high, 15.0, "step probe", True)
    cycle = Estimate(1000 / steps_per_s, 1000 / high, 1000 / low, 15.0, "step probe", True)
    return replace(at, outcome=Outcome.STOPPED, estimates={"steps_per_s": steps, "cycle_ms": cycle})


def drafted(width: int, breadth: int, proto: str | None = None) -> Config:
    values: dict[str, Value] = {WIDTH: width, BREADTH: breadth, PROTO: proto}
    values["speculative_algorithm"] = "NGRAM"
    return canonical(Config.of({**SPACE.plain(), **values}))


def started(number: int, config: Config) -> TrialResult:
    return Host(noise=0.0).trial(number, Step(config, Purpose.SEARCH, ""))


@given(
    st.sampled_from([2, 4, 8]),
    st.sampled_from([None, "LL", "Simple"]),
    st.floats(5.0, 200.0),
    st.booleans(),
)
@settings(max_examples=20, deadline=None)
def test_a_stopped_step_rate_moves_what_is_believed_of_all_such_steps_towards_it(
    width: int, proto: str | None, steps_per_s: float, by_parts: bool
) -> None:
    planner = Planner(SPACE, canonical=canonical, foresight=Foresight(on=by_parts))
    before = [started(0, canonical(SPACE.plain())), started(1, drafted(3, 1))]
    after = [*before, stopped(started(2, drafted(width, 1, proto)), steps_per_s)]
    alike = [drafted(width, breadth, proto) for breadth in (1, 2) if breadth <= width]
    expected, _ = cycles(planner, before, alike)
    learnt, _ = cycles(planner, after, alike)
    told = -math.log(steps_per_s)
    for was, now in zip(expected, learnt, strict=True):
        assert abs(now - told) <= abs(was - told) + 0.005  # chance of the draws
        if abs(was - told) > 0.1:
            assert abs(now - told) < 0.7 * abs(was - told)


def cycles(
    planner: Planner, history: list[TrialResult], configs: list[Config]
) -> tuple[list[float], list[float]]:
    look = planner._view(history, ()).models.cycle.at(configs)
    return look.mean.tolist(), look.variance.tolist()


def test_what_was_stopped_has_a_step_time_and_no_rate() -> None:
    plain, cut = started(0, canonical(SPACE.plain())), drafted(4, 1)
    evidence = gather([plain, stopped(started(1, cut), 40.0)], canonical, "decode_tok_s")
    variant = evidence.variants[cut]
    assert variant.cycle.value == pytest.approx(-math.log(40.0))
    assert variant.accept is None
    assert not variant.may_lead
    assert evidence.stopped_gpu_hours <= evidence.gpu_hours
    assert width_of(variant.config) == 4


def test_a_probe_tells_the_accept_length_of_a_chain_and_not_of_a_drafter_that_learns() -> None:
    probed = Estimate(1.5, 1.45, 1.55, 15.0, "step probe", True)
    for algorithm, known in (("EAGLE3", True), ("NGRAM", False)):
        config = Config.of({"speculative_algorithm": algorithm, "speculative_num_steps": 2})
        cut = stopped(started(1, drafted(4, 1)), 40.0)
        cut = replace(
            cut, config=config, estimates={**cut.estimates, "accept_length_probe": probed}
        )
        (start,) = gather([cut], lambda c: c, "decode_tok_s").starts
        assert (start.accept is not None) is known


def test_what_the_probe_will_end_is_worth_nothing() -> None:
    lessons = Lessons(np.array([0.02]), np.array([0.1]), np.array([0.1]))
    near, far = np.array([-0.05]), np.array([-0.6])
    gain, ends = lessons.worth(near, np.array([-0.06]))
    assert gain[0] == pytest.approx(expected_gain(near, np.hypot(0.02, 0.1))[0], rel=0.05)
    assert ends[0] < 0.01
    gain, ends = lessons.worth(far, np.array([-0.06]))
    assert gain[0] == 0.0
    assert ends[0] == pytest.approx(1.0)
