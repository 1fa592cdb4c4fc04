"""How a draft tree grows from strings that were matched in the trie."""

from collections.abc import Iterable
from heapq import nsmallest

from sweeps.drafting.draft_tree import BreadthSchedule, Growing, grow_by_likelihood
from sweeps.drafting.trie import Child, NgramTrie

LEAF: dict[int, int] = {}
"""Stands for the children of every draft that has none; most never get any."""


def trie_tree_by_recency(
    trie: NgramTrie,
    anchors: Iterable[tuple[int, Child]],
    left: int,
    schedule: BreadthSchedule,
) -> Growing:
    """Grow breadth first from each matched string in turn, until `left` drafts are found.

    The same as `grow_by_recency`, written out: servers that are emulated, and replays, spend most
    of their time here.
    """
    tree: Growing = [{}]
    for matched, anchor in anchors:
        if left <= 0:
            break
        if isinstance(anchor, int) or anchor.children:
            left = _grow_below(
                trie, (0, schedule.start(matched), anchor, matched), tree, left, schedule.step
            )
    return tree


def _grow_below(
    trie: NgramTrie, anchor: tuple[int, float, Child, int], tree: Growing, left: int, step: float
) -> int:
    """Grow from one matched string; return how many drafts are left to find."""
    queue = [anchor]
    for position, breadth, at, length in queue:
        here = tree[position]
        if isinstance(at, int):
            token = trie.next_after(at, length)
            followers: Iterable[tuple[int, Child]] = () if token is None else ((token, at + 1),)
        else:
            followers = reversed(at.children.items())
        places = int(breadth) if breadth > 1 else 1
        breadth -= step
        length += 1
        for token, follower in followers:
            after = here.get(token)
            if after is None:
                if here is LEAF:
                    here = tree[position] = {}
                after = here[token] = len(tree)
                tree.append(LEAF)
                left -= 1
                if not left:
                    return 0
            queue.append((after, breadth, follower, length))
            places -= 1
            if not places:
                break
    return left


def trie_tree_by_likelihood(
    trie: NgramTrie, anchors: Iterable[tuple[int, Child]], left: int, breadth: int
) -> Growing:
    """Grow from each matched string in turn by the likeliest path, until `left` are found."""

    def likeliest(at: Child, length: int, breadth: int) -> list[tuple[int, Child, int]]:
        if isinstance(at, int):
            token = trie.next_after(at, length)
            return [] if token is None else [(token, at + 1, 1)]
        counted = [
            (token, child, 1 if isinstance(child, int) else child.count)
            for token, child in at.children.items()
        ]
        return nsmallest(breadth, counted, key=lambda c: (-c[2], c[0]))

    return grow_by_likelihood(anchors, left, breadth, likeliest)
