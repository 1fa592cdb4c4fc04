"""Several hosts: what one is slower by is no fault of a configuration."""

from dataclasses import replace

import pytest

from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.search.evidence import HOST_SPREAD, gather
from sweeps.search.steps import Purpose, Step
from tests.sweeps.search.host import BREADTH, NGRAM, SPACE, WIDTH, Host, canonical

PLAIN = canonical(SPACE.plain())
DRAFT = Config.of({**PLAIN, **NGRAM, WIDTH: 4, BREADTH: 1})


def trial(number: int, config: Config, host: str, slower: float = 1.0) -> TrialResult:
    measured = Host(noise=0.0, plain_ms=12.0, cliff_ms=0.0).trial(
        number, Step(config, Purpose.SEARCH, "")
    )
    rates = {
        name: replace(e, value=e.value / slower, low=(e.low or 0) / slower,
                      high=(e.high or 0) / slower) if name != "accept_length" else e
        for name, e in measured.estimates.items()
    }  # fmt: skip
    return replace(measured, host=host, estimates=rates)


def test_a_slower_host_is_held_against_its_own_plain_decode() -> None:
    one = gather([trial(0, PLAIN, "a"), trial(1, DRAFT, "a")], canonical, "decode_tok_s")
    two = gather(
        [trial(0, PLAIN, "a"), trial(1, PLAIN, "b", 1.4), trial(2, DRAFT, "b", 1.4)],
        canonical, "decode_tok_s",
    )  # fmt: skip
    alone, moved = one.variants[DRAFT].cycle, two.variants[DRAFT].cycle
    assert moved.value == pytest.approx(alone.value, abs=1e-6)
    assert moved.variance > alone.variance


def test_a_host_without_plain_decode_says_little() -> None:
    found = gather([trial(0, PLAIN, "a"), trial(1, DRAFT, "b", 1.4)], canonical, "decode_tok_s")
    assert found.variants[DRAFT].cycle.variance >= HOST_SPREAD**2
    assert found.variants[PLAIN].cycle.variance < HOST_SPREAD**2
