"""The emulated server as a process: SGLang's routes, shapes, pace, start and end."""

import json
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from infra.emulated.engine import EmulatedEngine
from infra.emulated.settings import make_settings
from infra.emulated.truth import TRUTHS
from tests.infra.emulated.serving import LIMIT_S, Json, Served, events, serve
from tests.ports import free_port

pytestmark = pytest.mark.slow

CAPTURES = Path(__file__).parents[2] / "data" / "streams"
NGRAM = ("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "8")
PACE_SCALE = 20.0
"""Slow enough that a shared machine keeps up with every step."""


@pytest.fixture(scope="module")
def paced() -> Iterator[Served]:
    """Start the slow server first: it loads while the other tests run."""
    with serve(scale=PACE_SCALE) as served:
        yield served


@pytest.fixture(scope="module")
def server(paced: Served) -> Iterator[Served]:
    with serve(*NGRAM) as served:
        served.wait_ready()
        yield served


def native(prompt: str, tokens: int) -> Json:
    return {"text": prompt, "sampling_params": {"max_new_tokens": tokens, "temperature": 0}}


def chat(prompt: str, tokens: int) -> Json:
    return {
        "model": "any",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "temperature": 0,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_spec_tokens_details": True,
    }


def keys(data: object) -> object:
    return list(data) if isinstance(data, dict) else None


def captured(name: str) -> list[Json]:
    text = (CAPTURES / name).read_text(errors="replace")
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def test_chat_chunks_have_the_shape_of_the_capture(server: Served) -> None:
    ours = [event.data for event in server.stream("/v1/chat/completions", chat("shape", 24))]
    real = captured("chat_ngram.http")
    for mine, theirs in zip([*ours[:2], *ours[-3:]], [*real[:2], *real[-3:]], strict=True):
        assert list(mine) == list(theirs)
        for part in ("usage", "sglext"):
            assert keys(mine.get(part)) == keys(theirs.get(part))
        for choice, other in zip(mine["choices"], theirs["choices"], strict=True):
            assert list(choice) == list(other)
            assert list(choice["delta"]) == list(other["delta"])
    assert keys(ours[-2]["sglext"]["spec_tokens_details"]) == keys(
        real[-2]["sglext"]["spec_tokens_details"]
    )


def test_native_chunks_have_the_shape_of_the_capture(server: Served) -> None:
    ours = [event.data for event in server.stream("/generate", native("shape", 24))]
    real = captured("generate_ngram.http")
    for mine, theirs in ((ours[0], real[0]), (ours[1], real[1]), (ours[-1], real[-1])):
        assert list(mine) == list(theirs)
        assert list(mine["meta_info"]) == list(theirs["meta_info"])


def test_cumulative_counts_agree_with_ids_and_text(server: Served) -> None:
    chunks = [event.data for event in server.stream("/generate", native("counts", 300))]
    counts = [chunk["meta_info"]["completion_tokens"] for chunk in chunks]
    assert [len(chunk["output_ids"]) for chunk in chunks] == counts
    assert counts == sorted(set(counts))
    assert counts[-1] == 300
    assert all(b["text"].startswith(a["text"]) for a, b in pairwise(chunks))
    assert all("spec_verify_ct" not in chunk["meta_info"] for chunk in chunks[:-1])


def check_identities(figures: Json, completion_tokens: int, chunks: int) -> None:
    verifies = figures["spec_verify_ct"]
    histogram = figures["spec_correct_drafts_histogram"]
    beyond = figures["spec_num_correct_drafts"] - (completion_tokens - 1 - verifies)
    assert verifies == chunks - 1
    assert 0 <= beyond <= 6
    assert sum(histogram) == verifies
    assert sum(n * count for n, count in enumerate(histogram)) == figures["spec_num_correct_drafts"]
    assert figures["spec_num_proposed_drafts"] == 7 * verifies
    assert figures["spec_accept_length"] == pytest.approx(completion_tokens / verifies)


def test_speculation_figures_keep_their_identities(server: Served) -> None:
    chunks = [event.data for event in server.stream("/generate", native("identities", 400))]
    check_identities(chunks[-1]["meta_info"], 400, len(chunks))
    told = [event.data for event in server.stream("/v1/chat/completions", chat("identities", 400))]
    figures = told[-2]["sglext"]["spec_tokens_details"]
    steps = sum(1 for chunk in told if chunk["choices"] and chunk.get("usage"))
    check_identities(figures, told[-1]["usage"]["completion_tokens"], steps)


def test_both_routes_and_both_ways_give_the_same_text(server: Served) -> None:
    body = chat("same", 200)
    streamed = server.stream("/v1/chat/completions", body)
    text = "".join(
        choice["delta"].get("content") or "" for e in streamed for choice in e.data["choices"]
    )
    whole = server.ask("POST", "/v1/chat/completions", body).json()
    assert whole["choices"][0]["message"]["content"] == text
    assert whole["usage"]["completion_tokens"] == 200
    once = server.ask("POST", "/generate", native("same", 200)).json()
    assert once["text"] == server.stream("/generate", native("same", 200))[-1].data["text"]


def test_information_routes(server: Served) -> None:
    info = server.ask("GET", "/server_info").json()
    assert info["emulated"] is True
    assert info["version"] == "0.5.23"
    assert info["speculative_num_draft_tokens"] == 8
    assert info["max_running_requests"] == 48
    state = info["internal_states"][0]
    assert state["memory_usage"]["token_capacity"] == info["max_total_num_tokens"] > 100_000
    assert "truth" not in json.dumps(info)
    old = server.ask("GET", "/get_server_info").json()
    assert old["version"] == info["version"]
    assert server.ask("GET", "/model_info").json() == server.ask("GET", "/get_model_info").json()
    assert server.ask("GET", "/v1/models").json()["data"][0]["id"] == "m"
    assert server.ask("GET", "/health_generate").status == 200
    assert server.ask("GET", "/no_such_route").json() == {"detail": "Not Found"}


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/generate", {"text": "x", "sampling_params": {"temperature": -1}}, "non-negative"),
        ("/generate", {"sampling_params": {}}, "Either text, input_ids or input_embeds"),
        ("/generate", {"input_ids": [1] * 300_000}, "longer than the model's context length"),
        ("/generate", b"{oops", "JSON decode error"),
        ("/generate", b"", "validation error"),
        ("/v1/chat/completions", {}, "Field required"),
        ("/v1/chat/completions", chat("x", 300_000), "too large"),
        ("/v1/chat/completions", {**chat("x", 3), "temperature": -1}, "non-negative"),
    ],
)
def test_bad_requests_get_400(server: Served, path: str, body: object, told: str) -> None:
    reply = server.ask("POST", path, body)
    assert reply.status == 400
    assert told in reply.body.decode()


def test_the_error_of_a_native_stream_comes_inside_it(server: Served) -> None:
    body = {"text": "x", "sampling_params": {"temperature": -1}}
    [event] = server.stream("/generate", body)
    assert event.data["error"]["code"] == 400


def test_a_repeat_is_a_replay_and_a_flush_ends_it(server: Served) -> None:
    def accept_length() -> float:
        reply = server.ask("POST", "/generate", native("repeat me", 600)).json()
        return float(reply["meta_info"]["spec_accept_length"])

    assert server.ask("POST", "/flush_cache").status == 200
    cold = accept_length()
    assert accept_length() > 4 > 2 > cold
    state = server.ask("GET", "/server_info").json()["internal_states"][0]
    assert state["avg_spec_accept_length"] > 1
    assert server.ask("GET", "/flush_cache").status == 200
    state = server.ask("GET", "/server_info").json()["internal_states"][0]
    assert "avg_spec_accept_length" not in state
    assert accept_length() == cold


def test_flush_is_refused_while_a_request_runs_until_it_is_aborted(server: Served) -> None:
    connection = server.open(
        "POST", "/generate", {**native("long", 90_000), "stream": True, "rid": "r1"}
    )
    stream = events(connection)
    next(stream)
    refused = server.ask("POST", "/flush_cache")
    assert (refused.status, refused.body) == (400, b"Flush cache failed.\n")
    assert server.ask("POST", "/abort_request", {"rid": "r1"}).status == 200
    *_, last = stream
    connection.close()
    assert last.data["meta_info"]["finish_reason"]["type"] == "abort"
    assert server.ask("POST", "/flush_cache").status == 200


def test_a_client_that_leaves_frees_its_place(server: Served) -> None:
    connection = server.open(
        "POST", "/v1/chat/completions", {**chat("gone", 90_000), "stream": True}
    )
    next(events(connection))
    connection.close()
    until = time.monotonic() + LIMIT_S
    while server.ask("POST", "/flush_cache").status != 200:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_requests_run_together(server: Served) -> None:
    bodies = [{**native(f"together {n}", 400), "stream": True} for n in range(4)]
    connections = [server.open("POST", "/generate", body) for body in bodies]
    ends = [list(events(connection))[-1].data["meta_info"] for connection in connections]
    for connection in connections:
        connection.close()
    assert [end["completion_tokens"] for end in ends] == [400] * 4
    alone = server.ask("POST", "/generate", native("alone", 400)).json()["meta_info"]
    assert max(end["e2e_latency"] for end in ends) < 3 * alone["e2e_latency"]
    assert "#running-req: 4" in server.log()


def test_the_log_reads_like_sglangs(server: Served) -> None:
    log = server.log()
    phases = (
        "EMULATED server",
        "Load weight begin.",
        "Load weight end.",
        "Capture target verify CUDA graph begin.",
        "Capture target verify CUDA graph end.",
        "max_total_num_tokens=",
        "Started server process",
        "The server is fired up and ready to roll!",
    )
    places = [log.index(phase) for phase in phases]
    assert places == sorted(places)
    line = next(line for line in log.splitlines() if "Decode batch, " in line)
    for part in (" TP0] ", "accept len: ", "accept rate: ", "cuda graph: True", "#queue-req: 0"):
        assert part in line


def exit_code(served: Served) -> int:
    return served.process.wait(LIMIT_S)


def test_an_unknown_flag_exits_at_once() -> None:
    with serve("--no-such-flag", "1") as served:
        assert exit_code(served) == 2
        assert "error: unrecognized arguments: --no-such-flag 1" in served.log()


def test_a_broken_rule_exits_before_loading() -> None:
    with serve(*NGRAM, "--page-size", "16") as served:
        assert exit_code(served) == 1
        assert "ValueError" in served.log()
        assert "Load weight begin" not in served.log()


def test_a_refused_drafter_kills_the_server_after_loading() -> None:
    with serve(*NGRAM, "--speculative-ngram-max-trie-depth", "1", scale=2000) as served:
        assert exit_code(served) == -signal.SIGKILL
        assert "Load weight end" in served.log()
        assert "Received sigquit from a child process" in served.log()


def test_sigterm_drains_and_exits_cleanly() -> None:
    with serve(scale=500) as served:
        served.wait_ready()
        connection = served.open("POST", "/generate", {**native("last", 3000), "stream": True})
        stream = events(connection)
        next(stream)
        served.process.terminate()
        *_, last = stream
        connection.close()
        assert last.data["meta_info"]["completion_tokens"] == 3000
        assert exit_code(served) == 0
        assert "Gracefully exiting" in served.log()


def test_faults() -> None:
    with (
        serve(scale=2000, world='[start]\ndie_in = "weights"') as dying,
        serve(scale=2000, world="[[oom]]\nrunning_requests_from = 2") as starved,
        serve(scale=2000, world="[stream]\nstall_after_tokens = 20") as stalled,
    ):
        assert exit_code(dying) == -signal.SIGKILL
        assert "SafetensorError" in dying.log()
        starved.wait_ready()
        one = starved.open("POST", "/generate", native("a", 50_000))
        two = starved.open("POST", "/generate", native("b", 50_000))
        assert exit_code(starved) == -signal.SIGKILL
        assert "torch.OutOfMemoryError" in starved.log()
        one.close()
        two.close()
        stalled.wait_ready()
        connection = stalled.open("POST", "/generate", {**native("c", 500), "stream": True})
        stream = events(connection)
        counts = [next(stream).data["meta_info"]["completion_tokens"] for _ in range(20)]
        assert counts[-1] == 20
        assert connection.sock is not None
        connection.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            next(stream)
        connection.close()


def test_a_hang_while_loading_ends_by_sigterm() -> None:
    with serve(scale=2000, world='[start]\nhang_in = "weights"') as hung:
        until = time.monotonic() + LIMIT_S
        while "Load weight begin" not in hung.log():
            assert time.monotonic() < until
            time.sleep(0.02)
        hung.process.terminate()
        assert exit_code(hung) == -signal.SIGTERM


def test_a_port_in_use_is_noticed_only_after_loading_and_hangs_deaf_to_sigterm() -> None:
    port = free_port()
    with serve(scale=2000, port=port) as first:
        first.wait_ready()
        with serve(scale=2000, port=port) as second:
            until = time.monotonic() + LIMIT_S
            while "address already in use" not in second.log():
                assert time.monotonic() < until
                time.sleep(0.02)
            second.process.terminate()
            with pytest.raises(subprocess.TimeoutExpired):
                second.process.wait(0.3)


def test_old_versions_kill_themselves_after_draining() -> None:
    with serve(scale=2000, EMULATED_VERSION="0.5.9") as served:
        served.wait_ready()
        os.kill(served.process.pid, signal.SIGTERM)
        assert exit_code(served) == -signal.SIGKILL


def test_rate_over_http_is_the_rate_of_the_truth(paced: Served) -> None:
    paced.wait_ready()
    tokens, half = 800, 400
    truth = EmulatedEngine(
        make_settings({"model_path": "m", "tp_size": 8}, {}, "0.5.23"), TRUTHS["M"], 0
    )
    list(truth.steps("The capital city of France is", 8))
    for _ in range(paced.log().count("Prefill batch") - 1):
        truth.prefill([truth.open([0], 1)])
    ratios = []
    for number in range(3):
        body = native(f"pace {number}", tokens)
        times_s = [event.at_s for event in paced.stream("/generate", body)]
        due_s = list(accumulate(step.duration_s for step in truth.steps(body["text"], tokens)))
        assert len(times_s) == len(due_s) == tokens
        ratios.append(
            statistics.median(
                (times_s[n + half] - times_s[n]) * PACE_SCALE / (due_s[n + half] - due_s[n])
                for n in range(tokens - half)
            )
        )
    assert statistics.median(ratios) == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("die_at_request", "Scheduler hit an exception"),
        ("abort_at_request", "kill_process_tree called"),
    ],
)
def test_a_request_can_be_the_servers_last(fault: str, line: str) -> None:
    with serve(scale=2000, world=f"[faults]\n{fault} = 2") as served:
        served.wait_ready()
        assert served.ask("POST", "/generate", native("first", 20)).status == 200
        connection = served.open("POST", "/generate", native("second", 20))
        assert exit_code(served) == -signal.SIGKILL
        connection.close()
        assert line in served.log()


@pytest.mark.parametrize("fault", ["hang_at_request", "worker_dies_at_request"])
def test_a_server_can_stay_without_ever_answering_again(fault: str) -> None:
    with serve(scale=2000, world=f"[faults]\n{fault} = 2") as served:
        served.wait_ready()
        assert served.ask("POST", "/generate", native("first", 20)).status == 200
        connection = served.open("POST", "/generate", native("second", 20))
        until = time.monotonic() + LIMIT_S
        while served.ask("GET", "/health").status != 503:
            assert time.monotonic() < until
        assert served.process.poll() is None
        assert served.ask("GET", "/model_info").status == 200
        connection.close()
