"""Claims: the gain is of starts made after the choice, and luck before it does not count."""

import json
import math
from dataclasses import replace
from statistics import fmean

import pytest
from scipy.special import stdtrit

from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.search.claims import USUAL_WEIGHT, Claim
from sweeps.search.equality import SAME_SPREAD
from sweeps.search.evidence import gather
from sweeps.search.planner import Planner
from sweeps.search.standings import changes
from sweeps.search.steps import Purpose, Taste
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


def test_the_interval_is_of_starts_and_shrunk_towards_what_is_usual(
    ended: tuple[Planner, list[TrialResult]],
) -> None:
    planner, history = ended
    claim = planner.claim(history)
    assert claim is not None
    assert claim.gain is not None
    ours, theirs = claim.recommendation, claim.gain.over

    def logs(config: Config) -> list[float]:
        proofs = [r for r in wide if r.purpose == Purpose.CONFIRM]
        rates = [r.estimates["decode_tok_s"].value for r in proofs if canonical(r.config) == config]
        return [math.log(rate) for rate in rates]

    # One more start of one side, far off: the two sides are of unlike sizes, and spread.
    last = next(r for r in reversed(history) if canonical(r.config) == ours)
    rate = last.estimates["decode_tok_s"].value * 1.04
    more = replace(last, trial="t999", number=999, purpose=Purpose.CONFIRM.value,
                   estimates={**last.estimates, "decode_tok_s": near(rate, 0.013)})  # fmt: skip
    wide = [*history, more]
    told = Planner(SPACE, canonical=canonical, seed=3).claim(wide)
    assert told is not None
    assert told.gain is not None
    assert (told.recommendation, told.gain.over) == (ours, theirs)
    sides = logs(ours), logs(theirs)
    ratio = fmean(sides[0]) - fmean(sides[1])
    assert told.gain.ratio == pytest.approx(math.exp(ratio))
    evidence = gather(wide, canonical, "decode_tok_s")
    starts = [s for s in evidence.starts if s.place in told.gain.starts]
    assert len(starts) == len(sides[0]) + len(sides[1])
    usual = evidence.launch_variance + fmean(s.cycle.variance for s in starts) + SAME_SPREAD**2
    squares = sum((x - fmean(side)) ** 2 for side in sides for x in side)
    degrees = USUAL_WEIGHT + len(starts) - 2
    variance = (USUAL_WEIGHT * usual + squares) / degrees
    half = stdtrit(degrees, 0.975) * math.sqrt(variance * (1 / len(sides[0]) + 1 / len(sides[1])))
    assert math.log(told.gain.high / told.gain.ratio) == pytest.approx(half, rel=1e-6)
    assert math.log(told.gain.ratio / told.gain.low) == pytest.approx(half, rel=1e-6)
    # Read back, it is the same, also where the history has another order.
    data = json.loads(json.dumps(told.as_data(wide)))
    assert Claim.from_data(data, wide) == told
    turned = list(reversed(wide))
    back = Claim.from_data(data, turned)
    assert back.gain is not None
    assert {turned[at].trial for at in back.gain.starts} == set(data["gain"]["trials"])
    assert list(back.gain.starts) == sorted(back.gain.starts)


def test_a_gain_needs_fresh_starts_of_both_sides(
    ended: tuple[Planner, list[TrialResult]],
) -> None:
    planner, history = ended
    claim = planner.claim(history)
    assert claim is not None
    assert claim.gain is not None
    for lacking in (claim.recommendation, claim.gain.over):
        few = [
            r for r in history
            if r.purpose != Purpose.CONFIRM or canonical(r.config) != lacking
        ]  # fmt: skip
        told = Planner(SPACE, canonical=canonical, seed=3).claim(few)
        assert told is not None
        assert told.gain is None
        assert not told.settled


def test_ties_are_those_within_the_indifference() -> None:
    planner = Planner(SPACE, canonical=canonical, taste=Taste(indifference_fraction=0.0))
    wide = Planner(SPACE, canonical=canonical, taste=Taste(indifference_fraction=10.0))
    history, _ = drive(planner, Host(hits=HITS), most=10)
    narrow_claim, wide_claim = planner.claim(history), wide.claim(history)
    assert narrow_claim is not None
    assert wide_claim is not None
    assert narrow_claim.ties == (narrow_claim.recommendation,)
    assert len(wide_claim.ties) > 3
    assert wide_claim.recommendation in wide_claim.ties
