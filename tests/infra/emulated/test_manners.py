"""The emulated server behaves as its version of SGLang: a row a version."""

import asyncio
import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from infra.emulated.arguments import parse
from infra.emulated.engine import EmulatedEngine
from infra.emulated.logs import DecodeWindow, Pressure, accept_rate, decode_line, prefill_line
from infra.emulated.resolution import resolve
from infra.emulated.rules import resolution_fault
from infra.emulated.serving.jobs import Emission, Job
from infra.emulated.serving.openai_replies import ChatStream, Wishes
from infra.emulated.serving.replies import DONE, NativeStream, Style
from infra.emulated.serving.streaming import ConnectionCutError, Flow
from infra.emulated.settings import make_settings
from infra.emulated.truth import TRUTHS
from infra.emulated.versions import METRICS, manners
from orchestrator.load_client.dialects import DIALECTS, take_reads
from orchestrator.load_client.http_answer import EventSplitter
from orchestrator.load_client.tally import Tally
from sweeps.values import Value
from tests.infra.emulated.asgi import BASE, NGRAM, inside

VERSIONS = ("0.5.3", "0.5.4", "0.5.9", "0.5.12", "0.5.15", "0.5.20", "0.5.23")
BODY = {"text": "a prompt", "sampling_params": {"max_new_tokens": 60, "temperature": 0}}
WINDOW = DecodeWindow(40, 60, 20, 280, 40, 60, 1.0)
EAGLE: dict[str, Value] = {"speculative_algorithm": "EAGLE3", "speculative_draft_model_path": "d"}


@pytest.mark.parametrize(
    ("version", "present", "absent"),
    [
        ("0.5.3", {"spec_verify_ct"}, {"spec_accept_rate", "num_retractions"}),
        ("0.5.4", {"spec_accept_rate", "spec_accept_length"}, {"spec_accept_token_num"}),
        ("0.5.6.post2", {"spec_accept_token_num", "total_retractions"}, {"spec_accept_histogram"}),
        ("0.5.9", {"spec_draft_token_num", "spec_accept_histogram"}, {"dp_rank"}),
        ("0.5.11", {"spec_accepted_drafts", "reasoning_tokens"}, {"spec_num_correct_drafts"}),
        ("0.5.12", {"spec_num_correct_drafts", "spec_accepted_drafts"}, {"weight_versions"}),
        ("0.5.20", {"spec_accept_histogram", "weight_versions"}, {"total_retractions"}),
        ("0.5.23", {"spec_correct_drafts_histogram", "num_retractions"}, {"spec_accepted_drafts"}),
    ],
)
def test_meta_info(version: str, present: set[str], absent: set[str]) -> None:
    with inside(NGRAM, version) as server:
        meta = server.ask("POST", "/generate", BODY).json()["meta_info"]
    assert present <= meta.keys()
    assert not absent & meta.keys()
    assert meta["completion_tokens"] == 60
    assert 1 <= meta["completion_tokens"] / meta["spec_verify_ct"] < 9
    if version == "0.5.4":
        assert meta["spec_accept_length"] == meta["spec_accept_rate"] == 0


def test_a_plain_server_tells_no_accept_figures() -> None:
    with inside() as server:
        meta = server.ask("POST", "/generate", BODY).json()["meta_info"]
    assert not [name for name in meta if name.startswith("spec_")]


@pytest.mark.parametrize(
    ("version", "head", "rate", "tail"),
    [
        ("0.5.3", "Decode batch. #running-req: 1, ", None, "#queue-req: 0,"),
        ("0.5.4", "Decode batch [7], #running-req: 1, ", 1.5, "#queue-req: 0,"),
        ("0.5.7", "Decode batch, #running-req: 1, ", 60 / 320, "#queue-req: 0,"),
        ("0.5.9", "Decode batch, #running-req: 1, ", 60 / 320, "#queue-req: 0"),
        ("0.5.12", "Decode batch, #running-req: 1, ", 20 / 280, "#queue-req: 0"),
    ],
)
def test_decode_lines(version: str, head: str, rate: float | None, tail: str) -> None:
    how, settings = manners(version), make_settings({**BASE, **NGRAM}, {}, version)
    line = decode_line(how, WINDOW, Pressure(1, 0, 50, 0.01, 7), settings, graph=True)
    assert line.startswith(head)
    assert line.endswith(tail)
    assert "accept len: 1.50, " in line
    assert ("accept rate" in line) is (rate is not None)
    if rate is not None:
        assert accept_rate(how, WINDOW, settings) == pytest.approx(rate)


def test_prefill_lines_put_the_rate_where_the_version_does() -> None:
    lines = {
        version: prefill_line(
            manners(version), Pressure(0, 0, 9, 0.0, 3), new=1, new_tokens=9, cached=0, rate=2.0
        )
        for version in VERSIONS
    }
    assert "throughput" not in lines["0.5.4"]
    assert lines["0.5.9"].endswith("cuda graph: False")
    assert lines["0.5.23"].endswith("input throughput (token/s): 2.00")
    assert "#pending-token" in lines["0.5.12"]


@pytest.mark.parametrize(
    ("version", "present", "absent"),
    [
        ("0.5.4", {"/get_server_info", "/get_load"}, {"/server_info", "/v1/loads", "/ready"}),
        ("0.5.7", {"/server_info", "/get_load"}, {"/v1/loads"}),
        ("0.5.8", {"/server_info", "/get_server_info", "/v1/loads"}, {"/list_external_corpora"}),
        ("0.5.12", {"/list_external_corpora", "/get_load"}, {"/ready"}),
        ("0.5.20", {"/ready", "/get_load"}, {"/metrics"}),
        ("0.5.23", {"/ready", "/v1/loads", "/get_model_info"}, {"/get_load"}),
    ],
)
def test_routes(version: str, present: set[str], absent: set[str]) -> None:
    with inside(NGRAM, version) as server:
        statuses = {path: server.ask("GET", path).status for path in present | absent}
    assert statuses == {**dict.fromkeys(present, 200), **dict.fromkeys(absent, 404)}


@pytest.mark.parametrize("version", VERSIONS)
def test_metrics(version: str) -> None:
    with inside({**NGRAM, "enable_metrics": True}, version) as server:
        server.ask("POST", "/generate", BODY)
        text = server.ask("GET", "/metrics").body.decode()
    how = manners(version)
    shown = {
        line.split()[2].removeprefix("sglang:") for line in text.splitlines() if "TYPE" in line
    }
    later = {name for name in METRICS if not how.has_metric(name)}
    assert not shown & later
    assert {"prompt_tokens_total", "e2e_request_latency_seconds", "spec_accept_length"} <= shown
    assert ("spec_verify_calls_total" in shown) is how.since("0.5.13")
    [generated] = [line for line in text.splitlines() if "generation_tokens_total{" in line]
    assert float(generated.split()[-1]) == 60


@pytest.mark.parametrize(
    ("version", "agrees"), [("0.5.9", True), ("0.5.12", True), ("0.5.15", False), ("0.5.23", False)]
)
def test_old_versions_agree_to_changes_that_they_refuse(version: str, *, agrees: bool) -> None:
    with inside(NGRAM, version) as server:
        path = "/set_internal_state"
        wanted: dict[str, Any] = {"server_args": {"speculative_num_draft_tokens": 4}}
        assert server.ask("POST", path, wanted).json() == [agrees]
        wanted = {"server_args": {"speculative_accept_threshold_single": 0.9}}
        assert server.ask("PUT", path, wanted).json() == [True]


@pytest.mark.parametrize(
    ("version", "flag", "text", "ids"),
    [
        ("0.5.4", None, "grows", "delta"),
        ("0.5.9", None, "grows", "grows"),
        ("0.5.9", "stream_output", "grows", "delta"),
        ("0.5.12", "incremental_streaming_output", "delta", "delta"),
        ("0.5.23", None, "grows", "grows"),
        ("0.5.23", "incremental_streaming_output", "delta", "delta"),
    ],
)
def test_what_native_chunks_repeat(version: str, flag: str | None, text: str, ids: str) -> None:
    with inside({flag: True} if flag else {}, version) as server:
        chunks = server.ask("POST", "/generate", {**BODY, "stream": True}).events()
        whole = server.ask("POST", "/generate", BODY).json()
    if text == "grows":
        assert chunks[-1]["text"] == whole["text"]
    else:
        assert "".join(chunk["text"] for chunk in chunks) == whole["text"]
    parts = [chunk["output_ids"] for chunk in chunks]
    assert (parts[-1] if ids == "grows" else [*chain(*parts)]) == whole["output_ids"]


@pytest.mark.parametrize(
    ("version", "line", "told"),
    [
        ("0.5.9", "--speculative-ngram-max-trie-depth 8", "unrecognized"),
        ("0.5.10", "--speculative-ngram-max-match-window-size 8", "unrecognized"),
        ("0.5.9", "--speculative-algorithm DFLASH", "invalid choice"),
        ("0.5.2", "--speculative-algorithm NGRAM", "invalid choice"),
        ("0.5.20", "--cuda-graph-max-bs 8", "ambiguous"),
        ("0.5.20", "--stream-output", "unrecognized"),
        ("0.5.9", "--incremental-streaming-output", "unrecognized"),
        ("0.5.9", "--attention-backend cutedsl_mla", "invalid choice"),
        ("0.5.23", "--speculative-num 8", "ambiguous"),
    ],
)
def test_what_the_parser_refuses(
    version: str, line: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(["--model-path", "m", *line.split()], version)
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("version", "line", "name", "value"),
    [
        ("0.5.13", "--cuda-graph-max-bs 8", "cuda_graph_max_bs", 8),
        ("0.5.15", "--cuda-graph-max-bs 8", "cuda_graph_max_bs_decode", 8),
        ("0.5.15", "--cuda-graph-bs 1 2 8", "cuda_graph_bs_decode", "1 2 8"),
        ("0.5.12", "--speculative-algorithm NONSENSE", "speculative_algorithm", "NONSENSE"),
        ("0.5.12", "--stream-output", "incremental_streaming_output", True),
        ("0.5.23", "--speculative-num-draft 9", "speculative_num_draft_tokens", 9),
        ("0.5.23", "--tp 2", "tp_size", 2),
    ],
)
def test_what_the_parser_takes(version: str, line: str, name: str, value: Value) -> None:
    given = parse(["--model-path", "m", *line.split()], version)
    assert given[name] == value
    assert resolve(given, version)[name] == value


@pytest.mark.parametrize(
    ("version", "given", "expected"),
    [
        ("0.5.9", NGRAM, {"disable_overlap_schedule": True, "speculative_num_steps": None}),
        ("0.5.15", NGRAM, {"disable_overlap_schedule": False, "speculative_num_steps": 0}),
        ("0.5.23", {"speculative_algorithm": "NGRAM"}, {"speculative_num_draft_tokens": 12}),
        ("0.5.7", EAGLE, {"speculative_num_steps": 5, "speculative_num_draft_tokens": 8}),
        ("0.5.9", EAGLE, {"speculative_num_steps": 3, "speculative_eagle_topk": 1}),
        ("0.5.9", EAGLE, {"disable_overlap_schedule": True}),
        ("0.5.13", EAGLE, {"disable_overlap_schedule": False}),
        ("0.5.23", {**EAGLE, "speculative_algorithm": "NEXTN"}, {"speculative_algorithm": "EAGLE"}),
        ("0.5.23", {"attention_backend": "flashmla"}, {"page_size": 64}),
        ("0.5.23", {"enable_mixed_chunk": True, **NGRAM}, {"enable_mixed_chunk": False}),
    ],
)
def test_resolved_defaults(
    version: str, given: dict[str, Value], expected: dict[str, Value]
) -> None:
    args = resolve({**BASE, **given}, version)
    assert {name: args[name] for name in expected} == expected
    assert args["max_running_requests"] == (48 if args["speculative_algorithm"] else 2048)


def test_overlap_with_eagle_is_asked_for_by_a_variable_in_between() -> None:
    env = {"SGLANG_ENABLE_SPEC_V2": "1"}
    assert resolve({**BASE, **EAGLE}, "0.5.9", env)["disable_overlap_schedule"] is False
    off = {"SGLANG_ENABLE_SPEC_V2": "0"}
    assert resolve({**BASE, **EAGLE}, "0.5.12", off)["disable_overlap_schedule"] is True


@pytest.mark.parametrize(
    ("version", "given", "told"),
    [
        ("0.5.9", {**NGRAM, "device": "cpu"}, "only supports CUDA device."),
        ("0.5.20", {**NGRAM, "device": "xpu"}, "CUDA or CPU devices."),
        ("0.5.23", {**NGRAM, "device": "cpu"}, ""),
        ("0.5.23", {**NGRAM, "enable_dp_attention": True}, "dp attention"),
        ("0.5.23", {**NGRAM, "pp_size": 2, "tp_size": 4}, "pipeline"),
        ("0.5.22", {**NGRAM, "speculative_use_block_verification": True}, "block verification"),
        ("0.5.23", {**EAGLE, "speculative_num_steps": 3}, "NoneType"),
        ("0.5.23", {**EAGLE, "speculative_eagle_topk": 2}, "must be unset"),
        ("0.5.9", {**EAGLE, "speculative_num_steps": 3, "speculative_eagle_topk": 4,
                   "speculative_num_draft_tokens": 8, "page_size": 16}, "flashinfer, fa3"),
        ("0.5.23", {**EAGLE, "speculative_num_steps": 3, "speculative_eagle_topk": 4,
                    "speculative_num_draft_tokens": 8, "page_size": 16}, ""),
        ("0.5.23", {"page_size": 64, "chunked_prefill_size": 100}, "chunked_prefill_size"),
        ("0.5.23", {"speculative_algorithm": "DFLASH", "speculative_draft_model_path": "d",
                    "speculative_num_draft_tokens": 4, "speculative_dflash_block_size": 8},
         "differ"),
    ],
)  # fmt: skip
def test_rules(version: str, given: dict[str, Value], told: str) -> None:
    fault = resolution_fault(resolve({**BASE, **given}, version), 8, version)
    assert (told in fault) if told else (fault == "")


CHAT_BODY = {
    "messages": [{"role": "user", "content": "a prompt"}], "max_tokens": 60, "temperature": 0,
    "stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    "return_spec_tokens_details": True, "return_output_ids_in_sglext": True,
}  # fmt: skip
STREAMS = Path(__file__).parents[2] / "data/streams"


def chat_chunks(version: str) -> list[dict[str, Any]]:
    with inside(NGRAM, version) as server:
        return server.ask("POST", "/v1/chat/completions", CHAT_BODY).events()


@pytest.mark.parametrize(
    ("version", "counts", "verifies", "ids"),
    [
        ("0.5.3", False, False, False),
        ("0.5.4", False, False, False),
        ("0.5.5", True, False, False),
        ("0.5.18", True, False, False),
        ("0.5.19", True, True, False),
        ("0.5.20", True, True, True),
        ("0.5.23", True, True, True),
    ],
)
def test_what_a_chat_stream_tells(version: str, *, counts: bool, verifies: bool, ids: bool) -> None:
    chunks = chat_chunks(version)
    said = [c for c in chunks if c["choices"] and c["choices"][0]["delta"].get("content")]
    assert said
    assert all(bool(chunk.get("usage")) is counts for chunk in said)
    assert chunks[-1]["usage"]["completion_tokens"] == 60
    extra: dict[str, Any] = next((chunk["sglext"] for chunk in chunks if "sglext" in chunk), {})
    assert ("spec_tokens_details" in extra, "output_ids" in extra) == (verifies, ids)


def test_an_old_chat_stream_has_usage_where_a_recorded_one_has() -> None:
    """tests/data/streams/old_usage_0_5_4.sse: none before the chunk that follows the last."""
    lines = (STREAMS / "old_usage_0_5_4.sse").read_text().split("\n\n")
    data = [line.strip().removeprefix("data: ") for line in lines if line.strip()]
    recorded = [json.loads(each) for each in data if each != "[DONE]"]
    for chunks in (recorded, chat_chunks("0.5.4")):
        assert [bool(chunk.get("usage")) for chunk in chunks] == [False] * (len(chunks) - 1) + [
            True
        ]
        assert chunks[-1]["choices"] == []


@pytest.mark.parametrize(
    ("version", "told"), [("0.5.9", "Cache flushed"), ("0.5.10", "Flush cache failed")]
)
def test_a_refused_flush_says_so_from_0_5_10_on(version: str, told: str) -> None:
    with inside(NGRAM, version) as server:
        _, refused = server.ask_both(("/generate", BODY), ("/flush_cache", None))
    assert (refused.status, told in refused.body.decode()) == (400, True)


async def given_up(version: str, api: str) -> tuple[bytes, bool]:
    """Return what a stream brings whose request the server gives up, and whether it is whole."""
    settings = make_settings(BASE, {}, version)
    engine = EmulatedEngine(settings, TRUTHS["M"])
    job = Job("r", engine.open("a prompt", 9), 0.0, started_s=0.0, prefilled_s=0.0)
    job.emissions.append(
        Emission((), 0, 1.0, finished=True, aborted=True, failure="KV cache pool is full.")
    )
    job.ready.set()
    style = Style(manners(version), settings.draft_tokens)
    frames: Any = NativeStream(job, style)
    if api == "chat":
        frames = ChatStream(job, style, Wishes("m"))
    sent = b""
    try:
        async for part in Flow([frames], lambda _: DONE).events():
            sent += part
    except ConnectionCutError:
        return sent, False
    return sent, True


@pytest.mark.parametrize(
    ("api", "version", "whole"),
    [("chat", "0.5.9", False), ("chat", "0.5.10", True), ("chat", "0.5.23", True),
     ("generate", "0.5.10", False), ("generate", "0.5.11", True), ("generate", "0.5.23", True)],
)  # fmt: skip
def test_old_versions_close_the_connection_of_what_they_give_up(
    api: str, version: str, *, whole: bool
) -> None:
    sent, ended = asyncio.run(given_up(version, api))
    assert ended is whole
    assert (b"KV cache pool is full." in sent) is whole
    if whole:
        tally, splitter = Tally(), EventSplitter()
        take_reads(DIALECTS[api], [(0.0, splitter.feed(sent))], tally)
        assert "(500): KV cache pool is full." in tally.fault


def test_corpora(tmp_path: Path) -> None:
    flags: dict[str, Value] = {**NGRAM, "speculative_ngram_external_sam_budget": 4}
    path = tmp_path / "corpus.jsonl"
    path.write_text('"one two three"\n"four five"\n')
    with inside(flags) as server:
        added = server.ask("POST", "/add_external_corpus", {"corpus_id": "a", "documents": ["x y"]})
        assert added.json()["loaded_token_count"] == 2
        again = server.ask("POST", "/add_external_corpus", {"corpus_id": "a", "documents": ["z"]})
        assert again.status == 400
        filed = server.ask(
            "POST", "/add_external_corpus", {"corpus_id": "b", "file_path": str(path)}
        )
        assert filed.json()["success"] is True
        counts = server.ask("GET", "/list_external_corpora").json()["corpus_token_counts"]
        assert set(counts) == {"a", "b"}
        removed = server.ask("POST", "/remove_external_corpus", {"corpus_id": "a"})
        assert removed.json() == {"success": True, "message": "Removed corpus 'a'."}
    with inside() as plain:
        refused = plain.ask("POST", "/add_external_corpus", {"documents": ["x"]})
        assert (refused.status, refused.json()["success"]) == (400, False)


def test_a_corpus_raises_the_accept_length() -> None:
    flags: dict[str, Value] = {**NGRAM, "speculative_ngram_external_sam_budget": 7}

    def verifies(server: Any) -> int:
        server.ask("POST", "/flush_cache")
        return int(server.ask("POST", "/generate", BODY).json()["meta_info"]["spec_verify_ct"])

    with inside(flags) as server:
        text = server.ask("POST", "/generate", BODY).json()["text"]
        without = verifies(server)
        server.ask("POST", "/add_external_corpus", {"documents": [text]})
        assert verifies(server) < without / 2
