"""Where speculation stops paying."""

from dataclasses import replace

from sweeps import Workload
from sweeps.crossover import loads, stops_paying_at
from sweeps.results import TrialResult
from tests.sweeps.makers import estimate, ngram, plain, result

WORK = Workload(concurrencies=(4, 16))


def loaded(number: int, draft_tokens: int, *rates: float) -> TrialResult:
    config = ngram(draft_tokens) if draft_tokens else plain()
    made = result(number, config, rates[0])
    more = {
        f"decode_tok_s_c{c}": estimate(rate) for c, rate in zip((4, 16), rates[1:], strict=True)
    }
    return replace(made, estimates={**made.estimates, **more})


def test_each_load_has_its_winner_and_speculation_stops_paying_somewhere() -> None:
    table = loads([loaded(0, 0, 80, 300, 900), loaded(1, 4, 100, 305, 700)], WORK)
    assert [load.concurrency for load in table] == [1, 4, 16]
    assert [load.verdict for load in table] == ["speculation", "tie", "plain decode"]
    assert stops_paying_at(table) == 4


def test_another_draft_may_win_under_load() -> None:
    trials = [loaded(0, 0, 80, 300, 900), loaded(1, 4, 120, 310, 700), loaded(2, 2, 90, 400, 990)]
    table = loads(trials, WORK)
    assert [load.speculative.config for load in table] == [ngram(4), ngram(2), ngram(2)]
    assert stops_paying_at(table) is None


def test_a_lead_within_the_spread_of_starts_is_a_tie() -> None:
    table = loads([loaded(0, 0, 100, 300, 900), loaded(1, 4, 103, 309, 927)], WORK)
    assert {load.verdict for load in table} == {"tie"}
    assert stops_paying_at(table) is None


def test_a_load_that_one_kind_lacks_is_left_out() -> None:
    assert loads([loaded(0, 0, 80, 300, 900), result(1, ngram(4), 100)], WORK)[-1].concurrency == 1
    assert loads([loaded(0, 0, 80, 300, 900)], WORK) == ()


def test_a_winner_of_a_load_that_nobody_repeated_is_marked() -> None:
    trials = [loaded(0, 0, 80, 300, 900), loaded(1, 4, 120, 310, 700), loaded(2, 2, 90, 400, 990)]
    again = replace(loaded(3, 4, 118, 305, 700), purpose="confirm")
    table = loads([*trials, again], WORK)
    assert [load.remark for load in table] == ["", *[", not confirmed on fresh starts"] * 2]
