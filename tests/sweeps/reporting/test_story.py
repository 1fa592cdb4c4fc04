"""The story of a sweep: its answer, how sure it is, and what it does not show."""

from dataclasses import replace

import pytest

from sweeps.config import Config
from sweeps.limits import Limit
from sweeps.reporting.markdown import markdown
from sweeps.reporting.story import About, Story, story_of
from sweeps.results import Outcome, Phase, TrialResult
from sweeps.search.claims import Claim, Gain, Rejected, Verdict, verdict_of
from sweeps.sweep import Objective
from sweeps.workloads import Workload
from tests.sweeps.makers import estimate, ngram, plain, result

FAST, SLOW = ngram(3), ngram(8)
BASE = plain()
RESULTS = (
    result(0, BASE, 80, purpose="baseline"),
    result(1, FAST, 100),
    result(2, SLOW, 41, outcome=Outcome.STOPPED),
    result(3, FAST, 96, purpose="confirm"),
    result(4, BASE, 80, purpose="confirm"),
)


def _claim(recommendation: Config = FAST, *, low: float = 1.1) -> Claim:
    gain = Gain(BASE, 1.2, low, 1.3, (3, 4))
    verdict = verdict_of(low, 1.3, 0.01)
    further = None if verdict is Verdict.GAIN else 3
    return Claim(
        recommendation, (recommendation,), gain, verdict, "said so", (3,), zone=0.02,
        further_starts=further, further_gpu_hours=further and 4.5,
    )  # fmt: skip


def _story(results: tuple[TrialResult, ...] = RESULTS, claim: Claim | None = None) -> Story:
    return story_of(results, About("t", workload=Workload()), claim=claim)


def test_the_gain_that_is_told_is_the_claimed_one_with_its_trials() -> None:
    answer = _story(claim=_claim()).answer
    assert answer is not None
    assert answer.standing.config == FAST
    assert answer.settled
    assert answer.gain is not None
    assert (answer.gain.value, answer.gain.low, answer.gain.high) == (1.2, 1.1, 1.3)
    assert answer.gain.trials == ("t-0003", "t-0004")
    assert "after the choice" in answer.gain.how


def test_without_a_claim_the_gain_is_that_of_the_means_and_says_so() -> None:
    answer = _story().answer
    assert answer is not None
    assert answer.gain is not None
    assert answer.gain.value == pytest.approx(96 / 80)
    assert answer.gain.low is not None
    assert answer.gain.low < 1.2
    assert not answer.settled
    assert answer.standing.used == ("t-0003",)


def test_one_lucky_measurement_is_told_as_unconfirmed() -> None:
    answer = _story(RESULTS[:2]).answer
    assert answer is not None
    assert any("not confirmed on fresh starts" in line for line in answer.sure)
    assert (answer.verdict, answer.certainty) == (None, "provisional")


def test_a_gain_whose_interval_holds_one_is_undecided_and_says_what_would_decide() -> None:
    answer = _story(claim=_claim(low=0.97)).answer
    assert answer is not None
    assert not answer.settled
    assert answer.certainty == "undecided"
    (said,) = answer.sure
    assert said.startswith("Undecided")
    assert "three further starts of each side, 4.50 GPU-hours, would decide it" in said


def test_a_lucky_start_that_nobody_repeated_is_named_and_not_recommended() -> None:
    other = ngram(5)
    lucky = result(5, other, 130)
    answer = _story((*RESULTS, lucky), _claim()).answer
    assert answer is not None
    assert (answer.standing.config, answer.standing.value) == (FAST, 96)
    assert answer.standing.used == ("t-0003",)
    assert answer.gain is not None and answer.gain.value == 1.2
    assert answer.settled
    (said,) = [line for line in answer.sure if "not confirmed" in line]
    assert said.startswith("EMULATED Trial 5 (NGRAM num_draft_tokens=5) measured more once, 130")


def test_a_claim_for_what_breaks_a_limit_or_was_set_aside_is_not_followed() -> None:
    about = About("t", goal=Objective(limits=[Limit("decode_tok_s", most=90)]))
    broken = story_of(RESULTS, about, claim=_claim()).answer
    aside = _story(claim=replace(_claim(ngram(7)), proofs=())).answer
    for answer, why in ((broken, "breaks a limit: decode_tok_s is 96"), (aside, "no rate counts")):
        assert answer is not None
        assert (answer.verdict, answer.settled) == (None, False)
        assert why in answer.sure[0]
    assert broken is not None and broken.standing.config == BASE


def test_plain_decode_that_won_says_what_lost_and_by_how_much() -> None:
    lost = Rejected(FAST, Gain(BASE, 0.95, 0.92, 0.98, (3, 4)))
    claim = Claim(BASE, (BASE,), None, Verdict.LOSS, "decided", (4,), rejected=lost)
    answer = _story(claim=claim).answer
    assert answer is not None
    assert (answer.standing.config, answer.standing.used) == (BASE, ("t-0004",))
    assert (answer.gain, answer.over_baseline) == (None, None)
    assert answer.certainty == "settled: plain decode wins"
    assert "num_draft_tokens=3 was 0.950 (95 % interval 0.920 to 0.980) x plain" in answer.sure[1]


def test_the_gain_over_nothing_changed_is_the_claimed_one_where_that_is_what_it_is_over() -> None:
    story = _story(claim=_claim())
    assert story.answer is not None
    assert story.answer.over_baseline == story.answer.gain
    assert story.gain_text.count(" x ") == 1
    assert story.plain is not None and story.plain.used == ("t-0004",)


def test_no_report_calls_a_settled_answer_unsure_nor_a_tie_without_a_tie() -> None:
    for low, high in ((1.1, 1.3), (0.99, 1.02), (0.9, 1.3)):
        gain = Gain(BASE, 1.005, low, high, (3, 4))
        verdict = verdict_of(low, high, 0.02)
        claim = Claim(FAST, (FAST,), gain, verdict, "said so", (3,), 0.02)
        text = markdown(_story(claim=claim))
        assert ("Settled" in text) is (verdict is not Verdict.UNDECIDED)
        assert ("Undecided" in text) is (verdict is Verdict.UNDECIDED)
        assert ("a tie." in text) is (verdict is Verdict.TIE)
        assert "Provisional" not in text and "no gain is shown" not in text


def test_where_plain_wins_no_gain_over_plain_is_told() -> None:
    story = _story((result(0, BASE, 80, purpose="baseline"), result(1, FAST, 60)))
    assert story.answer is not None
    assert story.answer.gain is None
    assert "did not pay" in story.headline


def test_a_lower_objective_turns_the_gain_round() -> None:
    def timed(number: int, config: Config, ms: float) -> TrialResult:
        made = result(number, config, 1.0, purpose="search" if number else "baseline")
        return replace(made, estimates={"tpot_ms": estimate(ms, 0.1)})

    about = About("t", goal=Objective("tpot_ms"))
    answer = story_of((timed(0, BASE, 12), timed(1, FAST, 10)), about).answer
    assert answer is not None
    assert answer.gain is not None
    assert answer.gain.value == pytest.approx(1.2)


def test_luck_in_an_objective_that_is_better_low_is_a_low_value() -> None:
    def timed(number: int, config: Config, ms: float, purpose: str) -> TrialResult:
        made = result(number, config, 1.0, purpose=purpose)
        return replace(made, estimates={"tpot_ms": estimate(ms, 0.1)})

    results = [
        timed(0, BASE, 12, "baseline"), timed(1, FAST, 10, "search"), timed(2, SLOW, 7, "search"),
        timed(3, FAST, 10.2, "confirm"), timed(4, BASE, 12.24, "confirm"), timed(5, ngram(6), 11,
        "search"),
    ]  # fmt: skip
    about = About("t", goal=Objective("tpot_ms", also=["decode_tok_s"]))
    answer = story_of(results, about, claim=_claim()).answer
    assert answer is not None
    assert (answer.standing.config, answer.standing.value) == (FAST, 10.2)
    assert answer.gain is not None and answer.gain.value == 1.2
    told = [line for line in answer.sure if "not confirmed" in line]
    assert told == [
        "EMULATED Trial 2 (NGRAM num_draft_tokens=8) measured less once, 7.00 ms; it was not"
        " confirmed."
    ]


def test_a_variant_has_one_figure_in_a_report() -> None:
    before = result(5, FAST, 104, purpose="confirm")
    story = _story((*RESULTS, before), _claim())
    assert story.answer is not None
    assert story.answer.standing.value == 96
    values = {s.variant: s.value for s in story.ranking.standings}
    assert values[FAST.variant] == 96


def test_nothing_measured_still_tells_what_failed_and_what_to_do() -> None:
    failed = [
        replace(
            result(n, ngram(n + 2), outcome=Outcome.INFEASIBLE),
            signature="oom_load",
            reason="out of memory",
            phase=Phase.STARTING,
        )
        for n in range(3)
    ]
    hung = result(3, ngram(9), outcome=Outcome.HUNG)
    story = story_of([*failed, hung], About("t"), hints={"oom_load": "use more GPUs"})
    assert story.answer is None
    assert "nothing is recommended" in story.headline
    first, second = story.failures
    assert (first.signature, len(first.trials), first.hint) == ("oom_load", 3, "use more GPUs")
    assert second.outcome is Outcome.HUNG
    assert "use more GPUs" in markdown(story)


def test_trials_that_break_a_limit_are_named_and_not_recommended() -> None:
    about = About("t", goal=Objective(limits=[Limit("decode_tok_s", most=90)]))
    story = story_of(RESULTS, about)
    assert set(story.limited) == {"t-0001", "t-0003"}
    assert story.answer is not None
    assert story.answer.standing.config == BASE


def test_a_running_sweep_says_that_it_may_change() -> None:
    story = story_of(RESULTS, About("t", status="running"))
    assert "not ended" in story.caveats[0]


def test_every_emulated_number_carries_the_word() -> None:
    story = _story(claim=_claim())
    assert story.headline.startswith("EMULATED")
    assert story.gain_text.count("EMULATED") == story.gain_text.count(" x ")
    text = markdown(story)
    assert "# EMULATED" in text
    real = markdown(_story(tuple(replace(r, emulated=False) for r in RESULTS)))
    assert "EMULATED" not in real


def test_settings_that_nobody_swept_are_pins_only_if_all_had_them() -> None:
    given = [
        replace(r, requested={**r.config, "page_size": 1, "seed": r.number, "host": None})
        for r in RESULTS
    ]
    assert _story(tuple(given)).pins == {"page_size": 1}


def test_a_claim_survives_the_sweep_card_in_another_order() -> None:
    told = _claim().as_data(RESULTS)
    turned = tuple(reversed(RESULTS))
    again = Claim.from_data(told, turned)
    assert again.gain is not None
    assert {turned[place].trial for place in again.gain.starts} == {"t-0003", "t-0004"}
    assert again.recommendation == FAST
    assert Claim.from_data(again.as_data(turned), RESULTS) == _claim()


def test_markdown_keeps_a_bar_in_a_reason_inside_its_cell() -> None:
    odd = replace(result(0, FAST, outcome=Outcome.FAILED), reason="a | b\nc")
    assert "a \\| b c" in markdown(_story((odd,)))
