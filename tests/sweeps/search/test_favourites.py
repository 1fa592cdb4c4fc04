"""Favourites: the best draft of each algorithm at a serving, by what is expected and hoped."""

import numpy as np
import pytest

from sweeps.config import Config
from sweeps.search.beliefs import Outlook
from sweeps.search.favourites import Favourites
from sweeps.search.feasibility import CLOSED_AFTER, Feasibility
from sweeps.search.step_times import Draws

ALGORITHM, WIDTH, PROTO = "speculative_algorithm", "speculative_num_draft_tokens", "NCCL_PROTO"
PLAIN = Config.of({ALGORITHM: None})
SHORT, LONG = (Config.of({ALGORITHM: "NGRAM", WIDTH: width}) for width in (3, 8))
HEADS = Config.of({ALGORITHM: "EAGLE3", WIDTH: 2})
DEFAULT, LL = (Config.of({PROTO: proto}) for proto in (None, "LL"))
DRAFTS, SERVINGS = (PLAIN, SHORT, LONG, HEADS), (DEFAULT, LL)


def outlook(accepts: list[float], spreads: list[float], cycles: list[list[float]]) -> Outlook:
    """Accept lengths of each draft with their spreads, and step times of each with each serving."""
    spread = np.outer([-1, 1], spreads)
    accept = Draws(np.log(accepts) + spread)
    flat = np.log(cycles).ravel()
    cycle = Draws(np.array([flat, flat]))
    rows = np.arange(len(flat)).reshape(len(accepts), -1)
    return Outlook(DRAFTS, SERVINGS, cycle, accept, rows, rows // len(SERVINGS))


LOOK = outlook(
    [1.0, 1.6, 2.0, 1.5],
    [0.0, 0.01, 0.01, 0.3],
    [[1.0, 1.0], [1.9, 1.2], [2.0, 1.7], [1.5, 1.3]],
)


def test_the_best_draft_of_each_algorithm_depends_on_the_serving() -> None:
    found = Favourites(LOOK, Feasibility({}))
    assert found.drafts(DEFAULT)["NGRAM"] == LONG
    assert found.drafts(LL)["NGRAM"] == SHORT
    assert found.serving == LL


def test_what_is_little_known_goes_before_what_is_known_to_be_as_good() -> None:
    assert list(Favourites(LOOK, Feasibility({})).drafts(LL)) == ["EAGLE3", "NGRAM"]
    sure = outlook([1.0, 1.6, 2.0, 1.5], [0.0, 0.01, 0.01, 0.01], [[1.0, 1.0]] * 4)
    assert list(Favourites(sure, Feasibility({})).drafts(LL)) == ["NGRAM", "EAGLE3"]


def test_what_never_ran_is_no_favourite() -> None:
    closed = Feasibility({(WIDTH, 3): CLOSED_AFTER, (ALGORITHM, "EAGLE3"): CLOSED_AFTER})
    assert Favourites(LOOK, closed).drafts(LL) == {"NGRAM": LONG}


@pytest.mark.parametrize("look", [None, LOOK], ids=["nothing known", "a serving never looked at"])
def test_there_are_none_of_what_was_not_looked_at(look: Outlook | None) -> None:
    found = Favourites(look, Feasibility({}))
    assert found.drafts(Config.of({PROTO: "Simple"})) == {}
    assert (found.serving is None) is (look is None)
