"""Latencies: what they count from, what is no latency of a token, and whose they are."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sweeps import latencies
from sweeps.percentiles import (
    independent_count,
    median_interval,
    percentile_interval,
    requests_needed,
)
from sweeps.records import EndReason, RequestRecord
from tests.sweeps import passes
from tests.sweeps.passes import known


def test_ttft_counts_those_that_still_wait_as_longer() -> None:
    seen = [passes.request([float(i), i + 1.0], [1, 2], sent_s=i - 0.1 * i) for i in range(1, 8)]
    estimate = known(latencies.ttft(passes.of(*seen)))
    assert estimate.value == pytest.approx(400)
    waiting = RequestRecord(0.0, (), (), EndReason.DEADLINE, 5.0)
    hardly = RequestRecord(0.0, (), (), EndReason.DEADLINE, 0.01)
    failed = RequestRecord(0.0, (), (), EndReason.BROKEN, 0.01)
    assert known(latencies.ttft(passes.of(*seen, waiting, failed))).value == pytest.approx(500)
    assert known(latencies.ttft(passes.of(*seen, hardly))).value == pytest.approx(400)
    assert latencies.ttft(passes.of(waiting)) is None


def test_tpot_is_time_per_token_not_per_chunk() -> None:
    assert known(latencies.tpot(passes.of(passes.steady()))).value == pytest.approx(50)
    assert latencies.tpot(passes.of(passes.request([1.0], [4]))) is None


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_a_median_lies_in_its_interval(values: list[float]) -> None:
    interval = median_interval(values)
    assert (interval.low is None) == (len(values) < 6)
    if interval.low is not None and interval.high is not None:
        assert interval.low <= interval.value <= interval.high


def test_the_interval_of_a_median_holds() -> None:
    rng = np.random.default_rng(5)
    held = 0
    for sample in rng.exponential(size=(500, 20)):
        interval = median_interval(list(sample))
        assert interval.low is not None
        assert interval.high is not None
        held += interval.low <= np.log(2) <= interval.high
    assert held / 500 >= 0.93


@pytest.mark.parametrize(("percentile", "needed"), [(0.9, 64), (0.99, 662), (0.999, 6636)])
def test_the_requests_that_a_percentile_needs_are_those_of_mlperf(
    percentile: float, needed: int
) -> None:
    assert requests_needed(percentile) == needed


def test_a_percentile_without_meaning_is_refused() -> None:
    for percentile, confidence in ((0.0, 0.9), (1.0, 0.9), (0.5, 1.0)):
        with pytest.raises(ValueError, match="no percentile"):
            requests_needed(percentile, confidence)


@pytest.mark.parametrize("percentile", [0.5, 0.9])
def test_order_statistics_hold_a_percentile_of_any_distribution(percentile: float) -> None:
    rng = np.random.default_rng(8)
    truth = float(-np.log(1 - percentile))
    held = 0
    for sample in rng.exponential(size=(400, 80)):
        interval = percentile_interval([float(x) for x in sample], percentile)
        assert interval.low is not None
        assert interval.high is not None
        held += interval.low <= truth <= interval.high
    assert held / 400 >= 0.93


def test_few_values_have_no_upper_bound_of_a_high_percentile() -> None:
    values = [float(x) for x in range(32)]
    assert percentile_interval(values, 0.99).high is None
    assert percentile_interval(values, 0.99).low is not None
    assert percentile_interval(values[:3], 0.5) == percentile_interval(values[:3], 0.5, 0.99)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.floats(0.05, 0.95))
def test_a_percentile_lies_in_its_interval(values: list[float], percentile: float) -> None:
    interval = percentile_interval(values, percentile)
    assert interval.low is None or interval.low <= interval.value * (1 + 1e-12)
    assert interval.high is None or interval.high >= interval.value * (1 - 1e-12)


def test_gaps_that_come_in_spells_are_worth_fewer() -> None:
    rng = np.random.default_rng(4)
    alone = [float(x) for x in rng.exponential(size=1000)]
    spells = [float(x) for x in np.repeat(rng.exponential(size=10), 100)]
    assert independent_count(alone, 0.9) > 300
    assert independent_count(spells, 0.5) < 30
    wide = percentile_interval(spells, 0.5, independent=independent_count(spells, 0.5))
    assert wide.low is not None
    assert wide.low < percentile_interval(spells, 0.5).value
    assert independent_count([1.0] * 9, 0.5) == 9


def test_a_request_of_an_open_loop_is_late_from_when_it_was_due() -> None:
    seen = [passes.request([i + 1.0, i + 2.0], [1, 2], sent_s=i + 0.5) for i in range(7)]
    due = [replace(r, scheduled_s=r.sent_s - 0.25) for r in seen]
    assert known(latencies.ttft(passes.of(*seen))).value == pytest.approx(500)
    assert known(latencies.ttft(passes.of(*due))).value == pytest.approx(750)


def test_tokens_that_came_together_have_no_time_between_them() -> None:
    alone = passes.of(passes.steady(per_step=1), passes.steady(start_s=90.0, per_step=1))
    assert known(latencies.itl(alone)).value == pytest.approx(100)
    one_pair = replace(passes.steady(start_s=90.0, per_step=1), tokens=(*range(1, 401), 402))
    assert latencies.itl(passes.of(passes.steady(per_step=1), one_pair)) is None
    assert latencies.itl(passes.of(passes.steady(per_step=4))) is None


def test_gaps_between_chunks_keep_their_own_name_whatever_they_hold() -> None:
    record = passes.of(passes.steady(per_step=4))
    estimate = known(latencies.chunk_gap(record, 0.9))
    assert estimate.value == pytest.approx(100)
    assert "p90 of gaps between chunks, n = 400" in estimate.method
    assert known(latencies.tpot(record)).value == pytest.approx(25)
    assert latencies.chunk_gap(passes.of()) is None


def test_a_ninth_decile_needs_ten_requests() -> None:
    requests = [passes.steady(start_s=100.0 * i) for i in range(10)]
    assert latencies.ttft(passes.of(*requests[:9]), 0.9) is None
    few = known(latencies.ttft(passes.of(*requests), 0.9))
    assert few.provisional
    assert few.high is None
    assert not known(latencies.ttft(passes.of(*requests * 4), 0.9)).provisional


def test_failures_reach_the_high_percentiles_first() -> None:
    seen = [passes.request([i + 1.0, i + 2.0], [1, 2], sent_s=i + 0.5) for i in range(40)]
    failed = [RequestRecord(0.0, (), (), EndReason.BROKEN, 0.01)] * 8
    assert known(latencies.ttft(passes.of(*seen, *failed))).value == pytest.approx(500)
    assert latencies.ttft(passes.of(*seen, *failed), 0.9) is None


def test_queueing_is_what_the_server_tells() -> None:
    told = [replace(passes.steady(start_s=100.0 * i), queue_s=0.01 * i) for i in range(7)]
    assert known(latencies.queue(passes.of(*told))).value == pytest.approx(30)
    assert latencies.queue(passes.of(passes.steady())) is None


def test_a_late_client_marks_percentiles_and_leaves_means_alone() -> None:
    record = passes.of(*[passes.steady(start_s=100.0 * i, per_step=1) for i in range(12)])
    late = replace(record, client_lag_s=0.011)
    for of in (latencies.ttft, latencies.itl, latencies.chunk_gap):
        assert "host-limited" not in known(of(replace(record, client_lag_s=0.009))).method
        assert not known(of(record)).provisional
        marked = known(of(late))
        assert "host-limited: the client itself ran 11 ms late" in marked.method
        assert marked.provisional
        assert marked.value == known(of(record)).value
    assert latencies.tpot(late) == latencies.tpot(record)


@example(21, 19, 0.9)
@example(2, 2, 0.98828125)
@given(st.integers(1, 400), st.integers(1, 400), st.floats(0.01, 0.99))
def test_ranks_stay_within_the_values_however_few_they_are_worth(
    count: int, worth: int, percentile: float
) -> None:
    values = [float(i) for i in range(count)]
    found = percentile_interval(values, percentile, independent=worth)
    assert found.low is None or found.low <= found.value
    assert found.high is None or found.value <= found.high <= values[-1]
