"""Replay takes the verify steps of the real SGLang: its counters, request by request."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.sglang.ngram_form import ngram_form
from infra.sglang_cpu.build import build
from infra.sglang_cpu.layout import DEFAULT_ENV, DEFAULT_MODEL, EnvLayout
from sweeps.replay.replayer import Replayer
from sweeps.replay.streams import Stream
from sweeps.values import Value
from tests.contracts.fidelity.peer import Json, Peer
from tests.contracts.fidelity.servers import PLAIN_SERVER, ROOT, real_server, wait_ready

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

VERSION = "0.5.23"
OUTPUT_TOKENS, BEYOND_TOKENS = 250, 24
COMMON: dict[str, Value] = {
    "speculative_algorithm": "NGRAM",
    "speculative_ngram_capacity": 100_000,
    "disable_overlap_schedule": True,
}
BY_RECENCY: dict[str, Value] = {
    "speculative_num_draft_tokens": 16,
    "speculative_ngram_max_bfs_breadth": 8,
}
BY_LIKELIHOOD: dict[str, Value] = {
    "speculative_num_draft_tokens": 8,
    "speculative_ngram_match_type": "PROB",
    "speculative_ngram_max_trie_depth": 6,
}


@dataclass(frozen=True, slots=True)
class Served:
    """What a server told of one request."""

    output: list[int]
    histogram: list[int]
    """Verify steps by their correct drafts."""


def prompts() -> list[list[int]]:
    rng = random.Random(5)
    random_ids = [[rng.randrange(3, 1000) for _ in range(rng.randint(5, 30))] for _ in range(4)]
    return [*random_ids, random_ids[0]]


@contextmanager
def server(folder: Path, settings: dict[str, Value]) -> Iterator[Peer]:
    """Start the real SGLang with n-gram settings, and wait until it serves."""
    told = {name: value for name, value in (COMMON | settings).items() if value is not True}
    flags = [word for n, v in told.items() for word in ("--" + n.replace("_", "-"), str(v))]
    with real_server(folder, (*PLAIN_SERVER, *flags)) as peer:
        wait_ready(peer)
        peer.flush()
        yield peer


def served(peer: Peer, tokens: int) -> list[Served]:
    replies: list[Json] = [peer.generate(ids, tokens).json for ids in prompts()]
    return [
        Served(reply["output_ids"], reply["meta_info"]["spec_correct_drafts_histogram"])
        for reply in replies
    ]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Stream], list[Served]]:
    """Record streams and what the same server's counters say of their first tokens."""
    build(EnvLayout(ROOT / DEFAULT_ENV), ROOT / DEFAULT_MODEL, print)
    with server(tmp_path_factory.mktemp("recency"), BY_RECENCY) as peer:
        told = served(peer, OUTPUT_TOKENS)
        whole = served(peer, OUTPUT_TOKENS + BEYOND_TOKENS)
    streams = [
        Stream(ids, ids_out[:OUTPUT_TOKENS], ids_out[OUTPUT_TOKENS:])
        for ids, ids_out in zip(prompts(), (s.output for s in whole), strict=True)
    ]
    return streams, told


def check(streams: list[Stream], told: list[Served], settings: dict[str, Value]) -> None:
    """Compare every request's text and its verify steps by their correct drafts."""
    assert [s.output for s in told] == [s.output for s in streams]
    shape = ngram_form(VERSION, COMMON).shape(settings)
    assert shape is not None
    steps = Replayer(streams).steps(shape)
    for number, seen in enumerate(told):
        counts = Counter(steps.correct[steps.stream == number].tolist())
        replayed = [counts[drafts] for drafts in range(shape.draft_tokens)]
        assert replayed[: len(seen.histogram)] == seen.histogram, (number, settings)
        assert sum(replayed) == sum(seen.histogram)


def test_the_steps_by_recency_are_the_server_s(
    recording: tuple[list[Stream], list[Served]],
) -> None:
    streams, told = recording
    check(streams, told, BY_RECENCY)
    assert sum(told[-1].histogram) < sum(told[0].histogram), "a repeat is drafted better"


def test_the_steps_by_likelihood_are_predicted_from_the_recording_of_another_server(
    recording: tuple[list[Stream], list[Served]], tmp_path: Path
) -> None:
    with server(tmp_path, BY_LIKELIHOOD) as peer:
        told = served(peer, OUTPUT_TOKENS)
    check(recording[0], told, BY_LIKELIHOOD)
