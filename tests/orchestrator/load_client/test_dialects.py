"""Counting what recorded and made-up streams bring. The recordings are of SGLang 0.5.23."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.load_client.dialects import DIALECTS, take_reads
from orchestrator.load_client.http_answer import EventSplitter, ResponseParser
from orchestrator.load_client.http_stream import Read
from orchestrator.load_client.seam import Sampling
from orchestrator.load_client.tally import Tally
from sweeps.prompts import Prompt

STREAMS = Path(__file__).parents[2] / "data" / "streams"


def replay(name: str, places: list[int] | None = None) -> Tally:
    """Feed a recording in reads that end at the given places; the read's number is its time."""
    data = (STREAMS / f"{name}.http").read_bytes()
    dialect = DIALECTS[name.split("_", maxsplit=1)[0]]
    parser, splitter, tally = ResponseParser(), EventSplitter(), Tally()
    ends = sorted({0, len(data), *(place % len(data) for place in places or [])})
    reads = [
        (float(i), splitter.feed(parser.feed(data[a:b]))) for i, (a, b) in enumerate(pairwise(ends))
    ]
    take_reads(dialect, reads, tally)
    return tally


def tell(dialect: str, *events: dict[str, object] | bytes) -> Tally:
    tally = Tally()
    for i, event in enumerate(events):
        raw = event if isinstance(event, bytes) else json.dumps(event).encode()
        take_reads(DIALECTS[dialect], [(float(i), [raw])], tally)
    return tally


@pytest.mark.parametrize(
    ("name", "prompt_tokens", "verify_steps"),
    [("chat_plain", 42, None), ("chat_ngram", 42, 21),
     ("generate_plain", 34, None), ("generate_ngram", 34, 21)],
)  # fmt: skip
def test_recorded_streams_are_read_whole(
    name: str, prompt_tokens: int, verify_steps: int | None
) -> None:
    tally = replay(name)
    assert tally.done
    assert tally.fault == ""
    assert tally.output_tokens == 24
    assert tally.finish_reason == "length"
    assert (tally.prompt_tokens, tally.verify_steps) == (prompt_tokens, verify_steps)


@pytest.mark.parametrize("api", DIALECTS)
def test_speculation_changes_no_text(api: str) -> None:
    plain, ngram = replay(f"{api}_plain"), replay(f"{api}_ngram")
    assert plain.text.getvalue() == ngram.text.getvalue() != ""


def test_token_ids_beside_the_counters_do_not_matter() -> None:
    tally = replay("chat_ngram_ids")
    assert (tally.done, tally.fault, tally.verify_steps) == (True, "", 1)
    assert tally.output_tokens == 4


def test_an_error_inside_a_good_answer_is_a_fault() -> None:
    tally = replay("generate_error_in_stream")
    assert "longer than the model's context length" in tally.fault


@settings(deadline=None, max_examples=50)
@given(places=st.lists(st.integers(0, 1 << 20), max_size=60))
@pytest.mark.parametrize("name", ["chat_ngram", "generate_ngram"])
def test_counts_do_not_depend_on_the_reads(name: str, places: list[int]) -> None:
    tally, whole = replay(name, places), replay(name)
    assert tally.output_tokens == whole.output_tokens == 24
    assert tally.chunks[-1] == whole.chunks[-1]
    assert (tally.done, tally.fault) == (True, "")
    assert tally.text.getvalue() == whole.text.getvalue()
    assert tally.verify_steps == 21
    assert all(a < b for a, b in pairwise(tally.times_s))
    assert all(a < b for a, b in pairwise(tally.tokens))


def usage(total: int, **more: object) -> dict[str, object]:
    return {"prompt_tokens": 3, "completion_tokens": total, **more}


def words(text: str | None, total: int | None = None, **delta: object) -> dict[str, object]:
    choice = {"delta": {"content": text, **delta}, "finish_reason": None}
    return {"choices": [choice], "usage": None if total is None else usage(total)}


def ended(reason: str = "stop", **more: object) -> dict[str, object]:
    return {"choices": [{"delta": {}, "finish_reason": reason, **more}]}


def test_reasoning_is_output() -> None:
    tally = tell("chat", words(None, 2, reasoning_content="hm "), words("yes", 3), ended())
    assert tally.text.getvalue() == "hm yes"
    assert list(tally.tokens) == [2, 3]


def test_a_token_without_text_counts_when_the_server_says_so() -> None:
    tally = tell("chat", words("a", 1), ended(), {"choices": [], "usage": usage(2)}, b"[DONE]")
    assert list(tally.tokens) == [1, 2]
    assert (tally.done, tally.fault) == (True, "")


def test_two_chunks_of_one_step_are_one_arrival() -> None:
    tally = tell("chat", words("a", 1), words(None, 4, reasoning_content="b"), words("c", 4))
    assert list(tally.tokens) == [1, 4]


def test_cached_tokens_are_kept_where_reported() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 2}}
    tally = tell("chat", {"choices": [], "usage": usage(1, **details)})
    assert tally.cached_tokens == 2


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        (
            [words("a"), ended(), {"choices": [], "usage": usage(1)}, b"[DONE]"],
            "without a token count",
        ),
        ([words("a", 6), words("b", 3)], "fell from 6 to 3"),
        ([words("a", 6), ended(), {"choices": [], "usage": usage(3)}], "fell from 6 to 3"),
        ([words("a", 1), b"[DONE]"], "without a finish reason"),
        ([ended(), b"[DONE]"], "without a token"),
        ([words("a", 1), ended("abort")], "aborted"),
        ([words("a", 1), ended("stop", matched_stop="NaN happened")], "NaN"),
        ([{"error": {"message": "out of memory"}}], "out of memory"),
        ([{"object": "error", "message": "too long"}], "too long"),
        ([{"error": "plain words"}], "plain words"),
        ([b"[]"], "not understood"),
        ([b"nonsense"], "not understood"),
        ([{"choices": [], "usage": {}}, {"no": "choices"}], "not understood"),
        ([{"choices": [], "usage": usage(1) | {"completion_tokens": "1"}}], "not understood"),
    ],
)
def test_a_chat_stream_that_contradicts_itself(
    events: list[dict[str, object] | bytes], fault: str
) -> None:
    assert fault in tell("chat", *events).fault


def test_the_first_fault_is_kept_and_nothing_is_read_after_it() -> None:
    tally = tell("chat", words("a", 5), words("b", 1), words("c", 9), b"[DONE]")
    assert "fell from 5 to 1" in tally.fault
    assert (list(tally.tokens), tally.done) == ([5], False)


def piece(text: str, total: int, ids: list[int] | None = None, **meta: object) -> dict[str, object]:
    known = {"prompt_tokens": 3, "completion_tokens": total, "finish_reason": None, **meta}
    found: dict[str, object] = {"text": text, "meta_info": known}
    return found if ids is None else {**found, "output_ids": ids}


LENGTH = {"type": "length", "length": 3}


@pytest.mark.parametrize(
    "events",
    [
        [piece("a", 1, [1]), piece("aa", 2, [1, 1]), piece("aab", 3, [1, 1, 2])],
        [piece("a", 1, [1]), piece("a", 2, [1]), piece("b", 3, [2])],
        [piece("a", 1), piece("aa", 2), piece("aab", 3)],
        [piece("aa", 2), piece("b", 3)],
    ],
    ids=["whole", "new only", "whole, no ids", "new only, no ids"],
)
def test_generated_text_is_whole_or_new(events: list[dict[str, object]]) -> None:
    tally = tell("generate", *events)
    assert tally.text.getvalue() == "aab"
    assert tally.output_tokens == 3


def test_a_length_that_was_not_counted_is_a_fault() -> None:
    end = {"type": "length", "length": 9}
    tally = tell("generate", piece("a", 1), piece("ab", 2, finish_reason=end))
    assert "length 9, with 2 tokens" in tally.fault
    tally = tell("generate", piece("a", 1), piece("ab", 2, finish_reason=LENGTH))
    assert (tally.fault, tally.deviation_tokens) == ("", 1)


@pytest.mark.parametrize("api", DIALECTS)
def test_bodies_carry_the_prompt_and_the_sampling(api: str) -> None:
    sampling = Sampling(max_tokens=5, temperature=0.5, seed=9, ignore_eos=True)
    body = json.loads(DIALECTS[api].body(Prompt.of('say "é"\n'), sampling))
    params = body.get("sampling_params", body)
    assert body["stream"] is True
    assert (params["temperature"], params["ignore_eos"]) == (0.5, True)
    assert params.get("max_tokens", params.get("max_new_tokens")) == 5
    assert params.get("seed", params.get("sampling_seed")) == 9
    assert 'say "é"\n' in (body.get("text"), body.get("messages", [{}])[0].get("content"))


def test_chat_asks_for_running_counts_and_speculation() -> None:
    body = json.loads(DIALECTS["chat"].body(Prompt.of("x"), Sampling(max_tokens=1)))
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert body["return_spec_tokens_details"] is True
    assert body["temperature"] == 0


def test_ids_are_asked_for_and_taken_where_they_are_wanted() -> None:
    body = DIALECTS["chat"].body(Prompt.of("x"), Sampling(max_tokens=1, token_ids=True))
    assert json.loads(body)["return_output_ids_in_sglext"] is True
    assert replay("chat_ngram_ids").output_ids == [857, 750, 424, 777]


EVENTS = st.one_of(
    st.builds(words, st.text(max_size=3), st.integers(0, 6)),
    st.builds(
        lambda text, total: words(None, total, reasoning_content=text), st.text(), st.just(3)
    ),
    st.just(ended()),
    st.just({"choices": [], "usage": usage(6, prompt_tokens_details={"cached_tokens": 1})}),
    st.just({"choices": [], "sglext": {"spec_tokens_details": {"spec_verify_ct": 2}}}),
    st.just({"error": {"message": "out of memory"}}),
).map(lambda event: json.dumps(event).encode())
ODD = st.sampled_from(
    [
        b"[DONE]",
        b"{}",
        b"1",
        b"[]",
        b"{},{}",
        b'{"choices":[{}',
        b"]",
        b"{",
        b'"\xff"',
        b" ",
        b"null",
    ]
)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(
    events=st.lists(st.one_of(EVENTS, EVENTS, EVENTS, ODD), max_size=12),
    sizes=st.lists(st.integers(1, 4), min_size=12, max_size=12),
)
def test_events_taken_together_are_events_taken_one_by_one(
    events: list[bytes], sizes: list[int]
) -> None:
    together, alone = Tally(most_tokens=5), Tally(most_tokens=5)
    reads: list[Read] = []
    left = list(events)
    for number, size in enumerate(sizes):
        if left:
            reads.append((float(number), left[:size]))
            left = left[size:]
    take_reads(DIALECTS["chat"], reads, together)
    for now_s, several in reads:
        for event in several:
            take_reads(DIALECTS["chat"], [(now_s, [event])], alone)
    assert told(together) == told(alone)


def told(tally: Tally) -> tuple[object, ...]:
    return (
        list(tally.times_s), list(tally.tokens), list(tally.chunks), tally.text.getvalue(),
        tally.fault.partition("(")[0], tally.done, tally.finish_reason, tally.prompt_tokens,
        tally.cached_tokens, tally.verify_steps,
    )  # fmt: skip


def test_many_more_tokens_than_asked_for_are_a_fault() -> None:
    tally = Tally(most_tokens=3)
    tally.count(3)
    tally.count(4)
    assert (tally.fault, tally.deviation_tokens) == ("", 1)
    tally.count(6)
    assert "6 tokens were counted of at most 3" in tally.fault
    assert tally.output_tokens == 4


def test_what_is_tolerated_grows_with_the_count() -> None:
    tally = Tally(most_tokens=1000)
    tally.count(1020)
    assert tally.fault == ""
    tally.count(990)
    assert "fell from 1020 to 990" in tally.fault


def native_abort(message: str | None, status: int | None, **more: object) -> dict[str, object]:
    finish = {"type": "abort", "message": message, "status_code": status, "err_type": None, **more}
    meta = {"prompt_tokens": 3, "completion_tokens": 0, "cached_tokens": 0}
    return {"text": "", "output_ids": None, "meta_info": {**meta, "finish_reason": finish}}


def chat_abort(message: str, name: str, status: int) -> dict[str, object]:
    error = {"object": "error", "message": message, "type": name, "param": None, "code": status}
    return {"error": error}


ABORTS = [
    # anomalyco/opencode 40254
    ("chat", chat_abort("The request queue is full.", "SERVICE_UNAVAILABLE", 503),
     "(503): The request queue is full."),
    # sgl-project/sglang 31802
    ("generate", native_abort("The routing key has too many requests in the queue.", 429),
     "(429): The routing key has too many"),
    # sgl-project/sglang 22535: aborted by the user's own request, without a status
    ("generate", native_abort("Aborted", None), "the server aborted the request: Aborted"),
    # sgl-project/sglang 2956
    ("generate", native_abort("Multimodal prompt is too long after expanding its tokens.", 400,
                              err_type="BadRequestError"), "(400): Multimodal prompt is too long"),
    # SGLang 0.5.23, srt/managers/scheduler.py
    ("generate", native_abort("Request waiting timeout reached.", 503),
     "(503): Request waiting timeout reached."),
    ("chat", chat_abort("Request running timeout reached.", "SERVICE_UNAVAILABLE", 503),
     "(503): Request running timeout reached."),
    # SGLang 0.5.23, srt/managers/schedule_batch.py
    ("chat", chat_abort("Retracted under decode memory pressure without a KV backup. Retry later.",
                        "SERVICE_UNAVAILABLE", 503), "(503): Retracted under decode memory"),
    # SGLang 0.5.4, srt/entrypoints/http_server.py: no status there
    ("generate", {"error": {"message": "The input is longer than the context length"}},
     "the server reports: The input is longer"),
    ("generate", native_abort(None, None), "the server aborted the request"),
    ("chat", ended("abort"), "the server aborted the request"),
]  # fmt: skip


@pytest.mark.parametrize(("api", "event", "told"), ABORTS)
def test_the_servers_own_words_are_kept(api: str, event: dict[str, object], told: str) -> None:
    tally = tell(api, event, b"[DONE]")
    assert told in tally.fault
    assert "None" not in tally.fault


def test_the_words_of_a_recorded_abort_are_kept() -> None:
    splitter = EventSplitter()
    events = splitter.feed((STREAMS / "abort_queue_full_generate.sse").read_bytes())
    tally = Tally()
    take_reads(DIALECTS["generate"], [(0.0, events)], tally)
    assert tally.fault == "the server aborted the request (503): The request queue is full."


def test_a_flood_of_words_is_cut_and_kept_on_one_line() -> None:
    tally = tell("generate", native_abort("a\nb " * 10_000, 500))
    assert len(tally.fault) < 700
    assert "\n" not in tally.fault
