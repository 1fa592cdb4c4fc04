"""How well a sweep kept its promises: intervals that held, and lift that came."""

from dataclasses import replace

import pytest

from sweeps.config import Config
from sweeps.intervals import Interval
from sweeps.reporting.markdown import markdown
from sweeps.reporting.page import Beside, page
from sweeps.reporting.promises import Promise, promises_of
from sweeps.reporting.story import About, story_of
from sweeps.results import Outcome, TrialResult
from sweeps.search.claims import Claim, Gain, Verdict
from tests.sweeps.makers import estimate, ngram, plain, result

FAST, LUCKY = ngram(3), ngram(5)


def _stopped(number: int, config: Config, steps_per_s: float) -> TrialResult:
    made = result(number, config, outcome=Outcome.STOPPED)
    return replace(made, bound=70.0, estimates={"steps_per_s": estimate(steps_per_s)})


RESULTS = (
    result(0, plain(), 80, purpose="baseline"),
    result(1, FAST, 100),
    _stopped(2, ngram(8), 50),
    _stopped(3, ngram(9), 61),
    result(4, LUCKY, 130),
    result(5, FAST, 96, purpose="confirm"),
    result(6, plain(), 80, purpose="confirm"),
)
CLAIM = Claim(
    FAST, (FAST,), Gain(plain(), 1.2, 1.1, 1.3, (5, 6)), Verdict.GAIN, "decided", proofs=(5,)
)
TOLD = {
    1: Promise(Interval(97, 88, 107), Interval(15, 14, 16), 0.1),
    2: Promise(Interval(70, 60, 80), Interval(20.2, 19, 21.5), 0.02),
    3: Promise(Interval(70, 60, 80), Interval(20.2, 19, 21.5), 0.03),
    4: Promise(Interval(90, 80, 100), Interval(15, 14, 16), 0.05),
    5: Promise(Interval(100, 90, 111), Interval(15, 14, 16)),
}
STORY = story_of(RESULTS, About("t"), claim=CLAIM)


def test_intervals_are_held_against_what_each_trial_could_show() -> None:
    found = promises_of(STORY, TOLD)
    assert found is not None
    stopped, measured = found.kept
    assert (stopped.held, stopped.missed) == ((2,), (3,))
    assert (measured.held, measured.missed) == ((1, 5), (4,))
    assert measured.fraction == pytest.approx(2 / 3)


def test_an_interval_of_90_percent_is_narrower_than_the_one_on_record() -> None:
    told = {1: Promise(Interval(100, 90, 1 / 0.009))}
    for rate, held in ((92.0, True), (91.2, False), (108.5, True), (109.5, False)):
        story = story_of((result(1, FAST, rate),), About("t"))
        found = promises_of(story, told)
        assert found is not None
        assert bool(found.kept[0].held) is held


def test_a_lucky_start_realises_nothing_above_what_is_recommended() -> None:
    found = promises_of(STORY, TOLD)
    assert found is not None
    (lift,) = found.lifts
    assert (lift.purpose, lift.trials) == ("search", (1, 2, 3, 4))
    assert lift.promised == pytest.approx(0.2)
    assert lift.realised == pytest.approx(96 / 80 - 1)


def test_nothing_on_record_is_nothing_to_judge() -> None:
    assert promises_of(STORY, {}) is None
    assert promises_of(STORY, {2: Promise(Interval(70, None, None))}) is None
    assert "promises" not in markdown(STORY)


def test_both_reports_tell_it_and_say_emulated() -> None:
    note = markdown(STORY, predicted=TOLD)
    text = page(STORY, Beside(promises=promises_of(STORY, TOLD)))
    for words in (
        "EMULATED 1 of 2 intervals of 90 % held the step rate of stopped trials: 50.0 %.",
        "EMULATED 2 of 3 intervals of 90 % held the tok/s of measured trials: 66.7 %.",
        "EMULATED Four search starts promised 20.0 % more tok/s in sum, and brought 20.0 %.",
    ):
        assert words in note
        assert words in text
    assert 'id="promises"' in text
    assert 'id="promises"' not in page(STORY, Beside())
