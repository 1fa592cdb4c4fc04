"""The table of metrics: every row keeps the same promises."""

from dataclasses import replace

import pytest

from sweeps.buckets import BUCKETS, bucket
from sweeps.metrics import (
    KINDS,
    METRICS,
    Metric,
    Of,
    length_name,
    loaded_name,
    measure_all,
    metric_named,
    steps_set_aside,
)
from sweeps.records import Baseline, EndReason, Measurement, PassRecord
from tests.sweeps import passes
from tests.sweeps.passes import ends


def speculative() -> PassRecord:
    return passes.of(*[passes.steady(start_s=100.0 * i) for i in range(8)])


def plain() -> PassRecord:
    return passes.of(
        *[passes.steady(start_s=100.0 * i, per_step=1, verify=False) for i in range(8)]
    )


def told(record: PassRecord) -> PassRecord:
    """Add what a server may tell of each request."""
    requests = [
        replace(r, prompt_tokens=100 * (i + 1), cached_tokens=64, queue_s=0.002)
        for i, r in enumerate(record.requests)
    ]
    return replace(record, requests=tuple(requests))


def whole(one_pass: PassRecord) -> Measurement:
    """Make a trial of which everything is known."""
    many = replace(one_pass, requests=one_pass.requests * 5)
    return Measurement(
        told(one_pass), told(many), probe=one_pass, open_loop=told(many),
        baseline=Baseline(40.0, 39.0, 41.0),
    )  # fmt: skip


@pytest.fixture(params=METRICS)
def metric(request: pytest.FixtureRequest) -> Metric:
    return METRICS[request.param]


def test_a_row_is_whole(metric: Metric) -> None:
    assert METRICS[metric.name] is metric
    assert metric.unit
    assert metric.description[0].islower()


def test_a_row_measures_a_whole_trial(metric: Metric) -> None:
    one_pass = plain() if metric.name == "itl_ms" else speculative()
    estimate = metric.formula(whole(one_pass))
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
            "ttft_ms": 500, "tpot_ms": 50, "output_tokens": 8 * 801, "stream_tok_s": 20,
            "output_tok_s": 801 / 40.5, "chunk_gap_ms": 100, "chunk_gap_p90_ms": 100,
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
        found = measure_all(Measurement(cut, cut, known, baseline=Baseline(40.0)))
        assert {"decode_tok_s", "decode_tok_s_cold", "ttft_ms", "tpot_ms"} <= set(found)
        unknown = {"accept_length", "accept_length_cold", "steps_per_s", "break_even", "speed_up"}
        assert not unknown & set(found)


def test_with_a_probe_a_pass_that_was_cut_short_still_tells_its_accept_length() -> None:
    probe = passes.of(passes.request([1.0, 21.0, 41.0], [1, 201, 401], verify_steps=400))
    cut = passes.of(passes.steady(per_step=3, steps=800, end=EndReason.DEADLINE))
    found = measure_all(Measurement(None, cut, plain=False, probe=probe, baseline=Baseline(50.0)))
    assert found["accept_length"].value == pytest.approx(3)
    assert found["accept_length"].provisional
    assert "step rate of the probe" in found["accept_length"].method
    assert found["break_even"].value == pytest.approx(2)
    assert found["speed_up"].value == pytest.approx(1.5)


def test_a_probe_at_another_load_says_nothing_of_this_one() -> None:
    faster = passes.of(*[passes.steady(start_s=0.5 + i, step_s=0.05) for i in range(4)])
    m = Measurement(None, speculative(), probe=replace(faster, concurrency=4))
    assert measure_all(m)["steps_per_s"].value == pytest.approx(10)
    m = Measurement(None, speculative(), probe=passes.of(passes.steady(step_s=0.102)))
    steps = measure_all(m)["steps_per_s"]
    assert 1 / 0.102 < steps.value < 10
    assert "with step probe: " in steps.method


def test_a_probe_that_the_measured_pass_refutes_is_set_aside() -> None:
    m = Measurement(None, speculative(), probe=passes.of(passes.steady(step_s=0.05)))
    assert measure_all(m)["steps_per_s"].value == pytest.approx(10)
    unlike = steps_set_aside(m)
    assert unlike is not None
    assert [reading.value for reading in unlike] == pytest.approx([20, 10])


def test_steps_of_unfinished_requests_are_counted_where_other_passes_show_what_a_chunk_is() -> None:
    cut = passes.of(passes.steady(per_step=3, end=EndReason.DEADLINE))
    found = measure_all(Measurement(speculative(), cut))
    assert found["accept_length"].value == pytest.approx(3)
    assert found["steps_per_s"].value == pytest.approx(10)
    assert "by their chunks" in found["steps_per_s"].method


def test_a_gain_is_no_surer_than_the_baseline() -> None:
    mixed = passes.of(*[passes.steady(start_s=100.0 * i, step_s=0.1 + 0.01 * i) for i in range(6)])
    sure = measure_all(Measurement(None, mixed, baseline=Baseline(50.0, 50.0, 50.0)))
    unsure = measure_all(Measurement(None, mixed, baseline=Baseline(50.0, 45.0, 55.0)))
    bare = measure_all(Measurement(None, mixed, baseline=Baseline(50.0)))
    for name in ("break_even", "speed_up"):
        (a, b), (c, d) = ends(sure[name]), ends(unsure[name])
        assert d - c > b - a
        assert (bare[name].low, bare[name].high) == (None, None)
        assert bare[name].value == pytest.approx(sure[name].value)
    assert "speed_up" not in measure_all(Measurement(None, mixed))


def test_plain_decode_gains_what_its_steps_gain() -> None:
    found = measure_all(Measurement(None, plain(), plain=True, baseline=Baseline(120.0, 119, 121)))
    assert found["speed_up"].value == pytest.approx(1.2)
    assert found["break_even"].value == pytest.approx(1 / 1.2)


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


def loaded(concurrency: int) -> PassRecord:
    """Make a closed loop in two waves, all slots taken most of the time."""
    waves = [
        passes.steady(start_s=0.5 + 0.1 * i + 40.6 * wave) for wave in (0, 1)
        for i in range(concurrency)
    ]  # fmt: skip
    return passes.of(*waves, concurrency=concurrency)


def test_each_loaded_pass_has_metrics_of_its_own() -> None:
    found = measure_all(Measurement(None, speculative(), loaded=(loaded(2), loaded(8))))
    assert found["decode_tok_s_c2"].value == pytest.approx(2 * 20, rel=0.02)
    assert found["decode_tok_s_c8"].value == pytest.approx(8 * 20, rel=0.02)
    assert found["stream_tok_s_c8"].value == pytest.approx(20)
    assert found["cycle_ms_c8"].value == pytest.approx(100)
    assert found["accept_length_c2"].value == pytest.approx(2)
    assert found["output_tok_s_c8"].value > found["decode_tok_s_c8"].value
    assert "8 streams pooled at full concurrency" in found["decode_tok_s_c8"].method
    assert {loaded_name(kind.name, 8) for kind in KINDS if Of.LOADED in kind.also} >= {
        name for name in found if name.endswith("_c8")
    }


def test_rates_are_told_for_each_length_of_prompt_that_there_was() -> None:
    short = [replace(passes.steady(start_s=100.0 * i), prompt_tokens=512) for i in range(3)]
    long = [
        replace(passes.steady(start_s=300 + 100.0 * i, step_s=0.2), prompt_tokens=4000)
        for i in range(3)
    ]
    unknown = passes.steady(start_s=900.0, step_s=1.0)
    found = measure_all(Measurement(None, passes.of(*short, *long, unknown)))
    rates = {name: e.value for name, e in found.items() if "_prompts_" in name}
    assert rates == pytest.approx(
        {
            length_name("stream_tok_s", bucket(512)): 20,
            length_name("stream_tok_s", bucket(4000)): 10,
        }
    )
    assert (bucket(0), bucket(513), bucket(10**6)) == (BUCKETS[0], BUCKETS[1], BUCKETS[-1])


def test_every_reported_name_is_a_metric_with_a_unit() -> None:
    m = replace(whole(speculative()), loaded=(loaded(4),))
    for name, estimate in measure_all(m).items():
        metric = metric_named(name)
        assert metric is not None
        assert metric.name == name
        assert metric.formula(m) == estimate
    for name in ("decode_tok_s_c", "decode_tok_s_cx", "decode_tok_s_", "speed_up_c4", "nothing",
                 "stream_tok_s_prompts_to_7", "output_tokens_c4"):  # fmt: skip
        assert metric_named(name) is None


def test_counts_of_the_server_are_exact() -> None:
    found = measure_all(whole(speculative()))
    assert (found["cached_tokens"].value, found["cached_tokens_cold"].value) == (40 * 64, 8 * 64)
    assert found["queue_ms"].value == pytest.approx(2)


def test_a_cycle_turns_its_interval_round() -> None:
    mixed = passes.of(*[passes.steady(start_s=100.0 * i, step_s=0.1 + 0.01 * i) for i in range(6)])
    cycle = measure_all(Measurement(None, mixed))["cycle_ms"]
    assert cycle.low is not None
    assert cycle.high is not None
    assert cycle.low < cycle.value < cycle.high
