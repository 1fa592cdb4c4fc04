"""What every load client keeps, over the wire, with both dialects."""

import asyncio
import socket
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from infra.clock import Clock, ScaledClock
from orchestrator.load_client import client
from orchestrator.load_client.client import StreamingClient
from orchestrator.load_client.flight import Flight
from orchestrator.load_client.seam import BLOCK_S, LoadClient, PassProgress
from sweeps.blocks import block_rates, curves_of, streaming_windows
from sweeps.rates import decode_rate
from sweeps.records import EndReason
from tests.contracts.passes import LONG, run
from tests.fakes.stream_server import Fault, Script, stream_server

MAKERS: dict[str, Callable[[Clock], LoadClient]] = {
    "fastest loop": StreamingClient,
    "asyncio": lambda clock: StreamingClient(clock, asyncio.new_event_loop),
}


PAIRS = [
    pytest.param(("fastest loop", "chat"), id="fastest loop-chat"),
    pytest.param(("fastest loop", "generate"), id="fastest loop-generate"),
    pytest.param(("asyncio", "chat"), id="asyncio-chat", marks=pytest.mark.slow),
]


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    maker, dialect = request.param
    return maker, dialect


@pytest.fixture
def make(pair: tuple[str, str]) -> Callable[[Clock], LoadClient]:
    return MAKERS[pair[0]]


@pytest.fixture
def dialect(pair: tuple[str, str]) -> str:
    return pair[1]


def test_counts_are_the_servers(make: Callable[[Clock], LoadClient], dialect: str) -> None:
    with stream_server(lambda _: Script(chunks=(1, 3, 2, 1, 4), gap_s=0.002)) as server:
        record = run(make(ScaledClock()), server, dialect, prompts=3)
    assert [r.output_tokens for r in record.requests] == [11, 11, 11]
    for request in record.requests:
        assert request.end is EndReason.FINISHED, request.detail
        assert (request.finish_reason, request.verify_steps) == ("length", 4)
        assert (request.prompt_tokens, request.text) == (7, "x" * 11)
        assert all(a < b for a, b in pairwise(request.times_s))
        assert all(a < b for a, b in pairwise(request.tokens))
        assert record.started_s <= request.sent_s < request.times_s[0]
        assert request.times_s[-1] <= request.ended_s <= record.ended_s


def test_prompts_go_in_order_and_so_many_at_a_time(
    make: Callable[[Clock], LoadClient], dialect: str
) -> None:
    with stream_server(lambda _: Script(gap_s=0.004)) as server:
        record = run(make(ScaledClock()), server, dialect, prompts=12, concurrency=4)
    assert server.most_running == 4
    assert len(record.requests) == 12
    assert all(f"prompt {i}" in str(body) for i, body in enumerate(server.bodies[4:], start=4))
    sent_s = [r.sent_s for r in record.requests]
    assert sent_s[4:] == sorted(sent_s[4:])


def test_plain_decode_has_no_verify_count(
    make: Callable[[Clock], LoadClient], dialect: str
) -> None:
    with stream_server(lambda _: Script(verify=False)) as server:
        record = run(make(ScaledClock()), server, dialect)
    assert record.requests[0].end is EndReason.FINISHED
    assert record.requests[0].verify_steps is None


def test_a_server_that_is_not_there_breaks_requests(
    make: Callable[[Clock], LoadClient], dialect: str
) -> None:
    with socket.socket() as bound:  # bound and not listening: nothing can answer there
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        record = run(make(ScaledClock()), url, dialect, prompts=2)
        assert [r.end for r in record.requests] == [EndReason.BROKEN] * 2
        assert "cannot connect" in record.requests[0].detail
        assert not make(ScaledClock()).probe(url, dialect, 5.0)


def test_a_deadline_keeps_the_tokens_and_the_rate(
    make: Callable[[Clock], LoadClient], dialect: str
) -> None:
    with stream_server(lambda _: LONG) as server:
        record = run(make(ScaledClock(150)), server, dialect, deadline_s=60.0)
    (request,) = record.requests
    assert request.end is EndReason.DEADLINE
    assert record.cut_short
    estimate = decode_rate(record)
    assert estimate is not None
    (first_s, first), (last_s, last) = server.sent[0][0], server.sent[0][-1]
    sent_per_s = (last - first) / (last_s - first_s) / 150  # in the host's seconds
    assert estimate.value == pytest.approx(sent_per_s, rel=0.2)
    assert 0.8 * last <= request.output_tokens <= last
    assert record.ended_s - record.started_s >= 59


def test_a_deadline_drops_the_connections(
    make: Callable[[Clock], LoadClient], dialect: str
) -> None:
    with stream_server(lambda _: LONG) as server:
        record = run(make(ScaledClock()), server, dialect, prompts=9, concurrency=3, deadline_s=0.2)
        assert [r.end for r in record.requests] == [EndReason.DEADLINE] * 3
        assert all(r.output_tokens for r in record.requests)
        _until(lambda: server.running == 0)


def test_a_deadline_between_two_requests_cuts_a_pass_short_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fly = client._Pass._fly

    async def fly_until_the_deadline(self: client._Pass, flight: Flight) -> None:
        await fly(self, flight)
        self._stop(EndReason.DEADLINE)

    monkeypatch.setattr(client._Pass, "_fly", fly_until_the_deadline)
    with stream_server(lambda _: Script()) as server:
        of_two = run(StreamingClient(ScaledClock()), server, "chat", prompts=2)
        of_one = run(StreamingClient(ScaledClock()), server, "chat", prompts=1)
    assert [request.end for request in of_two.requests] == [EndReason.FINISHED]
    assert of_two.cut_short
    assert not of_one.cut_short


def test_a_pass_ends_when_told_to(make: Callable[[Clock], LoadClient], dialect: str) -> None:
    seen: list[PassProgress] = []
    with stream_server(lambda _: LONG) as server:
        record = run(
            make(ScaledClock()), server, dialect, prompts=4, concurrency=2,
            on_progress=seen.append, should_stop=lambda: len(seen) >= 2,
        )  # fmt: skip
    assert [r.end for r in record.requests] == [EndReason.CANCELLED] * 2
    assert all(r.output_tokens for r in record.requests)
    assert not record.cut_short


def test_a_silent_stream_ends_alone(make: Callable[[Clock], LoadClient], dialect: str) -> None:
    def script(number: int) -> Script:
        return Script(gap_s=0.001, fault=Fault.STALL if number == 0 else Fault.NONE)

    with stream_server(script) as server:
        record = run(make(ScaledClock(10)), server, dialect, prompts=3, silence_s=15.0)
    ends = [r.end for r in record.requests]
    assert ends == [EndReason.SILENT, EndReason.FINISHED, EndReason.FINISHED]
    assert record.requests[0].output_tokens == 6
    assert "15 s" in record.requests[0].detail


@pytest.mark.parametrize("concurrency", [1, 3])
def test_progress_grows_and_its_blocks_are_those_of_the_record(
    make: Callable[[Clock], LoadClient], dialect: str, concurrency: int
) -> None:
    seen: list[PassProgress] = []
    script = Script(chunks=(1,) + (2,) * 40, gap_s=0.002)
    with stream_server(lambda _: script) as server:
        record = run(
            make(ScaledClock(100)), server, dialect, prompts=4 * concurrency,
            concurrency=concurrency, deadline_s=1e6, on_progress=seen.append,
        )  # fmt: skip
    totals = [p.output_tokens for p in seen]
    assert totals == sorted(totals)
    assert totals[-1] == sum(r.output_tokens for r in record.requests)
    assert seen[-1].running_streams == 0
    assert seen[-1].finished_requests == 4 * concurrency
    blocks = seen[-1].decode_blocks_per_s
    assert all(p.decode_blocks_per_s == blocks[: len(p.decode_blocks_per_s)] for p in seen)
    curves = curves_of(record)
    windows = streaming_windows(curves, concurrency)
    assert len(blocks) >= 2
    assert blocks == pytest.approx(block_rates(curves, windows, BLOCK_S, range(len(blocks))))
    halves = [rate / 2 / concurrency for rate in blocks]  # two tokens a chunk
    assert seen[-1].chunk_blocks_per_s == pytest.approx(halves)


def test_what_a_callback_raises_ends_the_pass(
    make: Callable[[Clock], LoadClient], dialect: str
) -> None:
    def fail(_: PassProgress) -> None:
        raise RuntimeError("from the caller")

    with stream_server(lambda _: LONG) as server:
        with pytest.raises(RuntimeError, match="from the caller"):
            run(make(ScaledClock()), server, dialect, on_progress=fail)
        _until(lambda: server.running == 0)


def test_a_probe_wants_a_token_in_time(make: Callable[[Clock], LoadClient], dialect: str) -> None:
    faults = [Fault.NONE, Fault.EMPTY, Fault.STALL]
    with stream_server(lambda n: Script(chunks=(1, 1, 2), fault=faults[n])) as server:
        client = make(ScaledClock(10))
        assert client.probe(server.url, dialect, 60.0)
        assert not client.probe(server.url, dialect, 60.0)
        assert not client.probe(server.url, dialect, 2.0)
        assert client.last_health is None


def test_the_client_watches_itself(make: Callable[[Clock], LoadClient], dialect: str) -> None:
    client = make(ScaledClock())
    with stream_server(lambda _: Script(gap_s=0.01)) as server:
        run(client, server, dialect)
    health = client.last_health
    assert health is not None
    assert health.lag_p99_s >= 0
    assert 0 < health.thread_cpu_fraction <= health.process_cpu_fraction * 1.5
    assert 0 <= health.several_events_fraction <= 1


@pytest.mark.parametrize(
    ("url", "api", "concurrency"),
    [("https://127.0.0.1:1", "chat", 1), ("http://127.0.0.1:1", "smtp", 1),
     ("http://127.0.0.1:1", "chat", 0)],
)  # fmt: skip
def test_terms_without_sense_are_refused(url: str, api: str, concurrency: int) -> None:
    with pytest.raises(ValueError, match=r"http|smtp|stream"):
        run(StreamingClient(ScaledClock()), url, api, concurrency=concurrency)


def _until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does; far longer than it takes."""
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come true in 5 s")
