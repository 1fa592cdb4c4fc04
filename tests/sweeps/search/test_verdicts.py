"""Verdicts: what an interval decides, what would decide the rest, and claims of old sweeps."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.search.brief import DECODE, NO_FORESIGHT
from sweeps.search.claims import (
    LEAST_ZONE,
    MOST_ZONE,
    Claim,
    Gain,
    Proof,
    Verdict,
    claim_of,
    further_starts,
    verdict_of,
    zone_of,
)
from sweeps.search.planner import Planner
from sweeps.search.steps import Purpose, Step, Taste
from tests.sweeps.search import host
from tests.sweeps.search.host import IPC, NGRAM, PROTO, SPACE, WIDTH, canonical, near

PLAIN = canonical(SPACE.plain())
DRAFT = canonical(Config.of({**PLAIN, **NGRAM, WIDTH: 4, host.BREADTH: 1}))
TASTE = Taste()

RATIOS = st.floats(0.5, 2.0)
WIDTHS = st.floats(0.0, 0.2)


@given(RATIOS, RATIOS, WIDTHS)
def test_a_verdict_is_what_the_interval_says_and_nothing_else(a: float, b: float, w: float) -> None:
    low, high = min(a, b), max(a, b)
    verdict, zone = verdict_of(low, high, w), zone_of(w)
    assert (verdict is Verdict.GAIN) == (low > 1)
    assert (verdict is Verdict.LOSS) == (high < 1)
    if verdict is Verdict.TIE:
        assert low <= 1 <= high
        assert high - 1 <= MOST_ZONE and 1 - low <= MOST_ZONE
    if verdict is Verdict.UNDECIDED:
        assert low <= 1 <= high
        assert high > 1 + zone or low < 1 - zone


@given(RATIOS, RATIOS, WIDTHS, WIDTHS)
def test_a_narrower_interval_or_a_wider_plan_never_undoes_a_verdict(
    a: float, b: float, w: float, more: float
) -> None:
    low, high = min(a, b), max(a, b)
    verdict = verdict_of(low, high, w)
    assume(verdict is not Verdict.UNDECIDED)
    assert verdict_of(low, high, w + more) is verdict
    middle = (low + high) / 2
    narrower = verdict_of((low + middle) / 2, (high + middle) / 2, w)
    assert narrower is not Verdict.UNDECIDED
    assert verdict is Verdict.TIE or narrower is verdict


@given(WIDTHS)
def test_the_zone_is_what_was_planned_between_its_ends(w: float) -> None:
    assert LEAST_ZONE <= zone_of(w) <= MOST_ZONE
    assert zone_of(zone_of(w)) == zone_of(w)
    assert not LEAST_ZONE < w < MOST_ZONE or zone_of(w) == w


@pytest.mark.parametrize("ends", [(math.nan, 1.1), (0.9, math.nan), (0.9, math.inf), (0.0, 1.0)])
def test_an_interval_that_is_none_decides_nothing(ends: tuple[float, float]) -> None:
    assert verdict_of(*ends, 0.02) is Verdict.UNDECIDED


@given(st.floats(-0.1, 0.1), st.floats(0.005, 0.05), st.integers(0, 6), st.integers(0, 6))
def test_the_further_starts_decide_and_one_less_does_not(
    log_ratio: float, spread: float, ours: int, theirs: int
) -> None:
    found = further_starts(log_ratio, spread**2, (ours, theirs), 6, 0.02)
    if found is None:
        assert abs(log_ratio) < 0.03
        return
    wider = further_starts(log_ratio, (2 * spread) ** 2, (ours, theirs), 6, 0.02)
    assert wider is None or wider >= found
    more = further_starts(log_ratio, spread**2, (ours + found - 1, theirs + found - 1),
                          6 + 2 * (found - 1), 0.02)  # fmt: skip
    assert more == 1


def _history(*rates: tuple[Config, float, Purpose]) -> list[TrialResult]:
    made = []
    for number, (config, rate, purpose) in enumerate(rates):
        accept = 1.0 if config.is_plain else 1.5
        found = {"decode_tok_s": near(rate, 0.004), "steps_per_s": near(rate / accept, 0.004)}
        found |= {} if config.is_plain else {"accept_length": near(accept, 0.001)}
        made.append(host.result(number, Step(config, purpose, ""), found))
    return made


def _claim(history: list[TrialResult], proof: Proof | None) -> Claim:
    planner = Planner(SPACE, canonical=canonical, objective=DECODE, foresight=NO_FORESIGHT)
    view = planner._view(history, ())
    assert view.standings is not None
    return claim_of(view.evidence, view.standings, proof, PLAIN, TASTE)


def _confirmed(
    ours: float, theirs: float, *, times: int = 2, config: Config = DRAFT
) -> tuple[list[TrialResult], Proof]:
    """Return a history whose confirming starts have two rates, and its proof."""
    first = [(PLAIN, theirs, Purpose.BASELINE), (config, ours, Purpose.SEARCH)]
    pairs = [(PLAIN, theirs, Purpose.CONFIRM), (config, ours, Purpose.CONFIRM)] * times
    return _history(*first, *pairs), Proof(config, PLAIN, 2, "")


def test_a_gain_is_settled_by_fresh_starts_of_both_sides() -> None:
    history, proof = _confirmed(110, 100)
    claim = _claim(history, proof)
    assert (claim.verdict, claim.settled, claim.recommendation) == (Verdict.GAIN, True, DRAFT)
    assert [history[at].config for at in claim.proofs] == [DRAFT, DRAFT]
    assert claim.gain is not None and claim.gain.ratio == pytest.approx(1.1)
    assert (claim.further_starts, claim.further_gpu_hours) == (None, None)


def test_a_loss_and_a_tie_recommend_plain_decode_and_keep_what_lost() -> None:
    for ours, verdict in ((90, Verdict.LOSS), (100.2, Verdict.TIE)):
        history, proof = _confirmed(ours, 100, times=6)
        claim = _claim(history, proof)
        assert (claim.verdict, claim.settled, claim.recommendation) == (verdict, True, PLAIN)
        assert claim.gain is None
        assert claim.rejected is not None and claim.rejected.config == DRAFT
        assert claim.tested is not None and claim.tested.ratio == pytest.approx(ours / 100)
        assert {history[at].config for at in claim.proofs} == {PLAIN}


def test_what_is_undecided_says_what_would_decide_it() -> None:
    history, proof = _confirmed(102, 100)
    claim = _claim(history, proof)
    assert (claim.verdict, claim.settled) == (Verdict.UNDECIDED, False)
    assert claim.recommendation == DRAFT
    assert claim.further_starts is not None and claim.further_starts > 0
    hours = 2 * claim.further_starts
    assert claim.further_gpu_hours == pytest.approx(hours * history[0].gpu_hours)
    dear = _claim(history, replace(proof, start_gpu_hours=2.0))
    assert dear.further_gpu_hours == 2.0 * hours
    more, proof = _confirmed(102, 100, times=2 + claim.further_starts)
    assert _claim(more, proof).settled


def test_nothing_is_settled_while_the_search_would_go_on_or_without_fresh_starts() -> None:
    history, proof = _confirmed(110, 100)
    assert not _claim(history, replace(proof, open_="still to come: two starts")).settled
    assert not _claim(history, replace(proof, since=len(history))).settled
    unproved = _claim(history, None)
    assert (unproved.settled, unproved.verdict) == (False, Verdict.UNDECIDED)
    assert unproved.recommendation == DRAFT


def test_the_planned_width_is_the_zone() -> None:
    history, proof = _confirmed(101.5, 100, times=6)
    for planned in (0.0, 0.02, 0.5):
        claim = _claim(history, replace(proof, planned_half_width=planned))
        assert claim.zone == zone_of(planned)


def test_plain_decode_that_leads_is_settled_if_nothing_can_be_faster_by_more_than_a_tie() -> None:
    rivals = [(PLAIN, 100, Purpose.CONFIRM), (DRAFT, 97, Purpose.CONFIRM)] * 6
    first = [(PLAIN, 100, Purpose.BASELINE), (DRAFT, 97, Purpose.SEARCH)]
    history, proof = _history(*first, *rivals), Proof(PLAIN, None, 2, "")
    claim = _claim(history, proof)
    assert (claim.recommendation, claim.settled) == (PLAIN, True)
    assert claim.verdict is Verdict.LOSS
    assert claim.rejected is not None and claim.rejected.config == DRAFT
    alone = _history(*first[:1], (PLAIN, 100, Purpose.CONFIRM))
    assert not _claim(alone, replace(proof, since=1)).settled
    far = _history(first[0], (DRAFT, 60, Purpose.SEARCH), (PLAIN, 100, Purpose.CONFIRM))
    assert _claim(far, proof).settled
    assert not _claim(far[:2], proof).settled


def test_a_claim_survives_its_file_form_and_another_order_of_the_history() -> None:
    for ours in (110, 90, 102):
        history, proof = _confirmed(ours, 100)
        claim = _claim(history, proof)
        told = claim.as_data(history)
        turned = list(reversed(history))
        again = Claim.from_data(told, turned)
        assert again.as_data(turned) == {**told, "proofs": again.as_data(turned)["proofs"],
                                         "gain": again.as_data(turned)["gain"],
                                         "rejected": again.as_data(turned)["rejected"]}  # fmt: skip
        assert Claim.from_data(again.as_data(turned), history) == claim
        assert again.settled is claim.settled


OLD = {"recommendation": dict(DRAFT), "ties": [dict(DRAFT)], "reason": "confirmed"}


def _old(low: float, high: float, *, settled: bool) -> dict[str, object]:
    gain = {"over": dict(PLAIN), "ratio": (low + high) / 2, "low": low, "high": high,
            "trials": ["t2", "t3"]}  # fmt: skip
    return {**OLD, "gain": gain, "settled": settled}


def test_a_claim_without_a_verdict_is_judged_by_its_interval() -> None:
    history, _ = _confirmed(110, 100)
    shown = Claim.from_data(_old(1.02, 1.2, settled=True), history)
    assert (shown.verdict, shown.settled) == (Verdict.GAIN, True)
    assert [history[at].trial for at in shown.proofs] == ["t3"]
    wide = Claim.from_data(_old(0.92, 1.203, settled=True), history)
    assert (wide.verdict, wide.settled) == (Verdict.UNDECIDED, False)
    assert not Claim.from_data(_old(1.02, 1.2, settled=False), history).settled
    none = Claim.from_data({**OLD, "gain": None, "settled": True}, history)
    assert (none.verdict, none.settled) == (Verdict.UNDECIDED, False)


def test_other_than_plain_beside_a_choice_that_changes_less_keeps_the_choice_in_a_tie() -> None:
    over = canonical(Config.of({**PLAIN, IPC: "1", PROTO: None}))
    busy = canonical(Config.of({**PLAIN, "NCCL_ALGO": "Ring", PROTO: "LL"}))
    pairs = [(busy, 100.0, Purpose.CONFIRM), (over, 100.1, Purpose.CONFIRM)] * 6
    history = _history((PLAIN, 90, Purpose.BASELINE), *pairs)
    claim = _claim(history, Proof(over, busy, 1, ""))
    assert (claim.verdict, claim.recommendation) == (Verdict.TIE, over)
    assert isinstance(claim.gain, Gain) and claim.settled
