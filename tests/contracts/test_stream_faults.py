"""What a stream may do wrong, and what a load client makes of it; with both dialects."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from infra.clock import ScaledClock
from orchestrator.load_client.client import StreamingClient
from orchestrator.load_client.dialects import DIALECTS
from sweeps.records import EndReason
from tests.contracts.passes import run
from tests.fakes.stream_server import Fault, Script, stream_server

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("api", DIALECTS)]

DETAILS = {
    Fault.HANGS_UP: "closed before an answer",
    Fault.REFUSED: "HTTP 503: queue ful",
    Fault.NOT_HTTP: "not an HTTP status line",
    Fault.NO_BODY: "no event",
    Fault.EMPTY: "no event",
    Fault.ERROR_FIRST: "out of memory",
    Fault.ERROR_EVENT: "out of memory",
    Fault.ERROR_OBJECT: "out of memory",
    Fault.NO_TOKEN: "without a token",
    Fault.NO_FINISH: "without a finish reason",
    Fault.NO_DONE: "without its end mark",
    Fault.CUT: "closed in the middle",
    Fault.FALLS: "fell from 6 to 3",
    Fault.SURPLUS: "1006 tokens were counted of at most 11",
    Fault.NO_COUNT: "token",
    Fault.NAN: "NaN",
    Fault.ABORT: "aborted",
    Fault.GARBAGE: "not understood",
}
SILENT = {Fault.STALL: 6, Fault.FROZEN: 0}
"""Tokens that come before the silence."""
OFF_TOKENS = {Fault.SURPLUS_ONE: 1, Fault.LOWER_END: -2}
"""Streams whose counts disagree by so little that it is only noted."""
CHAT_ONLY = {
    Fault.STOPS_SHORT: "usage counts 25 tokens, but 12 came without a text",
    Fault.LATE_COUNT: "no continuous usage",
}
"""The native API has the text and the count of an answer in each chunk."""


def test_every_fault_is_in_a_table(api: str) -> None:
    assert {Fault.NONE, *DETAILS, *SILENT, *OFF_TOKENS, *CHAT_ONLY} == set(Fault)


@pytest.mark.parametrize("fault", DETAILS)
def test_a_fault_breaks_its_request_and_no_other(fault: Fault, api: str) -> None:
    with stream_server(_second(fault)) as server:
        client = StreamingClient(ScaledClock())
        record = run(client, server, api, prompts=3, max_tokens=11, silence_s=20)
    assert [r.end for r in record.requests] == [
        EndReason.FINISHED, EndReason.BROKEN, EndReason.FINISHED,
    ]  # fmt: skip
    assert DETAILS[fault] in record.requests[1].detail
    assert record.broken == (record.requests[1],)
    assert record.requests[1].output_tokens <= 11


@pytest.mark.parametrize("fault", OFF_TOKENS)
def test_a_small_deviation_of_a_count_is_noted_and_breaks_nothing(fault: Fault, api: str) -> None:
    with stream_server(_second(fault)) as server:
        client = StreamingClient(ScaledClock())
        record = run(client, server, api, prompts=3, max_tokens=11)
    assert [r.end for r in record.requests] == [EndReason.FINISHED] * 3
    assert [r.deviation_tokens for r in record.requests] == [0, OFF_TOKENS[fault], 0]
    assert record.requests[1].output_tokens == 11 + max(0, OFF_TOKENS[fault])


@pytest.mark.parametrize("fault", CHAT_ONLY)
def test_counts_that_no_text_bears_out_break_a_chat(fault: Fault, api: str) -> None:
    chunks = Script(chunks=(1,) + (3,) * 8, gap_s=0.01)
    with stream_server(lambda number: replace(chunks, fault=fault if number else Fault.NONE)) as s:
        record = run(StreamingClient(ScaledClock()), s, api, prompts=2, max_tokens=25)
    sound, off = record.requests
    assert (sound.end, sound.deviation_tokens) == (EndReason.FINISHED, 0)
    assert off.end is (EndReason.BROKEN if api == "chat" else EndReason.FINISHED)
    assert (CHAT_ONLY[fault] in off.detail) == (api == "chat")


def test_tokens_without_text_are_borne_out_by_the_time_that_they_took(api: str) -> None:
    """A parser may hold the end of an answer back; its tokens took their time all the same."""
    script = Script(chunks=(1,) * 40, gap_s=0.01, fault=Fault.STOPS_SHORT, late_end=True)
    with stream_server(lambda _: script) as server:
        record = run(StreamingClient(ScaledClock()), server, api, max_tokens=40)
    (request,) = record.requests
    assert request.end is EndReason.FINISHED, request.detail
    assert request.output_tokens == 40


@pytest.mark.parametrize("fault", SILENT)
def test_silence_ends_its_request_and_no_other(fault: Fault, api: str) -> None:
    with stream_server(_second(fault)) as server:
        record = run(StreamingClient(ScaledClock(10)), server, api, prompts=3, silence_s=15.0)
    assert [r.end for r in record.requests] == [
        EndReason.FINISHED, EndReason.SILENT, EndReason.FINISHED,
    ]  # fmt: skip
    assert record.requests[1].output_tokens == SILENT[fault]


def test_one_silent_stream_of_eight_does_not_hold_up_the_others(api: str) -> None:
    with stream_server(_second(Fault.STALL)) as server:
        client = StreamingClient(ScaledClock(10))
        record = run(client, server, api, prompts=24, concurrency=8, silence_s=20.0)
    assert len(record.broken) == 1
    assert sum(r.end is EndReason.FINISHED for r in record.requests) == 23


def test_a_server_that_freezes_under_way_keeps_what_came_before(api: str) -> None:
    def script(number: int) -> Script:
        return Script(fault=Fault.FROZEN if number >= 5 else Fault.NONE)

    with stream_server(script) as server:
        client = StreamingClient(ScaledClock(20))
        record = run(client, server, api, prompts=7, silence_s=20.0)
        assert not client.probe(server.url, api, 20.0)
    assert [r.end for r in record.requests] == [EndReason.FINISHED] * 5 + [EndReason.SILENT] * 2


def test_a_few_refused_requests_are_counted_one_by_one(api: str) -> None:
    def script(number: int) -> Script:
        return Script(fault=Fault.REFUSED if number % 20 == 7 else Fault.NONE)

    with stream_server(script) as server:
        record = run(StreamingClient(ScaledClock()), server, api, prompts=60, concurrency=4)
    assert len(record.broken) == 3
    assert sum(r.output_tokens for r in record.requests) == 57 * 11


@pytest.mark.parametrize("whole", [True, False], ids=["whole text", "new text"])
def test_tokens_are_the_servers_count_whatever_the_text_repeats(api: str, whole: bool) -> None:
    script = Script(chunks=(1,) * 40, whole=whole)
    with stream_server(lambda _: script) as server:
        record = run(StreamingClient(ScaledClock()), server, api)
    assert record.requests[0].end is EndReason.FINISHED
    assert record.requests[0].output_tokens == 40


def test_several_tokens_a_chunk_are_several_tokens(api: str) -> None:
    script = Script(chunks=(1,) + (4,) * 30, gap_s=0.004)
    with stream_server(lambda _: script) as server:
        record = run(StreamingClient(ScaledClock()), server, api)
    (request,) = record.requests
    sent = server.sent[0]
    assert (request.decode_tokens, request.decode_chunks) == (120, 30)
    sent_s = sent[-1][0] - sent[0][0]
    assert request.decode_s / request.decode_tokens == pytest.approx(sent_s / 120, rel=0.1)
    assert request.decode_s / request.decode_chunks == pytest.approx(sent_s / 30, rel=0.1)


def test_hits_of_the_prefix_cache_are_told(api: str) -> None:
    with stream_server(lambda number: Script(cached=5 * number)) as server:
        record = run(StreamingClient(ScaledClock()), server, api, prompts=2)
    assert [r.cached_tokens for r in record.requests] == [0, 5]


def _second(fault: Fault) -> Callable[[int], Script]:
    return lambda number: Script(fault=fault if number == 1 else Fault.NONE)
