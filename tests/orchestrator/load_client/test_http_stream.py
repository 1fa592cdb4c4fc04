"""HTTP answers, however they are framed and cut."""

import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.load_client.http_answer import (
    MOST_EVENT_BYTES,
    EventSplitter,
    HttpError,
    ResponseParser,
    only_event,
)
from orchestrator.load_client.http_stream import Target
from tests.attacks import attack

STREAMS = Path(__file__).parents[2] / "data" / "streams"
BODY = (
    b"data: one\r\n\r\n: a comment\nevent: x\ndata:two\ndata: lines\n\ndata: \xc3\xa9\n\nid: 4\n\n"
)
EVENTS = [b"one", b"two\nlines", "é".encode()]
FRAMED = {
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"5;name=x\r\n%s\r\n%X\r\n%s\r\n0\r\n\r\n" % (BODY[:5], len(BODY) - 5, BODY[5:]),
    "length": b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(BODY), BODY),
    "to the end": b"HTTP/1.0 200 OK\r\n\r\n" + BODY,
    "after an interim answer": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" + BODY,
}


def read(pieces: Iterable[bytes]) -> list[bytes]:
    parser, splitter = ResponseParser(), EventSplitter()
    events = [event for piece in pieces for event in splitter.feed(parser.feed(piece))]
    parser.end()
    assert parser.status == 200
    return events


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(ends)]


@pytest.mark.parametrize("framing", FRAMED)
def test_events_do_not_depend_on_the_cut(framing: str) -> None:
    data = FRAMED[framing]
    assert read([data]) == EVENTS
    assert read(cut(data, range(len(data)))) == EVENTS
    for place in range(len(data)):
        assert read(cut(data, [place])) == EVENTS


@settings(deadline=None, max_examples=50)
@given(places=st.lists(st.integers(0, 11_000), max_size=30))
def test_a_recorded_answer_does_not_depend_on_the_cut(places: list[int]) -> None:
    data = (STREAMS / "chat_ngram.http").read_bytes()
    assert read(cut(data, places)) == read([data])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "before an answer"),
        (b"HTTP/1.1 200", "before an answer"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "status line"),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", "status line"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n", "not a size"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", "middle"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab", "middle"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n", "longer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nab\r\n", "not a size"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 2000, "does not end"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"1" * 70_000, "does not end"),
    ],
)
def test_a_broken_answer_is_an_error(data: bytes, message: str) -> None:
    parser = ResponseParser()

    def feed() -> None:
        parser.feed(data)
        parser.end()

    with pytest.raises(HttpError, match=message):
        feed()


def test_what_follows_the_end_is_ignored() -> None:
    parser = ResponseParser()
    assert parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 500") == b"ab"
    assert parser.complete
    assert parser.feed(b"more") == b""


def test_a_request_says_how_long_it_is_and_asks_to_close() -> None:
    target = Target.of("http://127.0.0.1:30000/", "/generate")
    head, _, body = target.post("{é}".encode()).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /generate HTTP/1.1"
    assert {"Host: 127.0.0.1:30000", "Connection: close", "Content-Length: 4"} <= set(lines)
    assert len(body) == 4


def test_an_ipv6_host_is_bracketed_in_the_header() -> None:
    assert b"\r\nHost: [::1]:7\r\n" in Target.of("http://[::1]:7", "/x").post(b"")


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "127.0.0.1:1", "http://"])
def test_only_plain_http_is_spoken(url: str) -> None:
    with pytest.raises(ValueError, match="http"):
        Target.of(url, "/x")


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LINES = st.sampled_from(
    [
        b"data: {}",
        b"data: ",
        b"data:{}",
        b"",
        b"\r",
        b"data: a\r",
        b": c",
        b"data: \xc3\xa9",
        b"event: x",
    ]
)
SIZES = st.sampled_from([b"%x", b"%X", b"0%x", b" %x", b"%x;a=b", b"+%x", b"0x%x"])


@pytest.mark.slow
@settings(deadline=None, max_examples=500)
@given(lines=st.lists(LINES, max_size=4), size=SIZES, wrong=st.integers(-2, 2), end=st.booleans())
def test_the_short_way_for_usual_reads_says_what_the_long_way_does(
    lines: list[bytes], size: bytes, wrong: int, end: bool
) -> None:
    body = b"".join(line + b"\n" for line in lines)
    data = size % max(0, len(body) + wrong) + b"\r\n" + body + (b"\r\n" if end else b"")
    event = only_event(data)
    if event:
        parser, splitter = ResponseParser(), EventSplitter()
        assert splitter.feed(parser.feed(HEAD)) == []
        assert splitter.feed(parser.feed(data)) == [event]
        assert parser.is_between_chunks
        assert splitter.is_between_events


def test_the_short_way_is_taken_by_what_sglang_sends() -> None:
    data = (STREAMS / "chat_ngram.http").read_bytes()
    frames = data.partition(b"\r\n\r\n")[2].split(b"\n\n\r\n")[:-1]
    assert all(only_event(frame + b"\n\n\r\n") for frame in frames)
    assert len(frames) > 20


@attack("Low: an event that never ends, in reads of any size")
@pytest.mark.parametrize("end", [b"", b"\ndata:"])
@pytest.mark.parametrize("read_bytes", [100, 1 << 18])
def test_an_event_that_does_not_end_is_given_up_in_linear_time(end: bytes, read_bytes: int) -> None:
    def cpu_s(total_bytes: int) -> float:
        splitter, piece = EventSplitter(), b"x" * read_bytes + end
        begun_s = time.process_time()
        for _ in range(total_bytes // len(piece)):
            assert splitter.feed(piece) == []
        return time.process_time() - begun_s

    few = MOST_EVENT_BYTES // 16
    assert cpu_s(8 * few) < 40 * max(cpu_s(few), 0.005)
    with pytest.raises(HttpError, match="does not end within"):
        cpu_s(MOST_EVENT_BYTES + (2 << 18))


def test_long_streams_of_whole_events_and_comments_have_no_limit() -> None:
    splitter, event = EventSplitter(), b"data: " + b"x" * (1 << 20) + b"\n\n"
    for _ in range(2 * MOST_EVENT_BYTES // len(event)):
        assert len(splitter.feed(event)) == 1
        assert splitter.feed(b": " + b"c" * (1 << 20) + b"\n") == []


@attack("Low: 100 Continue again and again")
@pytest.mark.parametrize("at_once", [True, False])
def test_answers_that_announce_others_come_to_an_end(at_once: bool) -> None:
    few, many = (b"HTTP/1.1 100 Continue\r\n\r\n" * count for count in (3, 5000))
    whole = ResponseParser()
    assert whole.feed(few + b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok") == b"ok"
    parser = ResponseParser()
    with pytest.raises(HttpError, match="announce another"):
        for piece in [many] if at_once else [many[i : i + 10] for i in range(0, len(many), 10)]:
            parser.feed(piece)
