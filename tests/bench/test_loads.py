"""Answers that benches ask for on fast emulated hosts have a rate, however busy the machine is."""

from asyncio import selector_events
from runpy import run_path

import pytest

from orchestrator.load_client.dialects import DIALECTS
from orchestrator.load_client.seam import Sampling
from sweeps.prompts import Prompt
from tests.bench.programs import ROOT
from tests.infra.emulated.serving import serve

pytestmark = pytest.mark.slow

LONG_ANSWER_TOKENS: int = run_path(str(ROOT / "bench/reporting/loads.py"))["LONG_ANSWER_TOKENS"]
NGRAM = ("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens")
MOST_READ_BYTES = selector_events._SelectorSocketTransport.max_size  # type: ignore[attr-defined]
"""Of asyncio's own loop; uvloop reads 256,000 bytes at most."""


@pytest.mark.parametrize("flags", [(), (*NGRAM, "2"), (*NGRAM, "8"), (*NGRAM, "32")])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_long_answer_never_comes_in_one_read(flags: tuple[str, ...], dialect: str) -> None:
    sampling = Sampling(max_tokens=LONG_ANSWER_TOKENS, ignore_eos=True)
    form = DIALECTS[dialect]
    with serve(*flags, scale=2000.0) as server:
        server.wait_ready()
        body = form.body(Prompt.of("Tell a story of two rivers."), sampling)
        assert len(server.ask("POST", form.path, body).body) > 1.5 * MOST_READ_BYTES
