"""How a draft tree grows from strings that were matched in the trie."""

from collections.abc import Iterable
from heapq import nsmallest

from infra.emulated.draft_tree import BreadthSchedule, Growing, grow_by_likelihood
from infra.emulated.trie import Child, NgramTrie


def trie_tree_by_recency(
    trie: NgramTrie,
    anchors: Iterable[tuple[int, Child]],
    left: int,
    schedule: BreadthSchedule,
) -> Growing:
    """Grow breadth first from each matched string in turn, until `left` drafts are found.

    The same as `grow_by_recency`, written out: an emulated server spends most of its time here.
    """
    tree: Growing = [{}]
    step = schedule.step
    for matched, anchor in anchors:
        if left <= 0:
            break
        if not isinstance(anchor, int) and not anchor.children:
            continue
        queue = [(0, schedule.start(matched), anchor, matched)]
        for entry in queue:
            position, breadth, at, length = entry
            if isinstance(at, int):
                tokens = trie.tokens_after(at, length) if entry is queue[-1] else (
                    trie.tokens_after(at, length)[:1]
                )
                for token in tokens:
                    here = tree[position]
                    position = here.get(token, 0)
                    if not position:
                        position = here[token] = len(tree)
                        tree.append({})
                        left -= 1
                        if not left:
                            return tree
                    at += 1
                    length += 1
                if tokens and entry is not queue[-1]:
                    queue.append((position, 0.0, at, length))
                continue
            here = tree[position]
            children = at.children
            places = int(breadth) if breadth > 1 else 1
            for token in reversed(children):
                after = here.get(token)
                if after is None:
                    after = here[token] = len(tree)
                    tree.append({})
                    left -= 1
                    if not left:
                        return tree
                queue.append((after, breadth - step, children[token], length + 1))
                places -= 1
                if not places:
                    break
    return tree


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
