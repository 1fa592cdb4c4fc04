"""What the emulated server does with requests, and how it misbehaves when its world says so."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from infra.emulated.scenario import Answer
from infra.emulated.serving.prefix_cache import PrefixCache
from infra.emulated.text import EOS_ID
from sweeps.values import Value
from tests.infra.emulated.asgi import NGRAM, Inside, inside

TOKENS = 60
USAGE = {"include_usage": True, "continuous_usage_stats": True}


def native(prompt: object, tokens: int = TOKENS, **sampling: object) -> dict[str, Any]:
    params = {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True, **sampling}
    return {"text": prompt, "sampling_params": params}


def chat(tokens: int = TOKENS, **more: object) -> dict[str, Any]:
    messages = [{"role": "user", "content": "hello"}]
    base = {"messages": messages, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    return {**base, "stream": True, "stream_options": USAGE, **more}


def told(events: list[dict[str, Any]]) -> list[int]:
    return [event["usage"]["completion_tokens"] for event in events if event.get("usage")]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Return the file of a healthy world, to be written."""
    path = tmp_path / "world.toml"
    path.write_text("")
    return path


# Requests


def test_a_batch_is_answered_as_a_list() -> None:
    with inside() as server:
        both = server.ask("POST", "/generate", native(["a", "b"])).json()
        alone = [server.ask("POST", "/generate", native(prompt)).json() for prompt in "ab"]
        assert [reply["text"] for reply in both] == [reply["text"] for reply in alone]
        ids = {"input_ids": [[5, 6, 7], [8, 9]], "sampling_params": {"max_new_tokens": 3}}
        assert len(server.ask("POST", "/generate", ids).json()) == 2
        assert server.ask("POST", "/generate", native([])).json() == []
        streamed = server.ask("POST", "/generate", {**native(["a", "b"]), "stream": True}).events()
    ends = [event for event in streamed if event["meta_info"]["finish_reason"]]
    assert {event["index"]: event["text"] for event in ends} == {
        place: reply["text"] for place, reply in enumerate(both)
    }


def test_several_answers_to_one_prompt() -> None:
    with inside() as server:
        replies = server.ask("POST", "/generate", native("a b c d", n=3)).json()
        assert len({reply["meta_info"]["id"] for reply in replies}) == 3
        assert all(reply["meta_info"]["cached_tokens"] > 0 for reply in replies)
        whole = server.ask("POST", "/v1/chat/completions", chat(n=2, stream=False)).json()
        assert [choice["index"] for choice in whole["choices"]] == [0, 1]
        assert whole["usage"]["completion_tokens"] == 2 * TOKENS


@pytest.mark.parametrize("trims", [True, False])
def test_stop_texts_end_an_answer(*, trims: bool) -> None:
    with inside() as server:
        text = server.ask("POST", "/generate", native("stop")).json()["text"]
        stop = text[20:26]
        body = native("stop", stop=[stop, "never said"], no_stop_trim=not trims)
        reply = server.ask("POST", "/generate", body).json()
        streamed = server.ask("POST", "/generate", {**body, "stream": True}).events()
        said = server.ask("POST", "/v1/chat/completions", chat(stop=stop, stream=False)).json()
    assert reply["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
    assert (stop in reply["text"]) is not trims
    if trims:
        assert reply["text"] == text[: text.index(stop)]
    assert streamed[-1]["text"] == reply["text"]
    assert len(reply["output_ids"]) == reply["meta_info"]["completion_tokens"] < TOKENS
    assert said["choices"][0]["finish_reason"] == "length"


def test_stop_ids_and_natural_ends_hold_unless_ignored() -> None:
    with inside() as server:
        ids = server.ask("POST", "/generate", native("ids")).json()["output_ids"]
        body = native("ids", stop_token_ids=[ids[9]], ignore_eos=False)
        stopped = server.ask("POST", "/generate", body).json()
        assert stopped["meta_info"]["finish_reason"] == {"type": "stop", "matched": ids[9]}
        assert stopped["output_ids"][-1] == ids[9]
        ignored = server.ask("POST", "/generate", native("ids", stop_token_ids=[ids[9]])).json()
        assert ignored["meta_info"]["finish_reason"]["type"] == "length"
        ended = server.ask("POST", "/generate", native("ids", 90_000, ignore_eos=False)).json()
    assert ended["meta_info"]["finish_reason"] == {"type": "stop", "matched": EOS_ID}
    assert ended["output_ids"][-1] == EOS_ID


@pytest.mark.parametrize("tokens", [0, 1])
def test_short_answers(tokens: int) -> None:
    with inside(NGRAM) as server:
        reply = server.ask("POST", "/generate", native("short", tokens)).json()
        assert len(reply["output_ids"]) == reply["meta_info"]["completion_tokens"] == tokens
        assert "spec_verify_ct" not in reply["meta_info"]
        events = server.ask("POST", "/v1/chat/completions", chat(tokens)).events()
        assert told(events)[-1] == tokens


def test_completions() -> None:
    with inside() as server:
        body = {"prompt": "once", "max_tokens": 20, "temperature": 0, "ignore_eos": True}
        whole = server.ask("POST", "/v1/completions", body).json()
        streamed = server.ask(
            "POST", "/v1/completions", {**body, "stream": True, "stream_options": USAGE}
        ).events()
        assert whole["object"] == "text_completion"
        assert told(streamed) == sorted(told(streamed))
        assert (
            "".join(c["text"] for e in streamed for c in e["choices"])
            == (whole["choices"][0]["text"])
        )
        assert server.ask("POST", "/v1/completions", {"max_tokens": 1}).status == 400


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/generate", {**native("x"), "return_logprob": True}, "return_logprob"),
        ("/v1/chat/completions", chat(logprobs=True), "logprobs"),
        ("/v1/chat/completions", chat(return_meta_info=True), "not supported with streaming"),
        ("/generate", native("x", no_such_field=1), "unknown field `no_such_field`"),
        ("/generate", native("x", top_p=2), "top_p"),
        ("/generate", native(5), "2 validation errors"),
        ("/v1/chat/completions", chat(messages=[]), "cannot be empty"),
    ],
)
def test_refusals(path: str, body: object, why: str) -> None:
    with inside() as server:
        reply = server.ask("POST", path, body)
    assert reply.status == 400
    assert why in reply.body.decode()


def test_keys_keep_strangers_out() -> None:
    flags: dict[str, Value] = {"api_key": "user", "admin_api_key": "root"}
    user, root = ({"Authorization": f"Bearer {key}"} for key in ("user", "root"))
    with inside(flags) as server:
        assert server.ask("GET", "/v1/models").status == 401
        assert server.ask("GET", "/v1/models", headers=user).status == 200
        assert server.ask("POST", "/flush_cache", headers=user).status == 401
        assert server.ask("POST", "/flush_cache", headers=root).status == 200
        assert server.ask("GET", "/health").status == 200


def test_cached_tokens_are_reported_where_wanted() -> None:
    with inside({"enable_cache_report": True}) as server:
        usages = [
            server.ask("POST", "/v1/chat/completions", chat(stream=False)).json()["usage"]
            for _ in range(2)
        ]
    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
    assert cached == [0, usages[1]["prompt_tokens"] - 1]


def test_the_next_turn_finds_the_answer_in_the_cache_until_a_flush() -> None:
    with inside() as server:
        first = server.ask("POST", "/generate", {"input_ids": [*range(50, 90)]}).json()
        turn = {"input_ids": [*range(50, 90), *first["output_ids"], 7, 8, 9]}
        assert server.ask("POST", "/generate", turn).json()["meta_info"]["cached_tokens"] == (
            40 + len(first["output_ids"])
        )
        server.ask("POST", "/flush_cache")
        assert server.ask("POST", "/generate", turn).json()["meta_info"]["cached_tokens"] == 0


def test_the_prefix_cache_keeps_to_pages_and_forgets_ends_first() -> None:
    cache = PrefixCache(page_tokens=4, room_tokens=40)
    cache.add(range(10))
    assert cache.match(range(10)) == 8
    assert cache.match([*range(6), 99, 99]) == 4
    assert cache.match(range(8)) == 7
    cache.add(range(100, 136))
    assert cache.match(range(100, 140)) == 36
    assert cache.match(range(10)) == 4


def test_a_full_cache_sends_the_newest_back_into_the_queue() -> None:
    flags: dict[str, Value] = {"max_total_tokens": 9000, "enable_metrics": True}
    with inside(flags) as server:
        replies = server.ask_all(native("one", 6000), native("two", 6000))
        metas = [reply.json()["meta_info"] for reply in replies]
        page = server.ask("GET", "/metrics").body.decode()
        alone = server.ask("POST", "/generate", native("two", 6000)).json()
    assert [meta["completion_tokens"] for meta in metas] == [6000, 6000]
    assert metas[0]["num_retractions"] == 0 < metas[1]["num_retractions"]
    assert replies[1].json()["text"] == alone["text"]
    assert "sglang:num_retracted_requests_total" in page


def test_a_request_that_runs_has_its_id_for_itself() -> None:
    twin = {**native("twin"), "rid": "mine"}
    with inside() as server:
        statuses = sorted(reply.status for reply in server.ask_all(twin, twin))
    assert statuses == [200, 400]


# Worlds


def test_chunks_are_merged_and_split(world: Path) -> None:
    world.write_text("[stream]\nchunk_tokens = [3, 5]\n")
    with inside(NGRAM) as honest, inside(NGRAM, world=world) as server:
        whole = honest.ask("POST", "/generate", native("chunks")).json()
        streamed = server.ask("POST", "/generate", {**native("chunks"), "stream": True}).events()
        events = server.ask("POST", "/v1/chat/completions", chat()).events()
    counts = [event["meta_info"]["completion_tokens"] for event in streamed]
    sizes = [after - before for before, after in pairwise([0, *counts])]
    assert set(sizes[:-1]) == {3, 4, 5}
    assert counts[-1] == TOKENS == told(events)[-1]
    assert streamed[-1]["text"] == whole["text"]
    assert "finish_reason" in streamed[-1]["meta_info"]


@pytest.mark.parametrize(
    ("kind", "honest_end", "blocks"),
    [("none", None, 0), ("final", True, 1), ("every", True, 2), ("wrong", False, 2)],
)
def test_usage(world: Path, kind: str, *, honest_end: bool | None, blocks: int) -> None:
    world.write_text(f'[stream]\nusage = "{kind}"\n')
    with inside(world=world) as server:
        counts = told(server.ask("POST", "/v1/chat/completions", chat()).events())
    assert min(len(counts), 2) == blocks
    if honest_end is not None:
        assert (counts[-1] == TOKENS) is honest_end


def test_usage_can_fall_and_sit_beside_a_choice(world: Path) -> None:
    world.write_text('[stream]\nusage = "falling"\nusage_with_choice = true\n')
    with inside(world=world) as server:
        events = server.ask("POST", "/v1/chat/completions", chat()).events()
    assert told(events) != sorted(told(events))
    assert events[-1]["choices"]


def test_an_error_inside_a_stream_befalls_one_request(world: Path) -> None:
    world.write_text("[stream]\nerror_after_tokens = 5\nrequest = 2\n")
    with inside(world=world) as server:
        assert server.ask("GET", "/health").status == 200
        replies = [server.ask("POST", "/v1/chat/completions", chat()) for _ in range(3)]
    failed = ["error" in reply.events()[-1] for reply in replies]
    assert failed == [False, True, False]
    assert {reply.status for reply in replies} == {200}
    assert told(replies[1].events())[-1] == 5


def test_streams_end_early_or_are_empty(world: Path) -> None:
    with inside(world=world) as server:
        world.write_text("[stream]\nclose_after_tokens = 5\n")
        cut = server.ask("POST", "/v1/chat/completions", chat())
        assert not cut.whole
        assert told(cut.events())[-1] == 5
        world.write_text("[stream]\nempty_body = true\n# another size, so another date or not\n")
        empty = server.ask("POST", "/v1/chat/completions", chat())
        assert (empty.status, empty.body, empty.whole) == (200, b"", True)


@pytest.mark.parametrize(
    ("answer", "statuses"),
    [
        (Answer.HONEST, (503, 200)),
        (Answer.EARLY, (200, 200)),
        (Answer.LATE, (503, 503)),
        (Answer.UNHEALTHY, (503, 503)),
        (Answer.MISSING, (404, 404)),
    ],
)
def test_health(world: Path, answer: Answer, statuses: tuple[int, int]) -> None:
    world.write_text(f'[health]\n"/health" = "{answer}"\n')
    with inside(world=world) as server:
        server.server.state.ready_since_s = None
        before = server.ask("GET", "/health").status
        server.server.state.ready_since_s = server.server.state.clock.now_s()
        assert (before, server.ask("GET", "/health").status) == statuses
        assert server.ask("GET", "/model_info").status == 200


def test_a_frozen_engine_is_unhealthy() -> None:
    with inside(env={"SGLANG_HEALTH_CHECK_TIMEOUT": "0"}) as server:
        server.server.scheduler.hung = True
        assert server.ask("GET", "/health").status == 503


def _duration_s(server: Inside, prompt: str) -> float:
    reply = server.ask("POST", "/generate", native(prompt, 20)).json()
    return float(reply["meta_info"]["e2e_latency"])


def test_speed_worlds(world: Path) -> None:
    with inside() as server:
        healthy_s = _duration_s(server, "p")
    world.write_text("[speed]\nspin_ms = 100.0\n")
    with inside(world=world) as server:
        assert _duration_s(server, "p") - healthy_s == pytest.approx(2.0, abs=0.1)


def test_corruption_lets_accept_length_collapse_and_changes_the_text(world: Path) -> None:
    with inside(NGRAM) as server:
        honest = [server.ask("POST", "/generate", native("c", 400)).json() for _ in range(2)]
    world.write_text("[speed]\ncorrupt_verify = true\n")
    with inside(NGRAM, world=world) as server:
        broken = [server.ask("POST", "/generate", native("c", 400)).json() for _ in range(2)]
    assert honest[1]["meta_info"]["spec_accept_length"] > 4
    assert broken[1]["meta_info"]["spec_accept_length"] == pytest.approx(1.06, abs=0.01)
    assert broken[0]["text"] != honest[0]["text"]


def test_a_server_can_report_what_it_does_not_do(world: Path) -> None:
    world.write_text("[overrides.reported]\nspeculative_num_draft_tokens = 3\n")
    with inside(NGRAM, world=world) as server:
        assert server.ask("GET", "/server_info").json()["speculative_num_draft_tokens"] == 3
        proposed = server.ask("POST", "/generate", native("o")).json()["meta_info"]
    assert proposed["spec_num_proposed_drafts"] == 7 * proposed["spec_verify_ct"]
