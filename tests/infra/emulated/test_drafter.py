"""Which drafter a server's settings ask for, and the chain with set hit rates."""

import pytest

from infra.emulated.drafting.chain import ChainDrafter
from infra.emulated.drafting.drafter import make_drafter, ngram_shape
from infra.emulated.settings import Settings, make_settings
from infra.emulated.truth import TRUTHS
from sweeps.drafting.ngram import MatchWindow, NgramShape
from sweeps.values import Value


def test_the_old_form_is_told_by_its_flags() -> None:
    def shape(version: str, **extra: Value) -> NgramShape:
        given: dict[str, Value] = {"model_path": "m", "speculative_algorithm": "NGRAM", **extra}
        return ngram_shape(make_settings(given, {}, version))

    new = shape("0.5.23", disable_overlap_schedule=True)
    assert (new.window, new.inserts_behind, new.overlap) == (None, True, False)
    between = shape("0.5.12", speculative_ngram_match_type="PROB")
    assert (between.window, between.inserts_behind, between.by_likelihood) == (None, False, True)
    old = shape("0.5.9", speculative_ngram_match_type="PROB")
    assert (old.window, old.inserts_behind, old.by_likelihood) == (MatchWindow(1, 12), False, False)


def test_chain_hits_follow_the_rates() -> None:
    drafter = ChainDrafter((0.7, 0.62), 2)
    request = drafter.open([], 12345)
    lengths = []
    for _ in range(4000):
        matched = request.correct_drafts([1, 1])
        request.commit([1] * (matched + 1))
        lengths.append(matched + 1)
    assert sum(lengths) / len(lengths) == pytest.approx(1 + 0.7 + 0.7 * 0.62, rel=0.03)


def test_plain_decode_never_drafts() -> None:
    request = make_drafter(Settings(), TRUTHS["M"]).open([1, 2], 3)
    assert request.correct_drafts([]) == 0
