"""tok/s taken apart, and whether its parts fit."""

from dataclasses import replace

import pytest

from sweeps.factors import best_plain_step, cross_check, factors_of
from sweeps.metrics import measure_all
from sweeps.records import Measurement
from sweeps.results import Estimate, TrialResult
from tests.sweeps import passes
from tests.sweeps.makers import estimate, ngram, plain, result


def with_estimates(made: TrialResult, **values: float) -> TrialResult:
    """Add numbers with an interval of 1 % to both sides."""
    more = {name: estimate(value, value * 0.01) for name, value in values.items()}
    return replace(made, estimates={**made.estimates, **more})


STORY = with_estimates(
    result(1, ngram(8)), decode_tok_s=41.0, accept_length=1.3, steps_per_s=31.54, cycle_ms=31.7
)
PLAIN = with_estimates(result(0, plain()), decode_tok_s=82.0, cycle_ms=12.2)


def test_the_founding_numbers() -> None:
    factors = factors_of(STORY, best_plain_step([PLAIN, STORY], "local"))
    assert factors is not None
    assert factors.break_even.value == pytest.approx(2.60, abs=0.005)
    assert factors.speed_up.value == pytest.approx(0.50, abs=0.005)
    assert factors.most_tok_s == pytest.approx(252, abs=1)
    assert factors.can_pay
    low, high = factors.break_even.low, factors.break_even.high
    assert low is not None
    assert high is not None
    assert low < 2.6 < high


def test_a_cycle_that_no_text_can_pay() -> None:
    slow = with_estimates(result(1, ngram(2)), accept_length=1.3, cycle_ms=31.7)
    factors = factors_of(slow, best_plain_step([PLAIN], "local"))
    assert factors is not None
    assert not factors.can_pay


def test_settings_that_speed_plain_decode_up_raise_the_bar() -> None:
    faster = with_estimates(result(2, plain(NCCL_PROTO="LL")), cycle_ms=11.0)
    elsewhere = replace(with_estimates(result(3, plain(NCCL_PROTO="LL")), cycle_ms=5.0), host="b")
    best = best_plain_step([PLAIN, faster, elsewhere], "local")
    assert best is not None
    assert best.value == 11.0


def test_what_is_not_known_is_not_taken_apart() -> None:
    step = best_plain_step([PLAIN], "local")
    assert factors_of(PLAIN, step) is None
    assert factors_of(STORY, None) is None
    assert factors_of(result(1, ngram(8), 41.0), step) is None
    assert best_plain_step([PLAIN], "another host") is None


def test_a_rate_and_its_factors_agree_within_two_percent() -> None:
    check = cross_check(STORY.estimates)
    assert check is not None
    assert check.agrees
    doubled = {**STORY.estimates, "decode_tok_s": estimate(82.0)}
    wrong = cross_check(doubled)
    assert wrong is not None
    assert not wrong.agrees
    assert wrong.gap_fraction == pytest.approx(-0.5, abs=0.01)
    both = cross_check(doubled, streams=2)
    assert both is not None
    assert both.agrees


@pytest.mark.parametrize("streams", [1, 4])
def test_the_factors_of_a_measured_pass_agree(streams: int) -> None:
    requests = [passes.steady() for _ in range(streams)]
    found: dict[str, Estimate] = measure_all(
        Measurement(None, passes.of(*requests, concurrency=streams))
    )
    check = cross_check(found, streams=streams)
    assert check is not None
    assert check.agrees
    assert cross_check({}) is None
