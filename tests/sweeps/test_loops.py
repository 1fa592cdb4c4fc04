"""Texts that end in a loop are found; those that only repeat themselves are not."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.loops import LEAST_PIECES, LEAST_SHARE, find_loop

WORDS = (
    "the", "queue", "holds", "every", "item", "until", "a", "reader", "takes", "it", "or", "limit",
)  # fmt: skip


def prose(words: int, seed: int = 0) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) + str(rng.randrange(100)) for _ in range(words))


@pytest.mark.parametrize(
    ("loop", "period"),
    [
        ("I think that the answer is four. ", 8),
        ("!", 1),
        ("哈哈", 1),
        ("答案是四。", 5),
        ("ha", 1),
        ("abc", 3),
        ("- item 1\n- item 2\n- item 3\n", 3),
    ],
    ids=["sentence", "sign", "one letter", "no spaces", "one word", "shifted", "counted"],
)
def test_a_text_that_ends_in_a_loop(loop: str, period: int) -> None:
    found = find_loop(prose(100) + "\n" + loop * 600)
    assert found is not None
    assert found.period_pieces == period
    assert found.share > LEAST_SHARE
    assert found.repeats * found.period_pieces >= LEAST_PIECES


def test_a_loop_that_was_cut_within_a_word_is_a_loop() -> None:
    text = prose(50) + "We check the limit again. " * 40
    for cut in range(1, 30):
        assert find_loop(text[:-cut]) is not None


def test_a_loop_with_a_counter_is_a_loop() -> None:
    text = prose(50) + " ".join(f"Step {i}: check the limit again." for i in range(80))
    found = find_loop(text)
    assert found is not None
    assert found.period_pieces == 8
    assert found.repeats == pytest.approx(80, abs=1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "no " * 10,
        prose(400),
        prose(400) + "\n" + "-" * 80,
        prose(300) + "\n" + "        }\n" * 12,
        "\n".join(f"def get_{name}(self):\n    return self._{name}\n" for name in WORDS),
        "no " * 300 + prose(300),
    ],
    ids=["empty", "short", "few", "prose", "ruler", "braces", "getters", "out of it again"],
)
def test_what_only_repeats_is_no_loop(text: str) -> None:
    assert find_loop(text) is None


@given(st.text(alphabet="ab \n{}", max_size=300))
def test_a_loop_is_as_long_as_it_says(text: str) -> None:
    found = find_loop(text)
    if found is not None:
        assert found.repeats >= 4
        assert 0 < found.share <= 1
