"""Step times by parts: what five starts say of all widths, and what they leave open."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from sweeps.config import Config
from sweeps.prediction.cost_fit import CostFit, growth
from sweeps.prediction.observations import Observation, Work
from sweeps.values import Value

PLAIN_MS, SPREAD = 12.0, 0.015
DEFAULT: Mapping[str, Value] = {"NCCL_PROTO": None, "NCCL_ALGO": None}
LL = Config.of({**DEFAULT, "NCCL_PROTO": "LL"})
Cost = Callable[[int], float]


def payload(width: int) -> float:
    return PLAIN_MS + (width > 1) * 1.7 + 2.4 * (width - 1)


def experts_and_jump(width: int) -> float:
    jump = 9.0 if width > 2 else 0.0
    return PLAIN_MS + (width > 1) * 1.7 + 20.0 * growth(width) + 0.3 * (width - 1) + jump


def no_graph(width: int) -> float:
    return PLAIN_MS + (width > 1) * 11.4 + 18.0 * growth(width) + 0.4 * (width - 1)


HOSTS = (payload, experts_and_jump, no_graph)


def work(width: int, serving: Mapping[str, Value] = DEFAULT, batch: int = 1) -> Work:
    return Work("NGRAM" if width > 1 else None, width, Config.of(serving), batch)


def seen(cost: Cost, widths: Sequence[int], seed: int = 0) -> list[Observation]:
    rng = np.random.default_rng(seed)
    return [Observation(work(w), cost(w) * math.exp(rng.normal(0, SPREAD)), SPREAD) for w in widths]


def fitted(observed: Sequence[Observation], **more: object) -> CostFit:
    return CostFit(observed, Config.of(DEFAULT), PLAIN_MS, curves=(LL,), **more)  # type: ignore[arg-type]


def test_five_starts_predict_every_width_within_a_few_percent_and_say_how_sure_they_are() -> None:
    errors, covered = [], []
    for cost in HOSTS:
        for seed in range(4):
            fit = fitted(seen(cost, (1, 2, 4, 8, 32), seed))
            for width in range(2, 33):
                found = fit.cycle_ms(work(width))
                errors.append(abs(found.value / cost(width) - 1))
                covered.append((found.low or 0) <= cost(width) <= (found.high or 0))
    assert np.median(errors) < 0.02
    assert np.quantile(errors, 0.95) < 0.05
    assert np.mean(covered) > 0.9


@pytest.mark.parametrize("cost", HOSTS)
def test_no_draw_says_that_more_tokens_are_faster(cost: Cost) -> None:
    fit = fitted(seen(cost, (1, 4, 2)), seed=3)
    draws = np.exp(fit.log_cycles([work(w) for w in (2, 3, 4, 8, 16, 32)]))
    assert (draws > 0).all()
    slack = 1.05  # what each width may have of its own
    assert (draws[:, 1:] * slack > draws[:, :-1]).all()


def test_where_a_jump_may_be_the_interval_holds_both_sides() -> None:
    fit = fitted(seen(experts_and_jump, (1, 2, 4, 8, 32)))
    between, beyond = fit.cycle_ms(work(3)), fit.cycle_ms(work(5))
    assert between.high is not None
    assert between.low is not None
    assert between.low < experts_and_jump(3) - 8 < experts_and_jump(3) < between.high
    assert (beyond.high or 0) / (beyond.low or 1) < 1.1


def test_what_was_not_measured_is_wider_than_what_was() -> None:
    fit = fitted(seen(payload, (1, 4)))

    def width_of_interval(asked: Work) -> float:
        found = fit.cycle_ms(asked)
        return math.log((found.high or 1) / (found.low or 1))

    assert width_of_interval(work(1)) < width_of_interval(work(4)) * 1.5
    assert width_of_interval(work(4)) < width_of_interval(work(16))
    assert width_of_interval(work(4)) < width_of_interval(work(4, LL))
    ring = {**DEFAULT, "NCCL_ALGO": "Ring"}
    assert width_of_interval(work(4, ring)) < width_of_interval(work(4, LL))


def test_a_batch_verifies_as_many_tokens_as_a_wider_draft() -> None:
    observed = [*seen(payload, (1, 2, 4, 8, 32)), Observation(work(4, batch=4), 53.0, SPREAD)]
    found = fitted(observed).cycle_ms(work(2, batch=4))
    assert 0.85 * payload(8) < found.value < 1.25 * payload(8)


def test_before_any_trial_only_what_is_expected_is_said() -> None:
    found = fitted([]).cycle_ms(work(8))
    assert found.low is not None
    assert found.high is not None
    assert found.low < PLAIN_MS * 1.6
    assert found.high > PLAIN_MS * 2.6
