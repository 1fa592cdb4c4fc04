"""The variants that no other beats in every objective."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sweeps.pareto import front
from sweeps.results import TrialResult
from tests.sweeps.makers import estimate, ngram, result

DIRECTIONS = {"output_tok_s": True, "tpot_ms": False}


def weighed(number: int, total: float, tpot_ms: float) -> TrialResult:
    values = {"output_tok_s": estimate(total), "tpot_ms": estimate(tpot_ms)}
    return replace(result(number, ngram(number + 2)), estimates=values)


def test_only_what_nobody_beats_in_everything_is_kept() -> None:
    trials = [weighed(0, 900, 20), weighed(1, 500, 10), weighed(2, 400, 15), weighed(3, 900, 21)]
    kept = front(trials, DIRECTIONS)
    assert [p.values for p in kept] == [(900, 20), (500, 10)]


def test_a_trial_without_one_of_the_metrics_takes_no_part() -> None:
    assert front([result(0, ngram(2), 10)], DIRECTIONS) == ()


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12))
def test_every_point_is_beaten_by_none_kept_or_by_one_of_them(pairs: list[tuple[int, int]]) -> None:
    kept = front([weighed(i, a, b) for i, (a, b) in enumerate(pairs)], DIRECTIONS)
    values = {p.values for p in kept}
    for total, tpot_ms in pairs:
        beaten = any(a >= total and b <= tpot_ms and (a, b) != (total, tpot_ms) for a, b in values)
        assert beaten != ((total, tpot_ms) in values)
