"""Requests at a rate, whatever the server does; and a client that watches itself."""

import time
from itertools import pairwise

import pytest

from infra.clock import ScaledClock
from orchestrator.load_client.arrivals import Arrivals, Gaps
from orchestrator.load_client.client import StreamingClient
from orchestrator.load_client.seam import PassProgress
from sweeps.records import EndReason
from tests.contracts.passes import LONG, run
from tests.fakes.stream_server import Fault, Script, stream_server

pytestmark = pytest.mark.slow

STEADY = Arrivals(50.0, Gaps.CONSTANT)


def test_requests_are_due_by_the_schedule_and_sent_no_sooner() -> None:
    arrivals = Arrivals(100.0, Gaps.EXPONENTIAL, seed=3)
    with stream_server(lambda _: Script()) as server:
        client = StreamingClient(ScaledClock())
        record = run(client, server, "chat", prompts=30, concurrency=30, arrivals=arrivals)
    due_s = [r.due_s - record.started_s for r in record.requests]
    planned = arrivals.offsets_s()
    assert due_s == pytest.approx([next(planned) for _ in due_s])
    assert all(r.end is EndReason.FINISHED for r in record.requests)
    assert all(r.sent_s >= r.due_s for r in record.requests)


def test_a_slow_server_does_not_slow_the_schedule() -> None:
    slow = Script(chunks=(1,) * 6, gap_s=0.1)
    with stream_server(lambda _: slow) as server:
        client = StreamingClient(ScaledClock())
        record = run(client, server, "chat", prompts=16, concurrency=16, arrivals=STEADY)
    assert server.most_running > 8  # one answer takes as long as thirty requests are apart
    gaps_s = [b.due_s - a.due_s for a, b in pairwise(record.requests)]
    assert gaps_s == pytest.approx([1 / 50] * 15)


def test_the_wait_for_a_slot_counts_as_latency() -> None:
    script = Script(chunks=(1,) * 5, gap_s=0.02)
    with stream_server(lambda _: script) as server:
        client = StreamingClient(ScaledClock())
        record = run(client, server, "chat", prompts=8, concurrency=1, arrivals=STEADY)
    assert server.most_running == 1
    waits_s = [r.sent_s - r.due_s for r in record.requests]
    assert waits_s[-1] > waits_s[3] > waits_s[0]
    last = record.requests[-1]
    assert last.ttft_s is not None
    assert last.ttft_s > waits_s[-1]


def test_requests_that_never_got_a_slot_are_told() -> None:
    with stream_server(lambda _: LONG) as server:
        client = StreamingClient(ScaledClock())
        record = run(client, server, "chat", prompts=500, concurrency=2, arrivals=STEADY,
                     deadline_s=0.5)  # fmt: skip
    assert len(server.bodies) == 2
    assert 2 < len(record.requests) < 500
    assert all(r.end is EndReason.DEADLINE for r in record.requests)
    assert [bool(r.output_tokens) for r in record.requests[:3]] == [True, True, False]


@pytest.mark.parametrize("arrivals", [STEADY, Arrivals(1e-3, Gaps.CONSTANT)], ids=str)
def test_an_open_pass_ends_when_told_to(arrivals: Arrivals) -> None:
    seen: list[PassProgress] = []
    with stream_server(lambda _: LONG) as server:
        record = run(
            StreamingClient(ScaledClock()), server, "chat", prompts=500, concurrency=9,
            arrivals=arrivals, on_progress=seen.append, should_stop=lambda: len(seen) >= 2,
        )  # fmt: skip
    assert record.requests
    assert all(r.end is EndReason.CANCELLED for r in record.requests)


def test_a_broken_request_of_an_open_loop_ends_alone() -> None:
    with stream_server(lambda n: Script(fault=Fault.REFUSED if n == 2 else Fault.NONE)) as server:
        client = StreamingClient(ScaledClock())
        record = run(client, server, "chat", prompts=6, concurrency=6, arrivals=STEADY)
    assert len(record.broken) == 1
    assert len(record.requests) == 6


@pytest.mark.parametrize("rate_per_s", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_is_positive_and_finite(rate_per_s: float) -> None:
    with pytest.raises(ValueError, match="per second"):
        Arrivals(rate_per_s)


@pytest.mark.parametrize("gaps", Gaps)
def test_schedules_repeat_by_their_seed_and_keep_their_rate(gaps: Gaps) -> None:
    def first(seed: int) -> list[float]:
        offsets_s = Arrivals(4.0, gaps, seed).offsets_s()
        return [next(offsets_s) for _ in range(4_001)]

    assert first(1) == first(1)
    assert (first(1) == first(2)) is (gaps is Gaps.CONSTANT)
    assert all(a <= b for a, b in pairwise(first(1)))
    assert first(1)[-1] == pytest.approx(1_000, rel=0.05)


def test_as_many_streams_run_as_were_asked_for() -> None:
    with stream_server(lambda _: LONG) as server:
        record = run(
            StreamingClient(ScaledClock()), server, "chat", prompts=140, concurrency=128,
            should_stop=lambda: server.most_running == 128,
        )  # fmt: skip
    assert server.most_running == 128
    assert [r.end for r in record.requests] == [EndReason.CANCELLED] * 128


def test_a_client_that_is_held_up_says_so() -> None:
    held_s = 0.2

    def block(_: PassProgress) -> None:
        time.sleep(held_s)

    with stream_server(lambda _: LONG) as server:
        free, held = StreamingClient(ScaledClock()), StreamingClient(ScaledClock())
        calm = run(free, server, "chat", concurrency=4, prompts=4, deadline_s=1.0)
        late = run(
            held, server, "chat", concurrency=4, prompts=4, deadline_s=1.0, on_progress=block
        )
    assert calm.client_lag_s is not None
    assert late.client_lag_s is not None
    assert late.client_lag_s > max(held_s / 2, calm.client_lag_s)
    assert held.last_health is not None
    assert free.last_health is not None
    assert held.last_health.several_events_fraction > free.last_health.several_events_fraction


def test_bytes_that_wait_to_be_read_are_told() -> None:
    burst = Script(chunks=(1,) * 4_000)
    with stream_server(lambda _: burst) as server:
        client = StreamingClient(ScaledClock())
        run(
            client, server, "chat", concurrency=4, prompts=40, deadline_s=2.0,
            on_progress=lambda _: time.sleep(0.15),
        )  # fmt: skip
    assert client.last_health is not None
    assert client.last_health.unread_p99_bytes > 0
