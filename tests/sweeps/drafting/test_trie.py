"""The trie holds the strings that a literal reading of SGLang's insertion and eviction leaves."""

import random
from collections.abc import Iterator

import pytest

from sweeps.drafting.trie import Child, NgramTrie, Writer


class LiteralTrie:
    """One entry a string; the entries lie in the order of touch, stalest first."""

    def __init__(self, depth: int, capacity_nodes: int) -> None:
        self.depth = depth
        self.capacity_nodes = capacity_nodes
        self.counts: dict[tuple[int, ...], int] = {}

    def insert(self, tail: list[int]) -> None:
        for start in range(len(tail)):
            window = tail[start : start + self.depth]
            while len(self.counts) + 1 + len(window) > self.capacity_nodes:
                del self.counts[next(iter(self.counts))]
            for length in range(len(window), 0, -1):
                string = tuple(window[:length])
                self.counts[string] = self.counts.pop(string, 0) + 1


def strings(trie: NgramTrie) -> Iterator[tuple[int, ...]]:
    """List all strings that are there, in no order."""
    waiting: list[tuple[tuple[int, ...], Child]] = [((), trie.root)]
    while waiting:
        spelt, at = waiting.pop()
        if spelt:
            yield spelt
        if isinstance(at, int):
            waiting += [((*spelt, t), at + 1) for t in trie.tokens_after(at, len(spelt))[:1]]
        else:
            waiting += [((*spelt, t), child) for t, child in at.children.items()]


@pytest.mark.parametrize("seed", range(60))
def test_strings_after_every_insertion(seed: int) -> None:
    rng = random.Random(seed)
    depth = rng.choice((2, 4, 6, 9))
    window = depth * (depth + 1) // 2
    capacity = rng.choice((depth + 1, window + 3, 3 * window, 4 * window + 2, 9 * window, 10**6))
    trie = NgramTrie(depth, capacity, counts=rng.random() < 0.3)
    literal = LiteralTrie(depth, capacity)
    alphabet = rng.choice((1, 2, 3, 9))
    texts = [[rng.randrange(alphabet)] for _ in range(rng.choice((1, 1, 2, 3)))]
    writers = [Writer() for _ in texts]
    for _ in range(40):
        for text, writer in zip(texts, writers, strict=True):
            if rng.random() < 0.2:
                continue
            trie.insert(text[-depth:], len(text), writer)
            literal.insert(text[-depth:])
            assert sorted(strings(trie)) == sorted(literal.counts)
            assert trie.nodes == len(literal.counts)
            text += [rng.randrange(alphabet) for _ in range(rng.randint(1, min(5, depth)))]


def test_what_is_never_touched_again_goes_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.drafting.trie.TEXT_LIMIT", 500)
    trie, writer, text = NgramTrie(6, 10**6), Writer(), [7, 8, 9]
    for _ in range(2000):
        trie.insert(text[-6:], len(text), writer)
        text.append(len(text) % 3)
    assert len(trie.text) <= 500
    assert trie.find([7, 8, 9]) is None
    assert trie.find([0, 1, 2, 0]) is not None
    assert trie.nodes == len(list(strings(trie))) == 18


def test_no_capacity_below_one_window() -> None:
    with pytest.raises(ValueError, match="depth 18"):
        NgramTrie(18, 18)
