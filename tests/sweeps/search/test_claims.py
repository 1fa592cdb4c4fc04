"""Claims: the gain is of starts made after the choice, and luck before it does not count."""

from dataclasses import replace

import pytest

from sweeps.results import TrialResult
from sweeps.search.planner import Planner
from sweeps.search.standings import changes
from sweeps.search.steps import Purpose
from tests.sweeps.search.host import SPACE, Host, canonical, drive, near

HITS = 0.45


@pytest.fixture(scope="module")
def ended() -> tuple[Planner, list[TrialResult]]:
    planner = Planner(SPACE, canonical=canonical, seed=3)
    history, _ = drive(planner, Host(hits=HITS))
    return planner, history


def test_a_gain_comes_from_starts_after_the_choice(
    ended: tuple[Planner, list[TrialResult]],
) -> None:
    planner, history = ended
    claim = planner.claim(history)
    assert claim is not None
    assert claim.gain is not None
    proofs = [history[place] for place in claim.gain.starts]
    assert {r.purpose for r in proofs} == {Purpose.CONFIRM}
    assert {canonical(r.config) for r in proofs} == {claim.recommendation, claim.gain.over}
    assert claim.gain.low < claim.gain.ratio < claim.gain.high
    truth = Host(hits=HITS)
    assert claim.gain.low < truth.tok_s(claim.recommendation) / truth.tok_s(claim.gain.over)
    assert claim.gain.over.is_plain


def test_a_lucky_start_before_the_choice_does_not_move_the_gain(
    ended: tuple[Planner, list[TrialResult]],
) -> None:
    planner, history = ended
    before = planner.claim(history)
    assert before is not None
    assert before.gain is not None
    lucky = [
        replace(r, estimates={**r.estimates, "decode_tok_s": near(500.0, 0.01)})
        if r.purpose != Purpose.CONFIRM and canonical(r.config) == before.recommendation
        else r
        for r in history
    ]
    after = planner.claim(lucky)
    assert after is not None
    assert after.gain is not None
    assert after.gain.ratio == pytest.approx(before.gain.ratio)


def test_nothing_is_settled_before_fresh_starts() -> None:
    planner = Planner(SPACE, canonical=canonical)
    history, steps = drive(planner, Host(hits=HITS), most=5)
    claim = planner.claim(history)
    assert claim is not None
    assert not claim.settled
    assert claim.gain is None
    assert claim.reason
    assert all(s.purpose is not Purpose.CONFIRM for s in steps)
    assert planner.claim([]) is None


def test_the_choice_is_among_its_ties_and_changes_are_counted() -> None:
    planner = Planner(SPACE, canonical=canonical)
    history, _ = drive(planner, Host(hits=HITS, noise=0.1))
    claim = planner.claim(history)
    assert claim is not None
    assert claim.recommendation in claim.ties
    plain = SPACE.plain()
    assert changes(plain, plain) == 0
    assert changes(claim.recommendation, plain) >= 2


def test_plain_decode_that_wins_has_no_gain() -> None:
    planner = Planner(SPACE, canonical=canonical)
    history, _ = drive(planner, Host(hits=0.1, ms_per_token=2.0))
    claim = planner.claim(history)
    assert claim is not None
    assert claim.recommendation == canonical(SPACE.plain())
    assert claim.gain is None
