"""Who won: ties, confirmations, and trials that may not take part."""

import pytest

from sweeps.ranking import incumbent_bar, rank
from sweeps.results import Outcome
from tests.sweeps.makers import ngram, plain, result

METRIC = "decode_tok_s"


def _best(*results: object) -> str:
    ranking = rank(results, METRIC, higher_is_better=True)  # type: ignore[arg-type] # TrialResults
    assert ranking.best is not None
    return ranking.best.trials[0]


def test_the_highest_rate_wins_beside_the_best_plain_and_the_baseline() -> None:
    results = [
        result(0, plain(), 80, purpose="baseline"),
        result(1, plain(NCCL_PROTO="LL"), 100),
        result(2, ngram(4), 150),
    ]
    ranking = rank(results, METRIC, higher_is_better=True)
    assert ranking.best is not None
    assert ranking.best.config == ngram(4)
    assert ranking.plain is not None and ranking.plain.value == 100
    assert ranking.baseline is not None and ranking.baseline.value == 80


def test_a_lower_metric_can_be_the_goal() -> None:
    results = [result(0, plain(), 80), result(1, ngram(4), 60)]
    ranking = rank(results, METRIC, higher_is_better=False)
    assert ranking.best is not None
    assert ranking.best.config == ngram(4)


def test_ties_go_to_the_fewest_changes_from_plain() -> None:
    base = result(0, plain(NCCL_PROTO=None), 50, purpose="baseline")
    few, many = ngram(4, NCCL_PROTO=None), ngram(4, NCCL_PROTO="LL")
    assert _best(base, result(1, many, 101), result(2, few, 100)) == "t-0002"
    assert _best(base, result(1, many, 110), result(2, few, 100)) == "t-0001"


def test_only_rates_take_part() -> None:
    results = [
        result(0, plain(), 80, purpose="baseline"),
        result(1, ngram(2), 500, outcome=Outcome.STOPPED),
        result(2, ngram(3), 500, outcome=Outcome.CANCELLED),
        result(3, ngram(4), None, outcome=Outcome.INFEASIBLE),
        result(4, ngram(5), 90, outcome=Outcome.PARTIAL),
    ]
    assert _best(*results) == "t-0004"


def test_a_confirmation_replaces_the_lucky_first_value() -> None:
    results = [
        result(0, plain(), 80, purpose="baseline"),
        result(1, ngram(4), 130),
        result(2, ngram(4), 110, purpose="confirm"),
    ]
    ranking = rank(results, METRIC, higher_is_better=True)
    assert ranking.best is not None
    assert ranking.best.value == 110
    assert ranking.best.confirmed


def test_repeats_pool_and_widen_to_their_spread() -> None:
    results = [result(0, plain(), 80), result(1, plain(), 100)]
    ranking = rank(results, METRIC, higher_is_better=True)
    assert ranking.best is not None
    assert (ranking.best.value, ranking.best.low, ranking.best.high) == (90, 80, 100)


def test_nothing_measured_ranks_nothing() -> None:
    ranking = rank([result(0, plain(), None, outcome=Outcome.FAILED)], METRIC,
                   higher_is_better=True)  # fmt: skip
    assert ranking.best is None


def test_the_bar_is_a_lower_bound_not_a_lucky_value() -> None:
    results = [
        result(0, plain(), 80, 1),
        result(1, ngram(4), 100, 40),
        result(2, ngram(5), 99, None),
    ]
    assert incumbent_bar(results, METRIC) == pytest.approx(78.0, abs=0.1)
    assert incumbent_bar([], METRIC) is None
