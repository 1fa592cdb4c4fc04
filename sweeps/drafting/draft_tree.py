"""Draft trees: how they grow from matched strings, and in which order SGLang writes them.

Growth is that of SGLang 0.5.23's trie.cpp and suffix_automaton.cpp, order that of result.cpp as
GNU's standard library runs it: ties and the order of siblings are those of its containers.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

PAD_ID = 0
"""What hangs under the root for each draft that was not found."""

_At = TypeVar("_At")
Growing = list[dict[int, int]]
"""For each position, in the order of finding: the followers' positions by token."""
Newest = Callable[[_At, int, int], Iterable[tuple[int, _At]]]
"""From a string, its length and a limit to its followers, last touched first."""
Likeliest = Callable[[_At, int, int], list[tuple[int, _At, int]]]
"""From a string, its length and a limit to its followers with counts, highest first."""

_BUCKETS = (13, 29, 59, 127, 257, 541, 1109, 2357)


@dataclass(frozen=True, slots=True)
class DraftTree:
    """What one verify processes for a request: its last token first, then the drafts."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    """The place of each token's parent in `tokens`; -1 for the first."""

    def correct_drafts(self, upcoming: Sequence[int]) -> int:
        """Return how many drafts a verify accepts if the target writes `upcoming`."""
        followers: dict[tuple[int, int], int] = {}
        for place in range(1, len(self.tokens)):
            followers.setdefault((self.parents[place], self.tokens[place]), place)
        at = 0
        for matched, token in enumerate(upcoming):
            after = followers.get((at, token))
            if after is None:
                return matched
            at = after
        return len(upcoming)

    def leaf_paths(self) -> list[list[int]]:
        """List the drafts from the root to each leaf; a lone padding token counts for none."""
        inner = set(self.parents)
        paths = []
        for leaf in range(1, len(self.tokens)):
            if leaf in inner:
                continue
            path = []
            at = leaf
            while at > 0:
                path.append(self.tokens[at])
                at = self.parents[at]
            if path != [PAD_ID]:
                paths.append(path[::-1])
        return paths


@dataclass(frozen=True, slots=True)
class BreadthSchedule:
    """How many followers are drafted: fewer for long matches, and fewer at each level."""

    top_length: int
    """The length of match that starts with `least`."""
    least: int
    step: float

    def start(self, length: int) -> float:
        """Return the breadth under a match of a length; below 1 it counts as 1."""
        return (self.top_length - length) * self.step + self.least


def grow_by_recency(
    anchors: Iterable[tuple[int, _At]], left: int, schedule: BreadthSchedule, newest: Newest[_At]
) -> Growing:
    """Grow breadth first from each matched string in turn, until `left` drafts are found."""
    tree: Growing = [{}]
    step = schedule.step
    for matched, anchor in anchors:
        if left <= 0:
            break
        queue = [(0, schedule.start(matched), anchor, matched)]
        for position, breadth, at, length in queue:
            if left <= 0:
                break
            here = tree[position]
            for token, follower in newest(at, length, int(breadth) if breadth > 1 else 1):
                after = here.get(token)
                if after is None:
                    after = here[token] = len(tree)
                    tree.append({})
                    left -= 1
                queue.append((after, breadth - step, follower, length + 1))
                if left <= 0:
                    break
    return tree


def grow_by_likelihood(
    anchors: Iterable[tuple[int, _At]], left: int, breadth: int, likeliest: Likeliest[_At]
) -> Growing:
    """Grow from each matched string in turn by the likeliest path, until `left` are found."""
    tree: Growing = [{}]
    for matched, anchor in anchors:
        if left <= 0:
            break
        heap: list[tuple[float, int, int, _At, int]] = []

        def push(position: int, at: _At, length: int, chance: float) -> None:
            followers = likeliest(at, length, breadth)
            total = float(sum(count for _, _, count in followers)) or 1.0
            for token, follower, count in followers:
                _push(heap, (count / total * chance, position, token, follower, length + 1))  # noqa: B023 - called within this round only

        push(0, anchor, matched, 1.0)
        while heap and left > 0:
            chance, position, token, at, length = _pop(heap)
            after = tree[position].get(token)
            if after is None:
                after = tree[position][token] = len(tree)
                tree.append({})
                left -= 1
            push(after, at, length, chance)
    return tree


_Entry = TypeVar("_Entry", bound=tuple[object, ...])


def _push(heap: list[_Entry], entry: _Entry) -> None:
    """Add to a heap as std::push_heap does: entries of equal chance stay in its order."""
    heap.append(entry)
    _rise(heap, len(heap) - 1, entry)


def _rise(heap: list[_Entry], hole: int, entry: _Entry) -> None:
    while hole > 0:
        parent = (hole - 1) // 2
        if not heap[parent][0] < entry[0]:  # type: ignore[operator]  # chances are floats
            break
        heap[hole] = heap[parent]
        hole = parent
    heap[hole] = entry


def _pop(heap: list[_Entry]) -> _Entry:
    """Take the likeliest as std::pop_heap does: the hole sinks to a leaf, the last fills it."""
    best = heap[0]
    last = heap.pop()
    size = len(heap)
    if not size:
        return best
    hole = 0
    child = 2
    while child < size:
        if heap[child][0] < heap[child - 1][0]:  # type: ignore[operator]  # chances are floats
            child -= 1
        heap[hole] = heap[child]
        hole = child
        child = 2 * child + 2
    if child == size:
        heap[hole] = heap[size - 1]
        hole = size - 1
    _rise(heap, hole, last)
    return best


def written(tree: Growing, last_token: int, size: int) -> DraftTree:
    """Write a tree level by level and fill it up to `size` tokens."""
    tokens = [last_token]
    parents = [-1]
    queue = [(0, 0)]
    for position, place in queue:
        for token in HashMapOrder(tree[position]).keys:
            queue.append((tree[position][token], len(tokens)))
            tokens.append(token)
            parents.append(place)
    missing = size - len(tokens)
    return DraftTree((*tokens, *[PAD_ID] * missing), (*parents, *[0] * missing))


def merged(first: DraftTree, second: DraftTree, size: int) -> DraftTree:
    """Join two trees over the same last token, the first one's paths first."""
    tree: Growing = [{}]
    for path in first.leaf_paths() + second.leaf_paths():
        position = 0
        for token in path:
            after = tree[position].get(token)
            if after is None:
                if len(tree) >= size:
                    break
                after = tree[position][token] = len(tree)
                tree.append({})
            position = after
        if len(tree) >= size:
            break
    return written(tree, first.tokens[0], size)


class HashMapOrder:
    """The order in which a std::unordered_map of whole numbers lists its keys."""

    def __init__(self, keys: Iterable[int] = ()) -> None:
        self.keys: list[int] = []
        self._sizes = iter(_BUCKETS)
        self._buckets = next(self._sizes)
        for key in keys:
            self.add(key)

    def add(self, key: int) -> None:
        """Take in a key that is not there yet."""
        if len(self.keys) == self._buckets:
            self._buckets = next(self._sizes)
            listed, self.keys = self.keys, []
            for old in listed:
                self._file(old)
        self._file(key)

    def _file(self, key: int) -> None:
        """Put a key in front of its bucket; a new bucket goes in front of all."""
        bucket = key % 2**64 % self._buckets
        for place, mate in enumerate(self.keys):
            if mate % 2**64 % self._buckets == bucket:
                self.keys.insert(place, key)
                return
        self.keys.insert(0, key)
