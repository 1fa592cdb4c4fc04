"""The drafters of the emulated server: an n-gram trie that learns from output, an EAGLE chain.

The trie follows SGLang 0.5.23's description of itself: every suffix of the text up to a depth is
a path, children are ordered by last touch, and all requests share it until a flush.
"""

import heapq
from collections.abc import Sequence
from itertools import count, islice
from typing import Protocol

from infra.emulated.settings import Algorithm, Settings
from infra.emulated.truth import HostTruth, hit_rates

NODE_LIMIT = 1_000_000
"""The emulator's own limit (about 70,000 tokens of text); a larger capacity counts as this."""
_EVICTED_SHARE = 0.05


class RequestDrafter(Protocol):
    """Drafts for one request. One thread."""

    def correct_drafts(self, upcoming: Sequence[int]) -> int:
        """Return how many drafts of the next verify match what the target will write."""
        ...

    def commit(self, tokens: Sequence[int]) -> None:
        """Take in tokens that are now part of the output."""
        ...


class Drafter(Protocol):
    """Makes drafters for requests and holds what they share."""

    def open(self, prompt: Sequence[int], key: int) -> RequestDrafter:
        """Start a request. `key` identifies its prompt."""
        ...

    def reset(self) -> None:
        """Forget everything, as a cache flush does. Requests must be idle."""
        ...


def make_drafter(settings: Settings, truth: HostTruth) -> Drafter:
    """Make the drafter that the settings name."""
    match settings.algorithm:
        case Algorithm.PLAIN:
            return ChainDrafter((), 0)
        case Algorithm.NGRAM:
            return NgramDrafter(settings)
        case Algorithm.EAGLE:
            kept = truth.eagle_breadth_gain
            hits = hit_rates(settings.draft_model)
            rates = [1 - (1 - rate) * (1 - kept) ** (settings.topk - 1) for rate in hits]
            depth = max(0, min(settings.draft_steps, settings.draft_tokens - 1))
            return ChainDrafter(tuple(rates), depth)


class ChainDrafter:
    """A chain whose hits depend on the prompt and the position alone; depth 0 is plain decode."""

    def __init__(self, hit_rates: Sequence[float], depth: int) -> None:
        last = hit_rates[-1] if hit_rates else 0.0
        self._rates = [*hit_rates, *[last] * max(0, depth - len(hit_rates))][:depth]

    def open(self, prompt: Sequence[int], key: int) -> RequestDrafter:
        """Start a request at position 0 of its output."""
        return _Chain(self._rates, key)

    def reset(self) -> None:
        """Do nothing: a draft model learns nothing while it serves."""


class _Chain:
    def __init__(self, rates: Sequence[float], key: int) -> None:
        self._rates = rates
        self._key = key
        self._position = 0

    def correct_drafts(self, upcoming: Sequence[int]) -> int:
        for depth, rate in enumerate(self._rates):
            if _uniform(self._key, self._position + depth) >= rate:
                return depth
        return len(self._rates)

    def commit(self, tokens: Sequence[int]) -> None:
        self._position += len(tokens)


def _uniform(key: int, position: int) -> float:
    """Return a number in [0, 1) that only the arguments decide (the splitmix64 mixing steps)."""
    mask = (1 << 64) - 1
    z = (key + position * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return (z ^ (z >> 31)) / 2**64


class _Node:
    """A token in the trie. Children lie in the order of their last touch, newest last."""

    __slots__ = ("children", "count")

    def __init__(self) -> None:
        self.count = 0
        self.children: dict[int, _Node] | None = None


class NgramTrie:
    """All text windows up to a depth, shared by the requests of a server.

    When it is full, the windows of the starting tokens that were touched longest ago go, until
    5 % are free. SGLang drops single nodes by last touch instead.
    """

    def __init__(self, depth: int, capacity_nodes: int) -> None:
        self.depth = depth
        self.capacity_nodes = min(capacity_nodes, NODE_LIMIT)
        self.epoch = 0
        """Changes when nodes are dropped: nodes that were looked up before may be stale."""
        self.nodes = 0
        self._root = _Node()

    def clear(self) -> None:
        """Drop all nodes."""
        self._root = _Node()
        self.nodes = 0
        self.epoch += 1

    def extend(self, path: list[_Node], token: int) -> list[_Node]:
        """Append a token to the windows that end in `path`; path[d] spells the last d+1 tokens."""
        if self.nodes + self.depth > self.capacity_nodes:
            self._evict()
            path = []
        grown = []
        made = 0
        for parent in (self._root, *path[: self.depth - 1]):
            children = parent.children
            if children is None:
                children = parent.children = {}
            node = children.pop(token, None)
            if node is None:
                node = _Node()
                made += 1
            node.count += 1
            children[token] = node
            grown.append(node)
        self.nodes += made
        return grown

    def find(self, tail: Sequence[int]) -> list[_Node]:
        """Look up the windows that end a text, as far as they are there."""
        path = []
        for length in range(1, min(len(tail), self.depth) + 1):
            node: _Node | None = self._root
            for token in tail[len(tail) - length :]:
                node = node.children.get(token) if node is not None and node.children else None
            if node is None:
                break
            path.append(node)
        return path

    def _evict(self) -> None:
        self.epoch += 1
        wanted = max(self.depth, int(self.capacity_nodes * _EVICTED_SHARE))
        children = self._root.children or {}
        while wanted > 0 and children:
            oldest = children.pop(next(iter(children)))
            freed = _size(oldest)
            self.nodes -= freed
            wanted -= freed


def _size(node: _Node) -> int:
    total = 0
    waiting = [node]
    while waiting:
        node = waiting.pop()
        total += 1
        if node.children:
            waiting.extend(node.children.values())
    return total


class NgramDrafter:
    """Drafts from the shared trie. The prompt enters by its last tokens only."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.trie = NgramTrie(settings.max_depth, settings.capacity_nodes)

    def open(self, prompt: Sequence[int], key: int) -> RequestDrafter:
        """Start a request: its last tokens are inserted, the rest of the prompt never is."""
        request = _NgramRequest(self.trie, self.settings)
        request.commit(prompt[-self.trie.depth :])
        return request

    def reset(self) -> None:
        """Empty the trie."""
        self.trie.clear()


class _NgramRequest:
    def __init__(self, trie: NgramTrie, settings: Settings) -> None:
        self._trie = trie
        self._settings = settings
        self._path: list[_Node] = []
        self._tail: list[int] = []
        self._epoch = trie.epoch
        self._order = count()
        span = settings.max_depth - 1
        if settings.max_match < settings.max_depth:
            span = settings.max_match - settings.min_match + 1
        self._breadth_step = (settings.max_breadth - settings.min_breadth) / max(1, span)

    def correct_drafts(self, upcoming: Sequence[int]) -> int:
        tree = self._prob_tree() if self._settings.match_type == "PROB" else self._bfs_tree()
        position = 0
        for depth, token in enumerate(upcoming):
            after = tree[position].get(token)
            if after is None:
                return depth
            position = after
        return len(upcoming)

    def commit(self, tokens: Sequence[int]) -> None:
        self._tail = [*self._tail, *tokens][-self._trie.depth :]
        trie = self._trie
        if self._epoch != trie.epoch:
            self._path = trie.find(self._tail[: -len(tokens)]) if tokens else []
            self._epoch = trie.epoch
        path = self._path
        for token in tokens:
            path = trie.extend(path, token)
        self._path = path
        self._epoch = trie.epoch

    def _anchors(self) -> list[tuple[int, _Node]]:
        """List matched lengths and their nodes, longest first."""
        if self._epoch != self._trie.epoch:
            self._path = self._trie.find(self._tail)
            self._epoch = self._trie.epoch
        low, high = self._settings.min_match, self._settings.max_match
        return [
            (length, self._path[length - 1])
            for length in range(min(high, len(self._path)), low - 1, -1)
            if self._path[length - 1].children
        ]

    def _bfs_tree(self) -> list[dict[int, int]]:
        """Grow from each anchor breadth first, newest children first, until the nodes are spent."""
        settings = self._settings
        left = settings.draft_tokens - 1
        step = self._breadth_step
        top = settings.max_depth - 1
        if settings.max_match < settings.max_depth:
            top = settings.max_match
        tree: list[dict[int, int]] = [{}]
        for length, anchor in self._anchors():
            if left <= 0:
                break
            queue = [(0, (top - length) * step + settings.min_breadth, anchor)]
            for position, breadth, node in queue:
                children = node.children
                if not children or left <= 0:
                    continue
                here = tree[position]
                for token in islice(reversed(children), int(max(1.0, breadth))):
                    after = here.get(token)
                    if after is None:
                        if left <= 0:
                            break
                        after = here[token] = len(tree)
                        tree.append({})
                        left -= 1
                    queue.append((after, breadth - step, children[token]))
        return tree

    def _prob_tree(self) -> list[dict[int, int]]:
        """Grow from each anchor by the most likely path, by counts, until the nodes are spent."""
        left = self._settings.draft_tokens - 1
        tree: list[dict[int, int]] = [{}]
        for _, anchor in self._anchors():
            heap: list[_Candidate] = []
            self._push_likely(heap, 1.0, 0, anchor)
            while heap and left > 0:
                minus, _, token, position, node = heapq.heappop(heap)
                after = tree[position].get(token)
                if after is None:
                    after = tree[position][token] = len(tree)
                    tree.append({})
                    left -= 1
                self._push_likely(heap, -minus, after, node)
        return tree

    def _push_likely(
        self,
        heap: list["_Candidate"],
        chance: float,
        position: int,
        node: _Node,
    ) -> None:
        if not node.children:
            return
        best = heapq.nsmallest(
            self._settings.max_breadth, node.children.items(), key=lambda c: (-c[1].count, c[0])
        )
        total = sum(child.count for _, child in best)
        for token, child in best:
            rank = -chance * child.count / total
            heapq.heappush(heap, (rank, next(self._order), token, position, child))


_Candidate = tuple[float, int, int, int, _Node]
"""Minus its likelihood, order of entry, token, tree position of its parent, trie node."""
