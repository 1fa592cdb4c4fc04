"""The emulated server against the real SGLang on a CPU: the same requests, the same replies.

What may differ is listed with its reason in `fidelity/differences.toml`.
"""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import pytest

from infra.clock import ScaledClock
from infra.emulated.drafting.drafter import Drafter, make_drafter
from infra.emulated.settings import make_settings
from infra.emulated.truth import TRUTHS
from infra.sglang.control import ServerControl
from infra.sglang.flags import FLAGS
from infra.sglang.logs import accept_lengths, decode_rates
from infra.sglang_cpu.build import build
from infra.sglang_cpu.layout import DEFAULT_ENV, DEFAULT_MODEL, EnvLayout
from orchestrator.load_client.client import StreamingClient
from orchestrator.load_client.dialects import DIALECTS
from sweeps.replay.streams import Stream
from sweeps.token_accounts import TOKENS_COUNTER, Account, ServerCounts, account_of
from sweeps.values import Value
from tests.contracts import passes
from tests.contracts.fidelity.differences import Difference, compare, known_differences
from tests.contracts.fidelity.exchanges import EXCHANGES, IDS, PROMPT, TOKENS, Exchange
from tests.contracts.fidelity.peer import LIMIT_S, Json, Peer, chat
from tests.contracts.fidelity.replays import COMMON, VERSION, histograms
from tests.contracts.fidelity.scenes import SCENES
from tests.contracts.fidelity.servers import (
    DRAFT_TOKENS,
    LOG_INTERVAL,
    NGRAM_SERVER,
    PLAIN_SERVER,
    ROOT,
    TIME_SCALE,
    emulated_server,
    real_server,
    wait_ready,
)
from tests.contracts.fidelity.shapes import Facts, facts_of, plain, shape_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MOST_ROWS = 15
SHOWN = 12
TRIES_AGAIN = 3
METRICS = (
    "prompt_tokens_total generation_tokens_total spec_verify_calls_total num_requests_total "
    "cached_tokens_total num_running_reqs num_queue_reqs gen_throughput token_usage "
    "cache_hit_rate spec_accept_length spec_accept_rate max_total_num_tokens "
    "time_to_first_token_seconds inter_token_latency_seconds e2e_request_latency_seconds"
)
PEERS = ("real", "emulated")
BY_RECENCY: dict[str, Value] = {"speculative_num_draft_tokens": DRAFT_TOKENS}
BY_LIKELIHOOD: dict[str, Value] = {**BY_RECENCY, "speculative_ngram_match_type": "PROB"}
Survey = dict[str, dict[str, Facts]]
"""What was seen, by peer, then by exchange or scene."""


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Peer]]:
    """Start both servers, and the emulated one without drafts; they may not be ready yet."""
    build(EnvLayout(ROOT / DEFAULT_ENV), ROOT / DEFAULT_MODEL, print)
    folder = tmp_path_factory.mktemp("fidelity")
    with (
        real_server(folder) as real,
        emulated_server(folder, "emulated", NGRAM_SERVER) as emulated,
        emulated_server(folder, "plain", PLAIN_SERVER) as plainly,
    ):
        yield {"real": real, "emulated": emulated, "plain": plainly}


@pytest.fixture(scope="module")
def survey(peers: dict[str, Peer]) -> Survey:
    """Do everything that is compared, once, with both at the same time."""
    with ThreadPoolExecutor(len(PEERS)) as pool:
        return dict(zip(PEERS, pool.map(_surveyed, map(peers.__getitem__, PEERS)), strict=True))


@pytest.fixture(params=PEERS)
def peer(request: pytest.FixtureRequest, peers: dict[str, Peer]) -> Peer:
    """Give one of the two, with empty caches."""
    chosen = peers[request.param]
    wait_ready(chosen)
    chosen.flush()
    return chosen


def _surveyed(peer: Peer) -> dict[str, Facts]:
    wait_ready(peer)
    peer.flush()
    stops = _stops(peer)
    seen = {e.name: _exchanged(peer, e, *stops) for e in EXCHANGES}
    _remove_corpora(peer)
    for name in SCENES:
        seen[name] = _played(peer, name)
    return seen | {"log": _log_lines(peer)}


def _seen_again(peer: Peer, name: str) -> Facts:
    """Do one thing that is compared once more."""
    if name in SCENES:
        return _played(peer, name)
    peer.flush()
    return _exchanged(peer, next(e for e in EXCHANGES if e.name == name), *_stops(peer))


def _stops(peer: Peer) -> tuple[str, int]:
    """Return a text and a token at which an answer of the model can stop."""
    told = peer.generate(PROMPT, TOKENS).json
    text = told["text"]
    return text[len(text) // 2 :][:3], told["output_ids"][5]


def _played(peer: Peer, name: str) -> Facts:
    peer.flush()
    return SCENES[name](peer)


def _exchanged(peer: Peer, exchange: Exchange, stop_text: str, stop_id: int) -> Facts:
    if exchange.flushed:
        peer.flush()
    sent = exchange.sent(stop_text, stop_id)
    reply = peer.ask(exchange.method, exchange.path, sent)
    if exchange.part and reply.headers.get("content-type") == "application/json":
        return {"status": str(reply.status), **shape_of(reply.json, "body", literal=False)}
    return facts_of(reply, stream=exchange.stream)


def _remove_corpora(peer: Peer) -> None:
    """Leave the drafter as it started: a flush keeps these."""
    listed = peer.ask("GET", "/list_external_corpora")
    for name in listed.json["corpus_token_counts"] if listed.status == 200 else []:
        peer.ask("POST", "/remove_external_corpus", {"corpus_id": name})


def _log_lines(peer: Peer) -> Facts:
    """List the forms of the lines that were logged; accesses are one form."""
    stamped = re.findall(r"^\[[-0-9: ]+\] (.*)$", peer.log_path.read_text(), re.MULTILINE)
    return {plain(re.sub(r'- "\w+ /.*', "- an access", line)): "logged" for line in stamped}


def _differences(survey: Survey, name: str) -> list[Difference]:
    part = name == "log" or any(e.part for e in EXCHANGES if e.name == name)
    return compare(name, survey["real"][name], survey["emulated"][name], part=part)


def _news(survey: Survey, name: str) -> list[Difference]:
    """List the differences that have no reason on record."""
    known = known_differences()
    return [d for d in _differences(survey, name) if not any(k.covers(d) for k in known)]


@pytest.mark.parametrize("name", [*(e.name for e in EXCHANGES), *SCENES, "log"])
def test_no_reply_differs_but_as_listed(survey: Survey, peers: dict[str, Peer], name: str) -> None:
    new = _news(survey, name)
    tries = 0 if name == "log" else TRIES_AGAIN
    while new and tries:  # on a busy machine a server joins chunks, or is done before it is asked
        tries -= 1
        for each in PEERS:
            survey[each][name] = _seen_again(peers[each], name)
        new = _news(survey, name)
    assert not new, "\n".join([f"{len(new)} differences", *map(str, new[:SHOWN])])


def test_every_listed_difference_exists_and_the_list_is_short(survey: Survey) -> None:
    seen = [d for name in survey["real"] for d in _differences(survey, name)]
    known = known_differences()
    gone = [k for k in known if not any(k.covers(d) for d in seen)]
    assert not gone, "\n".join(f"{row.request}: {row.place}" for row in gone)
    assert len(known) < MOST_ROWS
    assert all(len(k.reason) > 20 for k in known)


def test_server_info_has_every_setting_that_the_platform_reads(survey: Survey) -> None:
    read = [f"body.{name}" for name in FLAGS if f"body.{name}" in survey["real"]["server_info"]]
    assert len(read) > 60
    assert not set(read) - survey["emulated"]["server_info"].keys()


def test_the_metrics_that_are_watched_exist(survey: Survey) -> None:
    for name in PEERS:
        found = survey[name]["metrics"]
        assert not [m for m in METRICS.split() if f"sglang:{m}" not in found], name


@pytest.mark.parametrize(
    ("asked", "as_if"),
    [
        ("generate text", "generate text"),
        ("generate text, stream", "generate text, stream"),
        ("chat spec details", "chat plain"),
        ("chat spec details, stream", "chat plain, stream"),
    ],
)
def test_without_drafts_only_the_figures_of_drafts_are_missing(
    peers: dict[str, Peer], survey: Survey, asked: str, as_if: str
) -> None:
    """Recorded: SGLang 0.5.23 without speculation answers so."""
    wait_ready(peers["plain"])
    [exchange] = [e for e in EXCHANGES if e.name == asked]
    expected = {k: v for k, v in survey["real"][as_if].items() if ".spec_" not in k}
    assert _exchanged(peers["plain"], exchange, "", 0) == expected


def test_without_drafts_there_are_no_corpora(peers: dict[str, Peer]) -> None:
    """Recorded: SGLang 0.5.23 without speculation answers so."""
    wait_ready(peers["plain"])
    listed = peers["plain"].ask("GET", "/list_external_corpora")
    assert listed.status == 400
    assert listed.json == {
        "success": False,
        "corpus_token_counts": {},
        "message": "Ngram speculative decoding is not enabled.",
    }


def test_the_lines_that_operators_read_have_one_form(survey: Survey) -> None:
    heads = ("Decode batch", "Prefill batch", "max_total_num_tokens=", "The server is fired up")
    forms = [
        {
            re.sub(r"(cpu|cuda) graph: (True|False)|available_(cpu|gpu)_mem", "GRAPH", line)
            for line in survey[name]["log"]
            if line.startswith(heads)
        }
        for name in PEERS
    ]
    assert forms[0] == forms[1]
    assert len(forms[0]) >= len(heads)


def check_counters(meta: Json) -> None:
    """Check what the counters of one finished request owe each other."""
    completed, verifies = meta["completion_tokens"], meta["spec_verify_ct"]
    histogram, correct = meta["spec_correct_drafts_histogram"], meta["spec_num_correct_drafts"]
    proposed = meta["spec_num_proposed_drafts"]
    assert sum(histogram) == verifies
    assert sum(drafts * steps for drafts, steps in enumerate(histogram)) == correct
    assert proposed == verifies * (DRAFT_TOKENS - 1)
    assert meta["spec_accept_length"] == pytest.approx(completed / verifies)
    assert meta["spec_accept_rate"] == pytest.approx(correct / proposed)
    # The first token comes from the prefill; the last verify may accept more than is still due.
    assert 0 <= 1 + verifies + correct - completed < DRAFT_TOKENS


def test_counters_of_a_whole_reply_agree(peer: Peer) -> None:
    for tokens in (2, 3, 120):
        reply = peer.generate(PROMPT, tokens).json
        assert reply["meta_info"]["completion_tokens"] == len(reply["output_ids"]) == tokens
        assert reply["meta_info"]["finish_reason"] == {"type": "length", "length": tokens}
        check_counters(reply["meta_info"])


def test_chunks_only_grow_and_the_last_tells_why(peer: Peer) -> None:
    chunks = peer.generate(PROMPT, 150, stream=True).chunks
    counts = [chunk["meta_info"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(set(counts)) == [len(chunk["output_ids"]) for chunk in chunks]
    assert counts[-1] == 150
    assert all(b["output_ids"][: len(a["output_ids"])] == a["output_ids"]
               for a, b in pairwise(chunks))  # fmt: skip
    reasons = [chunk["meta_info"]["finish_reason"] for chunk in chunks]
    assert reasons[:-1] == [None] * (len(chunks) - 1)
    assert reasons[-1] == {"type": "length", "length": 150}
    check_counters(chunks[-1]["meta_info"])


def test_usage_of_a_chat_is_what_its_meta_info_says(peer: Peer) -> None:
    reply = peer.ask("POST", "/v1/chat/completions", chat(PROMPT, 100, return_meta_info=True)).json
    meta, usage = reply["choices"][0]["meta_info"], reply["usage"]
    assert usage["completion_tokens"] == meta["completion_tokens"] == 100
    assert usage["prompt_tokens"] == meta["prompt_tokens"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    check_counters(meta)


def test_usage_of_a_chat_stream_grows_to_the_last(peer: Peer) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = chat(PROMPT, 100, stream=True, stream_options=options, return_spec_tokens_details=True)
    chunks = peer.ask("POST", "/v1/chat/completions", body).chunks
    counts = [c["usage"]["completion_tokens"] for c in chunks if c.get("usage")]
    assert counts == sorted(counts)
    assert counts[-1] == 100
    [details] = [c["sglext"]["spec_tokens_details"] for c in chunks if c.get("sglext")]
    check_counters({**details, "completion_tokens": 100})


def test_a_repeat_is_drafted_better_until_a_flush(peer: Peer) -> None:
    def accept_length() -> float:
        return float(peer.generate(PROMPT, 150).json["meta_info"]["spec_accept_length"])

    cold, warm = accept_length(), accept_length()
    assert warm > 1.5 * cold
    peer.flush()
    assert accept_length() == cold


def test_the_lifetime_accept_length_ends_with_a_flush(peer: Peer) -> None:
    def state() -> Json:
        states = peer.ask("GET", "/server_info").json["internal_states"]
        return dict(states[0])

    assert state().get("avg_spec_accept_length") is None
    peer.generate(PROMPT, 200)
    assert 1.0 <= state()["avg_spec_accept_length"] <= DRAFT_TOKENS
    peer.flush()
    assert state().get("avg_spec_accept_length") is None


def total(peer: Peer, name: str) -> float:
    """Return a counter of a server, over all its labels."""
    page = peer.ask("GET", "/metrics").body.decode()
    values = re.findall(rf"^sglang:{name}\{{.*\}} (\S+)$", page, re.MULTILINE)
    return sum(map(float, values))


def test_totals_of_the_metrics_are_the_sums_of_the_replies(peer: Peer) -> None:
    names = ("generation_tokens_total", "prompt_tokens_total", "spec_verify_calls_total")
    before = [total(peer, name) for name in names]
    metas = [peer.generate(PROMPT, 50).json["meta_info"] for _ in range(3)]
    fields = ("completion_tokens", "prompt_tokens", "spec_verify_ct")
    added = [total(peer, name) - old for name, old in zip(names, before, strict=True)]
    assert added == [sum(meta[field] for meta in metas) for field in fields]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_clients_figures_are_those_of_the_real_servers_counters(
    peers: dict[str, Peer], dialect: str
) -> None:
    real = peers["real"]
    wait_ready(real)
    names = (
        "generation_tokens_total", "spec_verify_calls_total",
        "inter_token_latency_seconds_sum", "inter_token_latency_seconds_count",
    )  # fmt: skip
    before = [total(real, name) for name in names]
    url = f"http://127.0.0.1:{real.port}"
    client = StreamingClient(ScaledClock(1.0))
    seen = passes.run(client, url, dialect, prompts=12, max_tokens=200).requests
    tokens, verifies, itl_s, gaps = (
        total(real, name) - old for name, old in zip(names, before, strict=True)
    )
    assert sum(r.output_tokens for r in seen) == tokens
    assert sum(r.verify_steps or 0 for r in seen) == verifies
    tpot_s = sum(r.decode_s for r in seen) / sum(r.decode_tokens for r in seen)
    assert tpot_s == pytest.approx(itl_s / gaps, rel=0.05)  # 0.008 where nothing else runs


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_counts_of_a_sound_server_do_not_contradict_each_other(
    peer: Peer, dialect: str
) -> None:
    """Nothing may be told of either: what is tolerated is no more than what they do."""
    url, before = f"http://127.0.0.1:{peer.port}", len(peer.log_path.read_text())
    control = ServerControl(url)
    counted = control.counters()
    client = StreamingClient(ScaledClock(1.0 if peer.name == "real" else TIME_SCALE))
    record = passes.run(client, url, dialect, prompts=8, concurrency=2, max_tokens=64)
    rose = {n: count - counted.get(n, 0.0) for n, count in control.counters().items()}
    assert rose[TOKENS_COUNTER] == sum(r.output_tokens for r in record.requests)
    lines = peer.log_path.read_text()[before:].splitlines()
    theirs = ServerCounts(rose, decode_rates(lines))
    assert account_of(record, DRAFT_TOKENS, theirs) == Account()


def test_one_reader_reads_both_logs(peer: Peer) -> None:
    def lines() -> list[str]:
        return peer.log_path.read_text().splitlines()

    before = len(lines())
    meta = peer.generate(PROMPT, 200).json["meta_info"]
    due, unlogged_steps = divmod(meta["spec_verify_ct"], LOG_INTERVAL)
    until_s = time.monotonic() + LIMIT_S
    while len(accept_lengths(lines()[before:])) < due and time.monotonic() < until_s:
        time.sleep(0.05)
    lengths = accept_lengths(lines()[before:])
    assert len(lengths) == due
    accepted = meta["spec_verify_ct"] + meta["spec_num_correct_drafts"]
    unlogged = accepted - sum(length * LOG_INTERVAL for length in lengths)
    assert unlogged_steps <= unlogged <= unlogged_steps * DRAFT_TOKENS


@dataclass(frozen=True, slots=True)
class Replayed:
    """One greedy request of the real server, and what the target would have written after it."""

    prompt: list[int]
    output: list[int]
    beyond: list[int]
    histogram: list[int]


@pytest.fixture(scope="module")
def replayed(peers: dict[str, Peer]) -> list[Replayed]:
    """Record requests of the real server that share one trie."""
    return _recorded(peers["real"])


@pytest.fixture(scope="module")
def replayed_by_likelihood(tmp_path_factory: pytest.TempPathFactory) -> list[Replayed]:
    """Record the same of a real server that drafts what was most frequent."""
    build(EnvLayout(ROOT / DEFAULT_ENV), ROOT / DEFAULT_MODEL, print)
    flags = (*NGRAM_SERVER, "--speculative-ngram-match-type", "PROB")
    with real_server(tmp_path_factory.mktemp("likely"), flags) as real:
        return _recorded(real)


def _recorded(real: Peer) -> list[Replayed]:
    """Send requests of which each finds in the trie what the ones before have left there."""
    wait_ready(real)
    real.flush()
    prompts = [IDS, [*IDS[::-1], 500, 501], IDS, list(range(100, 160))]
    replies = [real.generate(ids, 250).json for ids in prompts]
    return [
        Replayed(
            ids,
            reply["output_ids"],
            real.generate([*ids, *reply["output_ids"]], DRAFT_TOKENS).json["output_ids"],
            reply["meta_info"]["spec_correct_drafts_histogram"],
        )
        for ids, reply in zip(prompts, replies, strict=True)
    ]


def _histogram(drafter: Drafter, told: Replayed) -> list[int]:
    """Count the verify steps by their correct drafts, as the real server does."""
    counts = [0] * DRAFT_TOKENS
    request = drafter.open(told.prompt, 0)
    target = [*told.output, *told.beyond]
    request.commit(target[:1])
    done = 1
    while done < len(told.output):
        correct = request.correct_drafts(target[done:])
        counts[correct] += 1
        accepted = target[done : done + correct + 1][: len(told.output) - done]
        request.commit(accepted)
        done += len(accepted)
    request.end(target[done:][:1])
    return counts


def _drafted(replayed: list[Replayed], settings: dict[str, Value]) -> list[list[int]]:
    given: dict[str, Value] = {"model_path": "m", "tp_size": 1, **COMMON, **settings}
    drafter = make_drafter(make_settings(given, {}, VERSION), TRUTHS["M"])
    return [_histogram(drafter, told) for told in replayed]


def _replayed(replayed: list[Replayed], settings: dict[str, Value]) -> list[list[int]]:
    streams = [Stream(told.prompt, told.output, told.beyond) for told in replayed]
    return histograms(streams, settings)


def test_our_drafter_takes_the_steps_of_the_real_one(replayed: list[Replayed]) -> None:
    ours = _drafted(replayed, BY_RECENCY)
    assert ours == [told.histogram for told in replayed]
    assert ours[2][-1] > ours[0][-1], "a repeat is drafted better"


def test_replay_takes_the_steps_of_the_real_one(replayed: list[Replayed]) -> None:
    assert _replayed(replayed, BY_RECENCY) == [told.histogram for told in replayed]


def test_drafter_and_replay_take_the_real_ones_steps_by_likelihood(
    replayed_by_likelihood: list[Replayed],
) -> None:
    real = [told.histogram for told in replayed_by_likelihood]
    assert _drafted(replayed_by_likelihood, BY_LIKELIHOOD) == real
    assert _replayed(replayed_by_likelihood, BY_LIKELIHOOD) == real
    # The same requests tell the two ways to draft apart.
    assert _replayed(replayed_by_likelihood, BY_RECENCY) != real
