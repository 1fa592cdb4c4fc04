"""Replay takes the verify steps of the real SGLang by likelihood: its counters, by request.

By recency it is held against the server of `test_server_fidelity`.
"""

import random
from pathlib import Path

import pytest

from infra.sglang_cpu.build import build
from infra.sglang_cpu.layout import DEFAULT_ENV, DEFAULT_MODEL, EnvLayout
from sweeps.replay.streams import Stream
from sweeps.values import Value
from tests.contracts.fidelity.peer import Json
from tests.contracts.fidelity.replays import COMMON, histograms
from tests.contracts.fidelity.servers import PLAIN_SERVER, ROOT, real_server, wait_ready

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

OUTPUT_TOKENS, BEYOND_TOKENS = 250, 24
BY_LIKELIHOOD: dict[str, Value] = {
    "speculative_num_draft_tokens": 8,
    "speculative_ngram_match_type": "PROB",
    "speculative_ngram_max_trie_depth": 6,
}


def prompts() -> list[list[int]]:
    rng = random.Random(5)
    random_ids = [[rng.randrange(3, 1000) for _ in range(rng.randint(5, 30))] for _ in range(4)]
    return [*random_ids, random_ids[0]]


def test_the_steps_by_likelihood_are_the_server_s(tmp_path: Path) -> None:
    build(EnvLayout(ROOT / DEFAULT_ENV), ROOT / DEFAULT_MODEL, print)
    told = {name: v for name, v in (COMMON | BY_LIKELIHOOD).items() if v is not True}
    flags = [word for n, v in told.items() for word in ("--" + n.replace("_", "-"), str(v))]
    with real_server(tmp_path, (*PLAIN_SERVER, *flags)) as peer:
        wait_ready(peer)
        peer.flush()
        short: list[Json] = [peer.generate(ids, OUTPUT_TOKENS).json for ids in prompts()]
        whole = [peer.generate(ids, OUTPUT_TOKENS + BEYOND_TOKENS).json for ids in prompts()]
    texts = [reply["output_ids"] for reply in whole]
    assert [reply["output_ids"] for reply in short] == [ids[:OUTPUT_TOKENS] for ids in texts]
    streams = [
        Stream(prompt, ids[:OUTPUT_TOKENS], ids[OUTPUT_TOKENS:])
        for prompt, ids in zip(prompts(), texts, strict=True)
    ]
    counted = [reply["meta_info"]["spec_correct_drafts_histogram"] for reply in short]
    for number, replayed in enumerate(histograms(streams, BY_LIKELIHOOD)):
        seen = counted[number]
        assert replayed[: len(seen)] == seen, number
        assert sum(replayed) == sum(seen)
    assert sum(counted[-1]) < sum(counted[0]), "a repeat is drafted better"
