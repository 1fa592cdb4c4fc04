"""The story of a sweep: its answer, how sure it is, and what it does not show."""

from dataclasses import replace

import pytest

from sweeps.config import Config
from sweeps.limits import Limit
from sweeps.reporting.markdown import markdown
from sweeps.reporting.story import About, Story, story_of
from sweeps.results import Outcome, Phase, TrialResult
from sweeps.search.claims import Claim, Gain
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
    return Claim(recommendation, (recommendation,), gain, settled=True, reason="confirmed twice")


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
    assert any("Not confirmed" in line for line in answer.sure)


def test_a_gain_whose_interval_holds_one_is_not_shown() -> None:
    answer = _story(claim=_claim(low=0.97)).answer
    assert answer is not None
    assert any("no gain is shown" in line for line in answer.sure)


def test_a_claim_for_another_variant_is_told_beside_the_recommendation() -> None:
    answer = _story(claim=_claim(SLOW, low=0.97)).answer
    assert answer is not None
    assert answer.standing.config == FAST
    assert any("prefers NGRAM num_draft_tokens=8" in line for line in answer.sure)


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
