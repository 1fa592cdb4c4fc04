"""Rates and their intervals: what they count, and how often they hold."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps import intervals, rates
from sweeps.blocks import block_rates, curves_of, live_windows, streaming_windows
from sweeps.records import EndReason, PassRecord, RequestRecord
from sweeps.steps import stepping_of
from tests.sweeps import passes
from tests.sweeps.passes import ends, known


def test_a_steady_stream_has_its_own_rate() -> None:
    estimate = known(rates.decode_rate(passes.of(passes.steady())))
    assert estimate.value == pytest.approx(20)
    assert ends(estimate) == pytest.approx((20, 20))
    assert estimate.duration_s == pytest.approx(40)
    assert not estimate.provisional
    assert "10 time blocks" in estimate.method


def test_the_first_arrival_is_prefill_however_many_tokens_it_holds() -> None:
    fat = passes.request([1.0, 2.0, 3.0], [50, 52, 54])
    assert known(rates.decode_rate(passes.of(fat))).value == pytest.approx(2)


def test_the_time_between_requests_does_not_count() -> None:
    later = passes.steady(start_s=1000.0)
    estimate = known(rates.decode_rate(passes.of(passes.steady(), later)))
    assert estimate.value == pytest.approx(20)
    assert estimate.duration_s == pytest.approx(80)


def test_below_half_a_minute_a_rate_is_provisional() -> None:
    assert known(rates.decode_rate(passes.of(passes.steady(steps=290)))).provisional
    assert not known(rates.decode_rate(passes.of(passes.steady(steps=310)))).provisional


def test_few_arrivals_give_few_blocks_and_then_none() -> None:
    some = known(rates.decode_rate(passes.of(passes.steady(steps=20, step_s=5.0))))
    assert some.provisional
    assert "4 time blocks" in some.method or "2 time blocks" in some.method
    few = known(rates.decode_rate(passes.of(passes.steady(steps=4, step_s=20.0))))
    assert (few.low, few.high, few.provisional) == (None, None, True)
    assert few.value == pytest.approx(0.1)


def test_nothing_decoded_is_unknown_not_zero() -> None:
    waiting = RequestRecord(0.0, (), (), EndReason.DEADLINE, 60.0)
    single = passes.request([1.0], [1], end=EndReason.DEADLINE, ended_s=60.0)
    for record in (passes.of(), passes.of(waiting), passes.of(single)):
        assert rates.decode_rate(record) is None


@pytest.mark.parametrize("end", [EndReason.DEADLINE, EndReason.CANCELLED])
def test_cut_short_the_rate_is_the_rate_so_far(end: EndReason) -> None:
    whole = passes.steady(steps=800)
    cut = replace(
        whole, times_s=whole.times_s[:401], tokens=whole.tokens[:401], end=end,
        ended_s=whole.times_s[400], verify_steps=None,
    )  # fmt: skip
    estimate = known(rates.decode_rate(passes.of(passes.steady(start_s=-100), cut)))
    assert estimate.value == pytest.approx(20)
    assert estimate.duration_s == pytest.approx(80)


def test_a_stall_before_the_deadline_is_not_forgotten() -> None:
    stalled = replace(passes.steady(end=EndReason.DEADLINE), ended_s=80.5)
    assert known(rates.decode_rate(passes.of(stalled))).value == pytest.approx(10)


@pytest.mark.parametrize("end", [EndReason.BROKEN, EndReason.SILENT])
def test_what_failed_is_not_in_the_rate(end: EndReason) -> None:
    slow = passes.steady(start_s=100.0, step_s=1.0, end=end)
    estimate = known(rates.decode_rate(passes.of(passes.steady(), slow)))
    assert estimate.value == pytest.approx(20)


def test_neighbours_that_are_alike_halve_the_blocks() -> None:
    gaps_s = [0.05] * 400 + [0.1] * 200  # one slow half: its blocks are all alike
    arrivals_s = np.concatenate([[0.0], np.cumsum(gaps_s)])
    record = passes.of(passes.request([float(t) for t in arrivals_s], list(range(1, 602))))
    estimate = known(rates.decode_rate(record))
    assert "5 time blocks, halved for autocorrelation 0." in estimate.method
    assert not estimate.provisional
    assert estimate.value == pytest.approx(15)


def loaded(*, tail_s: float = 0.0) -> PassRecord:
    """Make four streams of 20 tok/s each in two waves; the last may go on alone."""
    first = [passes.steady(start_s=1.0 + 0.2 * i, steps=300 + 50 * i) for i in range(4)]
    second = [replace(r, ended_s=r.times_s[-1]) for r in first]
    more = [
        passes.request(
            [r.ended_s + 0.5 + 0.1 * i for i in range(301)],
            [1 + 2 * i for i in range(301)],
            sent_s=r.ended_s,
        )
        for r in second
    ]
    slow = more[-1]
    steps = int(tail_s / 0.1)
    longer = replace(
        slow,
        times_s=slow.times_s + tuple(slow.times_s[-1] + 0.1 * (i + 1) for i in range(steps)),
        tokens=slow.tokens + tuple(slow.tokens[-1] + 2 * (i + 1) for i in range(steps)),
        ended_s=slow.ended_s + 0.1 * steps,
    )
    return passes.of(*first, *more[:-1], longer, concurrency=4)


def test_under_load_tokens_are_pooled_while_every_slot_is_taken() -> None:
    record = loaded()
    ((start_s, end_s),) = streaming_windows(curves_of(record), 4)
    assert start_s == pytest.approx(1.6)  # the fourth stream's first token
    assert end_s == pytest.approx(min(r.ended_s for r in record.requests[4:]))
    estimate = known(rates.decode_rate(record))
    assert 75 < estimate.value < 80  # 4 x 20, less three prefills of 0.5 s
    assert "4 streams pooled" in estimate.method
    assert known(rates.decode_rate(loaded(tail_s=200))).value == pytest.approx(estimate.value)


def test_under_load_no_prefill_counts_as_decoding() -> None:
    def fat(start_s: float) -> RequestRecord:
        times_s = [start_s + 0.1 * i for i in range(401)]
        return passes.request(times_s, [1000 + 2 * i for i in range(401)], sent_s=start_s)

    record = passes.of(fat(0.0), fat(1.0), fat(40.0), fat(41.0), concurrency=2)
    assert known(rates.decode_rate(record)).value == pytest.approx(40)


def test_a_load_that_was_never_full_has_no_rate() -> None:
    assert rates.decode_rate(replace(loaded(), concurrency=9)) is None


@settings(deadline=None, max_examples=25)
@given(cuts=st.sets(st.integers(1, 399)), seed=st.integers(0, 999))
def test_tokens_per_chunk_do_not_change_counts(cuts: set[int], seed: int) -> None:
    times, tokens = passes.speculative_steps(np.random.default_rng(seed), 1, 400)
    (whole,) = passes.one_stream(times[0], tokens[0], 1e9).requests
    whole = replace(whole, ended_s=whole.times_s[-1])
    kept = [0, *sorted(cuts), len(whole.times_s) - 1]
    merged = replace(
        whole,
        times_s=tuple(whole.times_s[i] for i in kept),
        tokens=tuple(whole.tokens[i] for i in kept),
    )
    assert merged.output_tokens == whole.output_tokens
    assert merged.decode_tokens == whole.decode_tokens
    a = known(rates.decode_rate(passes.of(whole)))
    b = known(rates.decode_rate(passes.of(merged)))
    assert b.value == pytest.approx(a.value)
    assert b.duration_s == pytest.approx(a.duration_s)


@settings(deadline=None, max_examples=25)
@given(block_s=st.floats(0.5, 9), seed=st.integers(0, 999))
def test_blocks_lose_no_token(block_s: float, seed: int) -> None:
    times, tokens = passes.speculative_steps(np.random.default_rng(seed), 3, 200)
    requests = [
        replace(
            passes.one_stream(t, k, 1e9).requests[0], end=EndReason.FINISHED
        ) for t, k in zip(times, tokens, strict=True)
    ]  # fmt: skip
    shifted = [
        replace(r, times_s=tuple(t + 100 * i for t in r.times_s), ended_s=1e9)
        for i, r in enumerate(requests)
    ]
    curves = curves_of(passes.of(*shifted))
    windows = streaming_windows(curves, 1)
    rates = block_rates(curves, windows, block_s, range(60))
    assert sum(rates) * block_s == pytest.approx(sum(r.decode_tokens for r in shifted))


def test_a_running_pass_reports_only_what_cannot_change() -> None:
    curves = [replace(c, ended_s=np.inf) for c in curves_of(loaded())[:4]]
    behind = replace(curves[2], times_s=curves[2].times_s[:50], counts=curves[2].counts[:50])
    assert live_windows([*curves[:2], replace(curves[3], times_s=())], 4) == []
    ((_, end_s),) = live_windows([*curves[:2], behind, curves[3]], 4)
    assert end_s == behind.times_s[-1]


def test_ten_blocks_hold_as_often_as_they_say() -> None:
    rng = np.random.default_rng(20261129)
    times, tokens = passes.speculative_steps(rng, 400, 2700)
    truth = float(tokens.sum() / times.sum())
    held = halved = 0
    for t, k in zip(times, tokens, strict=True):
        estimate = known(rates.decode_rate(passes.one_stream(t, k, 60.0)))
        low, high = ends(estimate)
        held += low <= truth <= high
        halved += "halved" in estimate.method
    assert 0.91 <= held / 400 <= 0.99
    assert halved < 200


def test_chunks_taken_for_independent_would_hold_far_less() -> None:
    """The reason for blocks: the same runs, each step an observation of its own."""
    rng = np.random.default_rng(7)
    times, tokens = passes.speculative_steps(rng, 300, 2400)
    truth = tokens.sum() / times.sum()
    held = 0
    for t, k in zip(times, tokens, strict=True):
        interval = intervals.cluster_ratio([float(x) for x in k], [float(x) for x in t])
        assert interval is not None
        assert interval.low is not None
        assert interval.high is not None
        held += interval.low <= truth <= interval.high
    assert held / 300 < 0.7


def test_accept_length_leaves_out_the_token_of_prefill() -> None:
    record = passes.of(passes.steady(steps=100, per_step=3), passes.steady(steps=300, per_step=1))
    estimate = known(rates.accept_length(record))
    assert estimate.value == pytest.approx((300 + 300) / 400)  # weighted by steps
    assert known(rates.accept_length(passes.of(passes.steady()))).value == pytest.approx(2)


def test_an_unfinished_request_counts_where_chunks_are_known_to_be_steps() -> None:
    cut = passes.steady(per_step=5, end=EndReason.DEADLINE)
    estimate = known(rates.accept_length(passes.of(passes.steady(), cut)))
    assert estimate.value == pytest.approx((2 + 5) / 2)
    assert "left out" not in estimate.method
    assert rates.accept_length(passes.of(cut)) is None


def test_where_chunks_are_no_steps_an_unfinished_request_is_left_out_and_named() -> None:
    cut = passes.steady(per_step=5, end=EndReason.DEADLINE)
    done = replace(passes.steady(), verify_steps=300)
    estimate = known(rates.accept_length(passes.of(done, cut)))
    assert estimate.value == pytest.approx(800 / 300)
    assert estimate.provisional
    assert "71% of the tokens left out" in estimate.method
    assert known(rates.steps_per_s(passes.of(done, cut))).value == pytest.approx(300 / 40)
    assert rates.accept_length(passes.of(passes.steady(verify=False))) is None


def test_several_chunks_in_one_arrival_are_several_steps() -> None:
    finished, running = (
        replace(
            r,
            times_s=r.times_s[::4],
            tokens=r.tokens[::4],
            chunks=tuple(range(1, 402, 4)),
        )
        for r in (passes.steady(), passes.steady(start_s=100.0, end=EndReason.DEADLINE))
    )
    assert known(rates.steps_per_s(passes.of(finished, running))).value == pytest.approx(10)
    assert known(rates.accept_length(passes.of(finished, running))).value == pytest.approx(2)


def test_steps_of_speculation_are_the_servers_count() -> None:
    record = passes.of(*[passes.steady(start_s=100.0 * i) for i in range(6)])
    estimate = known(rates.steps_per_s(record))
    assert estimate.value == pytest.approx(10)
    assert ends(estimate) == pytest.approx((10, 10))
    assert estimate.duration_s == pytest.approx(240)
    assert not estimate.provisional


def test_steps_before_the_first_arrival_are_not_in_its_time() -> None:
    late = passes.steady(steps=40)
    seen_late = replace(late, times_s=late.times_s[20:], tokens=late.tokens[20:])
    assert known(rates.steps_per_s(passes.of(seen_late))).value == pytest.approx(10)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_steps_of_plain_decode_are_its_tokens(concurrency: int) -> None:
    apart_s = 100.0 if concurrency == 1 else 0.2
    record = passes.of(
        *[passes.steady(start_s=apart_s * i, per_step=1, verify=False) for i in range(4)],
        concurrency=concurrency,
    )
    assert known(rates.steps_per_s(record)).value == pytest.approx(10)


def test_unfinished_speculation_is_not_taken_for_plain_decode() -> None:
    record = passes.of(passes.steady(end=EndReason.DEADLINE))
    assert rates.steps_per_s(record) is None
    plain = stepping_of([record], plain=True)
    assert known(rates.steps_per_s(record, stepping=plain)).value == pytest.approx(20)
    untold = passes.of(passes.steady(verify=False))
    assert rates.steps_per_s(untold, stepping=stepping_of([untold], plain=False)) is None


def test_steps_are_known_far_better_than_tokens() -> None:
    rng = np.random.default_rng(11)
    times, tokens = passes.speculative_steps(rng, 20, 2700)
    truth = times.size / times.sum()
    narrower = held = 0
    for t, k in zip(times, tokens, strict=True):
        record = passes.one_stream(t, k, 60.0)
        by_chunks = stepping_of([passes.of(passes.steady()), record])
        low, high = ends(rates.steps_per_s(record, stepping=by_chunks))
        a, b = ends(rates.decode_rate(record))
        held += low <= truth <= high
        narrower += (high - low) / truth < (b - a) / 100 / 2
    assert narrower >= 18
    assert held >= 15


def test_under_load_output_counts_what_prefill_brought_and_one_stream_is_a_share() -> None:
    record = loaded()
    whole, decode = known(rates.output_rate(record)), known(rates.decode_rate(record))
    assert decode.value < whole.value < decode.value * 1.01
    alone = passes.of(*[passes.steady(start_s=1.0 + 40.5 * i) for i in range(4)])
    assert known(rates.output_rate(alone)).value == pytest.approx(801 / 40.5)
    assert known(rates.stream_rate(record)).value == pytest.approx(20)


def test_a_broken_request_is_in_no_rate_of_a_stream() -> None:
    broken = passes.steady(start_s=100.0, step_s=1.0, end=EndReason.BROKEN)
    estimate = known(rates.stream_rate(passes.of(passes.steady(), broken)))
    assert estimate.value == pytest.approx(20)
    assert "1 requests" in estimate.method
