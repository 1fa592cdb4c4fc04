"""What a deadline leaves proved, and nothing beyond."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.records import EndReason, RequestRecord
from sweeps.unfinished import Bounds, bound_of_finished_count, bound_of_unfinished, cannot_finish
from tests.sweeps import passes


def test_an_answer_that_comes_whole_or_not_bounds_its_rate_from_above_alone() -> None:
    bound = bound_of_finished_count(0, 1, 3 * 8192, 600.0)
    assert bound == Bounds(None, 40.96)
    assert str(bound) == "below 41 tok/s"


@given(
    st.floats(1, 1e3), st.integers(1, 20), st.integers(1, 10_000), st.floats(0.1, 1e4)
)  # fmt: skip
def test_the_bounds_hold_the_rate_that_they_come_from(
    rate_tok_s: float, asked: int, tokens_each: int, limit_s: float
) -> None:
    finished = min(asked, int(rate_tok_s * limit_s / tokens_each))
    bound = bound_of_finished_count(finished, asked, tokens_each, limit_s)
    if bound is None:
        assert finished == asked
        return
    assert bound.below_tok_s is not None
    assert (bound.least_tok_s or 0.0) <= rate_tok_s * (1 + 1e-9)
    assert rate_tok_s < bound.below_tok_s * (1 + 1e-9)


def test_counts_that_contradict_each_other_are_refused() -> None:
    for finished, asked, tokens_each, limit_s in ((3, 2, 8, 1.0), (1, 2, 0, 1.0), (1, 2, 8, 0.0)):
        with pytest.raises(ValueError, match="answers of"):
            bound_of_finished_count(finished, asked, tokens_each, limit_s)


def test_what_streamed_is_an_observation_and_needs_no_bound() -> None:
    assert bound_of_unfinished(passes.steady(end=EndReason.DEADLINE)) is None
    assert bound_of_unfinished(passes.steady()) is None


@pytest.mark.parametrize("end", [EndReason.DEADLINE, EndReason.CANCELLED])
def test_without_a_first_token_only_the_wait_is_known(end: EndReason) -> None:
    bound = bound_of_unfinished(RequestRecord(1.0, (), (), end, 61.0))
    assert bound == Bounds(ttft_above_s=60.0)
    assert str(bound) == "no token came for 60 s; its rate is unknown"
    late = bound_of_unfinished(RequestRecord(1.0, (), (), end, 61.0, scheduled_s=0.5))
    assert late == Bounds(ttft_above_s=60.5)


@pytest.mark.parametrize("end", [EndReason.BROKEN, EndReason.SILENT])
def test_a_failure_proves_nothing_of_speed(end: EndReason) -> None:
    assert bound_of_unfinished(RequestRecord(1.0, (), (), end, 61.0)) is None


def test_what_cannot_finish_is_known_before_its_deadline() -> None:
    blocks = [40.0, 42.0, 41.0, 40.5]
    assert cannot_finish(blocks, 24_576.0, 300.0, prior_cv=0.05)
    assert not cannot_finish(blocks, 24_576.0, 700.0, prior_cv=0.05)
    assert not cannot_finish(blocks, 41.0 * 300, 300.0, prior_cv=0.05)
    assert not cannot_finish(blocks[:1], 1e9, 1.0, prior_cv=0.05)
