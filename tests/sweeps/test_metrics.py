"""The table of metrics: every row keeps the same promises."""

from dataclasses import replace

import pytest

from sweeps.metrics import METRICS, Metric, measure_all
from sweeps.records import EndReason, Measurement, PassRecord
from tests.sweeps import passes


def speculative() -> PassRecord:
    return passes.of(*[passes.steady(start_s=100.0 * i) for i in range(8)])


def plain() -> PassRecord:
    return passes.of(
        *[passes.steady(start_s=100.0 * i, per_step=1, verify=False) for i in range(8)]
    )


@pytest.fixture(params=METRICS)
def metric(request: pytest.FixtureRequest) -> Metric:
    return METRICS[request.param]


def test_a_row_is_whole(metric: Metric) -> None:
    assert METRICS[metric.name] is metric
    assert metric.unit
    assert metric.description[0].islower()


def test_a_row_measures_a_whole_trial(metric: Metric) -> None:
    estimate = metric.formula(Measurement(speculative(), speculative()))
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low <= estimate.value * (1 + 1e-9)
    assert estimate.value <= estimate.high * (1 + 1e-9)
    assert estimate.method


def test_a_row_invents_nothing(metric: Metric) -> None:
    nothing = PassRecord((), 1, 0.0, 0.0)
    estimate = metric.formula(Measurement(None, nothing))
    assert estimate is None or metric.name == "output_tokens"


def test_values_of_a_known_pass() -> None:
    values = {name: e.value for name, e in measure_all(Measurement(None, speculative())).items()}
    assert values == pytest.approx(
        {
            "decode_tok_s": 20, "accept_length": 2, "steps_per_s": 10, "cycle_ms": 100,
            "ttft_ms": 500, "tpot_ms": 50, "output_tokens": 8 * 801,
        }
    )  # fmt: skip


def test_a_rate_is_accept_length_times_steps() -> None:
    found = measure_all(Measurement(None, speculative()))
    product = found["accept_length"].value * found["steps_per_s"].value
    assert found["decode_tok_s"].value == pytest.approx(product)


def test_plain_decode_accepts_one_token_a_step() -> None:
    for known in (True, None):
        found = measure_all(Measurement(plain(), plain(), known))
        assert found["accept_length"].value == found["accept_length_cold"].value == 1
        assert found["decode_tok_s"].value == pytest.approx(found["steps_per_s"].value)


def test_unfinished_speculation_has_no_accept_length() -> None:
    cut = passes.of(passes.steady(end=EndReason.DEADLINE))
    for known in (False, None):
        found = measure_all(Measurement(cut, cut, known))
        assert {"decode_tok_s", "decode_tok_s_cold", "ttft_ms", "tpot_ms"} <= set(found)
        assert not {"accept_length", "accept_length_cold", "steps_per_s"} & set(found)


def test_unfinished_plain_decode_is_known_where_the_configuration_says_so() -> None:
    cut = passes.of(replace(passes.steady(end=EndReason.DEADLINE), finish_reason=""))
    found = measure_all(Measurement(None, cut, plain=True))
    assert found["accept_length"].value == 1
    assert found["steps_per_s"].value == pytest.approx(20)


def test_cold_and_warm_are_kept_apart() -> None:
    cold = passes.of(*[passes.steady(start_s=100.0 * i, per_step=1) for i in range(8)])
    found = measure_all(Measurement(cold, speculative()))
    assert found["decode_tok_s_cold"].value == pytest.approx(10)
    assert found["decode_tok_s"].value == pytest.approx(20)
    assert found["accept_length_cold"].value == pytest.approx(1)


def test_a_cycle_turns_its_interval_round() -> None:
    mixed = passes.of(*[passes.steady(start_s=100.0 * i, step_s=0.1 + 0.01 * i) for i in range(6)])
    cycle = measure_all(Measurement(None, mixed))["cycle_ms"]
    assert cycle.low is not None
    assert cycle.high is not None
    assert cycle.low < cycle.value < cycle.high
