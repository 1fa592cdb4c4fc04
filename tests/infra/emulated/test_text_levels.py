"""How well the n-gram drafter does on the built-in texts: the shape of published replays."""

from functools import cache

import pytest

from infra.emulated.drafting.drafter import make_drafter
from infra.emulated.settings import Algorithm, Settings
from infra.emulated.text import Kind, TargetStream, seed_of
from infra.emulated.truth import TRUTHS

PROMPTS = 3


@cache
def verifies(kind: Kind, width: int, breadth: int = 10, tokens: int = 2048) -> tuple[int, ...]:
    """Replay some prompts, each on a cold trie; return the tokens of each verify."""
    shape = Settings(algorithm=Algorithm.NGRAM, draft_tokens=width, max_breadth=breadth)
    steps: list[int] = []
    for number in range(PROMPTS):
        seed = seed_of(f"prompt {number}")
        stream = TargetStream(seed, kind)
        request = make_drafter(shape, TRUTHS["M"]).open([], seed)
        request.commit(stream.window(0, 1))
        done = 1
        while done < tokens:
            matched = request.correct_drafts(stream.window(done, width - 1))
            request.commit(stream.window(done, matched + 1))
            done += matched + 1
            steps.append(matched + 1)
    return tuple(steps)


def accept(kind: Kind, width: int, breadth: int = 10) -> float:
    steps = verifies(kind, width, breadth)
    return sum(steps) / len(steps)


def test_thinking_text_gives_the_founding_accept_length() -> None:
    assert accept(Kind.THINK, 8) == pytest.approx(1.295, rel=0.025)


def test_kinds_keep_their_order_and_distance() -> None:
    think, prose, code = (accept(kind, 3) for kind in (Kind.THINK, Kind.PROSE, Kind.CODE))
    assert 1.04 < prose / think < 1.12
    assert 1.04 < code / prose < 1.13


@pytest.mark.parametrize("kind", Kind)
def test_accept_length_saturates_with_the_width(kind: Kind) -> None:
    two, three, eight, sixteen = (accept(kind, width) for width in (2, 3, 8, 16))
    assert 1.04 < three / two < 1.13
    assert 1.05 < eight / three < 1.15
    assert 1.01 < sixteen / eight < 1.06


@pytest.mark.parametrize("kind", Kind)
def test_breadth_helps_a_little_and_only_a_wide_draft(kind: Kind) -> None:
    assert verifies(kind, 2, 10) == verifies(kind, 2, 1)
    assert 1.01 < accept(kind, 8) / accept(kind, 8, 1) < 1.09


@pytest.mark.parametrize("kind", Kind)
def test_some_verifies_take_all_drafts(kind: Kind) -> None:
    steps = verifies(kind, 8)
    assert 0.005 < steps.count(8) / len(steps) < 0.03


def test_a_long_answer_fills_the_trie() -> None:
    steps = verifies(Kind.CODE, 8, tokens=5120)
    short = verifies(Kind.CODE, 8)
    assert 1.03 < sum(steps) / len(steps) / (sum(short) / len(short)) < 1.13
