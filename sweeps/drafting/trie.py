"""The n-gram trie: every window of inserted text up to a depth, with SGLang's order of eviction.

It stores what SGLang 0.5.23's trie.cpp stores in a smaller form. A string that occurs once has
no node: its parent names the place of its last token in the text, and the text goes on from
there. A node is made at the second visit. All order of touch then follows from one number: text
is laid down in the order of insertion, so that the string whose last occurrence starts earliest
is the stalest, longer ones before shorter ones.
"""

from collections.abc import Sequence

TEXT_LIMIT = 4_000_000
"""What was not touched for this many inserted tokens is dropped, even with nodes to spare."""
_DEAD = -1


class Node:
    """A string that was visited more than once. Children lie in order of touch, newest last."""

    __slots__ = ("children", "count", "last")

    children: "dict[int, Child]"
    last: int
    """Where in the text the last token of its last occurrence stands; -1 once evicted."""
    count: int


def _node(last: int, children: "dict[int, Child]") -> Node:
    node = Node()  # no __init__: half of a request's time would go into calling it
    node.last = last
    node.count = 1
    node.children = children
    return node


Child = Node | int
"""A node, or the place in the text of the last token of a string that was visited once."""


class Writer:
    """What the trie keeps for one request that inserts."""

    __slots__ = ("end", "epoch", "evictions", "total")

    def __init__(self) -> None:
        self.epoch = 0
        """The trie's when it last inserted; before the first time none that the trie has."""
        self.evictions = 0
        """The trie's, likewise."""
        self.end = 0
        """Where in the text its last tail ended."""
        self.total = 0
        """The request's tokens up to there."""


class NgramTrie:
    """The windows of all inserted tails. Not thread safe.

    `skipped` is by how many tokens a window's start must lie before the end (SGLang before
    0.5.10 leaves the shortest windows of a tail out). `counts` keeps how often each string was
    inserted, overlaps of successive tails included.
    """

    def __init__(
        self, depth: int, capacity_nodes: int, *, skipped: int = 0, counts: bool = False
    ) -> None:
        self.depth = depth
        self.capacity_nodes = capacity_nodes
        if self.capacity_nodes <= depth:
            raise ValueError(f"a trie of depth {depth} needs more than {capacity_nodes} nodes")
        self.epoch = 0
        self._skipped = skipped
        self._counts = counts
        window_nodes = depth * (depth + 1) // 2
        self._appends = not (skipped or counts) and self.capacity_nodes > 4 * window_nodes
        """Whether a tail may be joined to the text: no room is ever made within itself."""
        self.clear()

    def clear(self) -> None:
        """Drop everything."""
        self.epoch += 1
        self.root = _node(0, {})
        self.nodes = 0
        """Strings that are there, which is how many nodes SGLang has beside its root."""
        self.evictions = 0
        self.text: list[int] = []
        """What was inserted, in that order."""
        self.stops: list[int] = []
        """For each start in the text where its longest window ends; none yet for the last ones,
        whose windows still grow to the end of the text."""
        self.base = 0
        """The place of what stands first in the two lists."""
        self._oldest = 0  # no string has its last occurrence before this start
        self._path = [self.root]  # nodes that spell the end of the text, shortest first
        self._writer: Writer | None = None

    def insert(self, tail: Sequence[int], total: int, writer: Writer) -> None:
        """Insert every window of a request's last tokens; `total` counts all that it has so far."""
        new = len(tail)
        if writer.epoch == self.epoch:
            new = min(new, total - writer.total)
        if self._writer is writer and self._appends and new < len(tail):
            self._append(tail, new)
        else:
            self._lay_down(tail, new, writer)
        writer.epoch = self.epoch
        writer.evictions = self.evictions
        writer.end = self.base + len(self.text)
        writer.total = total
        self._writer = writer
        if len(self.text) > TEXT_LIMIT:
            self._forget(len(self.text) // 2)

    def _append(self, tail: Sequence[int], new: int) -> None:
        """Go on where the same request stopped: windows that it re-inserts keep their order."""
        end = self.base + len(self.text)
        start = end + new - len(tail)
        closed = start - self.base - len(self.stops)
        if closed > 0:
            self.stops += [end] * closed
        if self.nodes + self.depth * (new + 1) < self.capacity_nodes:
            self._join(tail[len(tail) - new :], start)
        else:
            self.text += tail[len(tail) - new :]
            self._touch_starts(start, end, joined=True)

    def _lay_down(self, tail: Sequence[int], new: int, writer: Writer) -> None:
        """Write the whole tail behind the text of others."""
        start = self.base + len(self.text)
        self.stops += [start] * (len(self.text) - len(self.stops))
        known = start + len(tail) - new
        shift = known - writer.end
        self._path = [self.root]
        roomy = self.nodes + self.depth * (self.depth + 3) // 2 < self.capacity_nodes
        if writer.evictions != self.evictions and new < len(tail):
            roomy = False
        if roomy and not self._skipped:
            self._retell(tail, start, known, shift)
        else:
            self.text += tail
            if not self._appends:
                self.stops += [start + len(tail)] * len(tail)
            self._touch_starts(start, known, shift, joined=False)

    def _join(self, tokens: Sequence[int], start: int) -> None:
        """Let the windows from `start` on grow by tokens, where no room has to be made."""
        root, text = self.root, self.text
        place = self.base + len(text)
        path = self._path
        for token in tokens:
            text.append(token)
            longest = place - start + 1
            if len(path) > longest:
                path = path[:longest]
            grown = [root]
            for node in path:
                children = node.children
                child = children.pop(token, None)
                if child is None:
                    children[token] = place
                    continue
                if isinstance(child, int):
                    child = self._split(child, len(grown))
                child.last = place
                children[token] = child
                grown.append(child)
            self.nodes += longest + 1 - len(grown)
            if len(grown) > self.depth:
                grown.pop()
            path = grown
            place += 1
        self._path = path

    def _retell(self, tail: Sequence[int], start: int, known: int, shift: int) -> None:
        """Insert a tail anew token by token, where no room has to be made.

        What ends before `known` was in the writer's last tail, `shift` places earlier.
        """
        path = self._path
        for place, token in enumerate(tail, start):
            self.text.append(token)
            grown = [self.root]
            new = place - start + 1 if place >= known else 0
            for length, node in enumerate(path, 1):
                children = node.children
                child = children.pop(token, None)
                if child is None:
                    children[token] = place
                    continue
                new -= 1
                if isinstance(child, int):
                    if not self._counts and child + shift == place < known:
                        children[token] = place
                        continue
                    child = self._split(child, length)
                child.last = place
                child.count += 1
                children[token] = child
                grown.append(child)
            self.nodes += max(0, new)
            path = grown[: self.depth]
        self._path = path

    def _touch_starts(self, start: int, known: int, shift: int = 0, *, joined: bool) -> None:
        """Insert window by window as SGLang does, making room before each.

        Windows that are joined to the text go on from where they ended before.
        """
        end = self.base + len(self.text)
        path = self._path
        ends: list[Node | None] = []
        for first in range(start, end - self._skipped):
            needed = end - first
            free = self.capacity_nodes - 1 - self.nodes
            if needed > free:
                self._evict(needed - free, first)
            spelt = max(0, known - first) if joined else 0
            if spelt < len(path):
                ends.append(self._touch_window(path[spelt], first, first + spelt, known, shift))
            else:  # the only one of its kind: it grows by itself
                self.nodes += end - known
                ends.append(None)
        self._path = [self.root]
        for node in reversed(ends[1 - self.depth :]):
            if node is None:
                break
            self._path.append(node)

    def _touch_window(
        self, node: Node, first: int, start: int, known: int, shift: int
    ) -> Node | None:
        """Insert what lies from `start` to the text's end below a node; return the last node."""
        text, base = self.text, self.base
        end = base + len(text)
        for place in range(start, end):
            token = text[place - base]
            children = node.children
            child = children.pop(token, None)
            if child is None:
                children[token] = place
                self.nodes += end - place
                return None
            if isinstance(child, int):
                length = place - first + 1
                if not self._counts and child + shift == place < known:
                    children[token] = place
                    self.nodes += end - place - (self._stop(child - length + 1) - child)
                    return None
                child = self._split(child, length)
            child.last = place
            child.count += 1
            children[token] = child
            node = child
        return node

    def _stop(self, start: int) -> int:
        """Return where the longest window ends that was inserted from a start."""
        closed = start - self.base
        if closed < len(self.stops):
            return self.stops[closed]
        return self.base + len(self.text)

    def _split(self, place: int, length: int) -> Node:
        """Make the node of a string that was visited once."""
        token = self.next_after(place, length)
        return _node(place, {} if token is None else {token: place + 1})

    def follow(self, path: list[Node], tokens: Sequence[int]) -> list[Node]:
        """Lead the nodes that spell a text's end, shortest first, on by further tokens.

        Strings that it passes become nodes, which changes no order.
        """
        root, text, stops, base = self.root, self.text, self.stops, self.base
        closed, last = len(stops), len(text) - 1
        for token in tokens:
            grown: list[Node] = []
            for node in (root, *path):
                child = node.children.get(token)
                if child is None:
                    break
                if isinstance(child, int):
                    at = child - base
                    start = at - len(grown)
                    followed = at + 1 < stops[start] - base if start < closed else at < last
                    after: dict[int, Child] = {text[at + 1]: child + 1} if followed else {}
                    node.children[token] = child = _node(child, after)
                    if at == last and len(grown) + 1 == len(self._path) < self.depth:
                        self._path.append(child)
                grown.append(child)
            path = grown
        return path

    def find(self, tokens: Sequence[int]) -> Child | None:
        """Look up a string."""
        at: Child = self.root
        for length, token in enumerate(tokens):
            if isinstance(at, Node):
                child = at.children.get(token)
                if child is None:
                    return None
                at = child
            elif self.next_after(at, length) == token:
                at += 1
            else:
                return None
        return at

    @staticmethod
    def alive(path: list[Node]) -> bool:
        """Tell whether no node of a path was evicted."""
        return all(node.last != _DEAD for node in path)

    def next_after(self, place: int, length: int) -> int | None:
        """Return the token after a string that was visited once, if one was inserted."""
        start = place - length + 1 - self.base
        text, stops = self.text, self.stops
        stop = stops[start] if start < len(stops) else len(text) + self.base
        return text[place + 1 - self.base] if place + 1 < stop else None

    def tokens_after(self, place: int, length: int) -> list[int]:
        """Return all tokens that were inserted after a string that was visited once."""
        start = place - length + 1 - self.base
        text, stops = self.text, self.stops
        return text[
            place + 1 - self.base : stops[start] - self.base if start < len(stops) else None
        ]

    def _evict(self, wanted: int, before: int) -> None:
        """Drop strings from the stalest on, whose windows start before a place."""
        self.evictions += 1
        while wanted > 0:
            if self._oldest >= before:
                raise RuntimeError("the trie's capacity is too small for one window")
            freed = self._evict_from(self._oldest, wanted)
            wanted -= freed
            self.nodes -= freed
        if self._oldest - self.base > max(1000, len(self.text) // 2):
            self._trim()

    def _evict_from(self, start: int, wanted: int) -> int:
        """Drop the longest strings whose last occurrence starts at a place; return how many."""
        stop = self._stop(start)
        parent = self.root
        for place in range(start, stop):
            child = parent.children.get(self.text[place - self.base])
            if child is None:
                break
            if (child if isinstance(child, int) else child.last) == place:
                freed = min(wanted, stop - place)
                self._cut(parent, place, stop - freed)
                if freed == stop - place:
                    self._oldest += 1
                return freed
            if isinstance(child, int):
                break
            parent = child
        self._oldest += 1
        return 0

    def _cut(self, parent: Node, place: int, stop: int) -> None:
        """Shorten the only windows that go through a place to those that end before `stop`."""
        start = self._oldest
        closed = start - self.base
        if closed < len(self.stops):
            self.stops[closed] = stop
        child: Child | None = parent
        for at in range(place, stop):
            assert isinstance(child, Node)
            child = child.children.get(self.text[at - self.base])
            if not isinstance(child, Node):
                return
        assert isinstance(child, Node)
        child = child.children.pop(self.text[stop - self.base])
        while isinstance(child, Node):
            child.last = _DEAD
            child = next(iter(child.children.values()), None)

    def _forget(self, tokens: int) -> None:
        """Drop all strings that were not touched in the text but its last part."""
        self.evictions += 1
        until = self.base + min(tokens, len(self.stops))
        while self._oldest < until:
            self.nodes -= self._evict_from(self._oldest, self.depth)
        self._trim()

    def _trim(self) -> None:
        gone = self._oldest - self.base
        del self.text[:gone]
        del self.stops[:gone]
        self.base = self._oldest
