"""The fast core takes the steps of the reference, whatever is asked of it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.drafting.ngram import MatchWindow, NgramShape
from sweeps.replay.fast import NumberedText
from sweeps.replay.reference import replay_by_drafter
from sweeps.replay.streams import Steps, Stream

# Slow: numba compiles for half a minute where nothing is cached.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def tokens_below(alphabet: int, most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, alphabet - 1), max_size=most)


@st.composite
def served(draw: st.DrawFn) -> list[Stream]:
    """Make requests that quote themselves and each other, of a few tokens or many."""
    alphabet = draw(st.sampled_from((2, 3, 8, 300)))
    written: list[int] = draw(tokens_below(alphabet, 40))
    streams = []
    for _ in range(draw(st.integers(1, 5))):
        output = [1]
        for _ in range(draw(st.integers(0, 8))):
            output += draw(tokens_below(alphabet, 6))
            start = draw(st.integers(0, 60))
            output += (written + output)[start : start + draw(st.integers(0, 24))]
        written += output
        prompt = draw(tokens_below(alphabet, 25))
        streams.append(Stream(prompt, output, draw(tokens_below(alphabet, 8))))
    return streams


@st.composite
def shapes(draw: st.DrawFn) -> NgramShape:
    """Make settings of every version's form."""
    depth = draw(st.integers(2, 20))
    breadth = draw(st.sampled_from((1, 2, 4, 10)))
    shape = NgramShape(
        draw(st.sampled_from((2, 3, 4, 8, 16, 32))),
        depth,
        min_breadth=draw(st.integers(1, min(2, breadth))),
        max_breadth=breadth,
        by_likelihood=draw(st.booleans()),
        inserts_behind=draw(st.booleans()),
        overlap=draw(st.booleans()),
    )
    if depth > 2 and draw(st.booleans()):
        shortest = draw(st.integers(1, depth - 1))
        longest = draw(st.integers(shortest, depth - 1))
        window = MatchWindow(shortest, longest)
        return replace(shape, window=window, by_likelihood=False, inserts_behind=False)
    return shape


def differing(one: Steps, other: Steps) -> list[str]:
    return [
        name
        for name in ("stream", "tokens", "correct")
        if not np.array_equal(getattr(one, name), getattr(other, name))
    ]


@settings(max_examples=400, deadline=None)
@given(streams=served(), shape=shapes(), concurrency=st.sampled_from((1, 1, 2, 3)))
def test_every_step_is_the_reference_s(
    streams: Sequence[Stream], shape: NgramShape, concurrency: int
) -> None:
    fast = NumberedText(streams, shape.depth).replay(shape, concurrency)
    assert not differing(fast, replay_by_drafter(streams, shape, concurrency=concurrency))


def test_a_text_serves_one_depth_and_a_small_trie_is_for_the_reference() -> None:
    numbered = NumberedText([Stream([1], [2, 3, 4])], 4)
    assert numbered.can_replay(NgramShape(8, 4))
    assert not numbered.can_replay(NgramShape(8, 4, capacity_nodes=16))
    with pytest.raises(ValueError, match="depth 4, not 5"):
        numbered.replay(NgramShape(8, 5))
