"""The rate of several streams whose tokens come in chunks, held against a source of known pace."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps import rates
from sweeps.blocks import (
    Curve,
    block_rates,
    curves_of,
    length_s,
    live_windows,
    running_curve,
    streaming_windows,
)
from sweeps.records import RequestRecord
from tests.sweeps.paced import Pace
from tests.sweeps.passes import known

WITHIN_FRACTION = 0.01

chunkings = st.sampled_from([(1,), (4,), (8,), (16,), (8, 4), (1, 2, 3, 4, 5, 6, 7, 8)])


@pytest.mark.parametrize("tokens", [64, 256])
@pytest.mark.parametrize("chunks", [(1,), (4,), (8,), (8, 4)])
def test_the_rate_does_not_depend_on_the_chunks(tokens: int, chunks: Sequence[int]) -> None:
    lengths = [tokens] * 24
    single = known(rates.decode_rate(Pace(4, 0.005, 0.023, (1,)).record(lengths)))
    chunked = known(rates.decode_rate(Pace(4, 0.005, 0.023, chunks).record(lengths)))
    assert chunked.value == pytest.approx(single.value, rel=0.005)


@settings(deadline=None, max_examples=100)
@given(
    streams=st.integers(1, 32),
    rounds=st.integers(6, 20),
    tokens=st.integers(24, 512),
    chunks=chunkings,
    prefill_tokens=st.floats(0.5, 10),
    seed=st.integers(0, 999),
)
def test_the_rate_is_the_source_s_at_every_load_chunk_and_length(
    streams: int, rounds: int, tokens: int, chunks: Sequence[int], prefill_tokens: float, seed: int
) -> None:
    token_s = 0.005
    pace = Pace(streams, token_s, prefill_tokens * token_s, chunks, seed)
    lengths = [tokens] * (streams * rounds)
    alone = streams == 1
    truth = 1 / token_s if alone else pace.truth_tok_s([tokens] * rounds)
    estimate = known(rates.decode_rate(pace.record(lengths)))
    # The first round starts with the first tokens: its wait for prefill is not in the window.
    edge = 0.0 if alone else prefill_tokens / (tokens + prefill_tokens) / rounds
    assert estimate.value == pytest.approx(truth, rel=WITHIN_FRACTION + edge)


@settings(deadline=None, max_examples=100)
@given(
    streams=st.integers(1, 16),
    chunks=chunkings,
    cut_tokens=st.integers(100, 1000),
    seed=st.integers(0, 999),
)
def test_a_deadline_in_a_chunk_costs_no_token(
    streams: int, chunks: Sequence[int], cut_tokens: int, seed: int
) -> None:
    pace = Pace(streams, 0.005, 0.02, chunks, seed)
    record = pace.record([2000] * streams, deadline_s=cut_tokens * 0.005)
    estimate = known(rates.decode_rate(record))
    assert estimate.value == pytest.approx(streams / 0.005, rel=WITHIN_FRACTION)


@settings(deadline=None, max_examples=100)
@given(
    chunks=chunkings,
    seed=st.integers(0, 999),
    tokens=st.integers(24, 200),
    seen_fraction=st.floats(0.05, 0.99),
)
def test_what_a_running_pass_tells_is_what_its_record_holds(
    chunks: Sequence[int], seed: int, tokens: int, seen_fraction: float
) -> None:
    record = Pace(4, 0.005, 0.02, chunks, seed).record([tokens] * 16)
    live = [_seen_at(r, seen_fraction * record.ended_s) for r in record.requests]
    seen = [curve for curve in live if curve is not None]
    told_windows = live_windows(seen, 4)
    blocks = range(int(length_s(told_windows) / 0.05))
    told = block_rates(seen, told_windows, 0.05, blocks)
    curves = curves_of(record)
    assert told == pytest.approx(block_rates(curves, streaming_windows(curves, 4), 0.05, blocks))


def _seen_at(request: RequestRecord, time_s: float) -> Curve | None:
    if request.sent_s > time_s:
        return None
    kept = sum(at_s <= time_s for at_s in request.times_s)
    ends = (request.times_s[-1], request.ended_s) if request.ended_s <= time_s else None
    return running_curve(request.sent_s, request.times_s[:kept], request.tokens[:kept], ends)
