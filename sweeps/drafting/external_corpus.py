"""External corpora: text given by the operator, matched at any length and kept over flushes.

An automaton of all substrings, as SGLang 0.5.23's suffix_automaton.cpp builds it: a matched
string yields one anchor for each class of its suffixes that were seen in the same places.
"""

from collections.abc import Sequence

from sweeps.drafting.draft_tree import (
    BreadthSchedule,
    Growing,
    grow_by_likelihood,
    grow_by_recency,
)

SEPARATOR = -(2**31)
"""What stands between two documents; it is never drafted, but counts as a token."""


class _State:
    __slots__ = ("by_count", "by_recency", "count", "last", "length", "link", "next")

    def __init__(self, length: int, last: int) -> None:
        self.length = length
        self.link = -1
        self.next: dict[int, int] = {}
        self.count = 1
        self.last = last
        self.by_count: list[tuple[int, int]] | None = None
        self.by_recency: list[tuple[int, int]] | None = None


class ExternalCorpus:
    """One corpus, fixed once made."""

    def __init__(self, documents: Sequence[Sequence[int]]) -> None:
        self.tokens = 0
        """Tokens of all documents and one between each two."""
        self._states = [_State(0, -1)]
        self._states[0].count = 0
        self._end = 0
        for document in documents:
            if self.tokens and document:
                self._extend(SEPARATOR)
            for token in document:
                self._extend(token)
        if not self.tokens:
            raise ValueError("an external corpus needs at least one token")
        for state in sorted(self._states[1:], key=lambda s: -s.length):
            link = self._states[state.link]
            link.count += state.count
            link.last = max(link.last, state.last)

    def _extend(self, token: int) -> None:
        states = self._states
        new = len(states)
        states.append(_State(states[self._end].length + 1, self.tokens))
        self.tokens += 1
        at, self._end = self._end, new
        while at != -1 and token not in states[at].next:
            states[at].next[token] = new
            at = states[at].link
        if at == -1:
            states[new].link = 0
            return
        target = states[at].next[token]
        if states[at].length + 1 != states[target].length:
            target = self._clone(at, token, target)
        states[new].link = target

    def _clone(self, at: int, token: int, target: int) -> int:
        states = self._states
        clone = len(states)
        state = _State(states[at].length + 1, states[target].last)
        state.link = states[target].link
        state.next = dict(states[target].next)
        state.count = 0
        states.append(state)
        while at != -1 and states[at].next.get(token) == target:
            states[at].next[token] = clone
            at = states[at].link
        states[target].link = clone
        return clone

    def drafts_by_recency(
        self, tail: Sequence[int], left: int, schedule: BreadthSchedule
    ) -> Growing:
        """Grow a tree of at most `left` drafts by where a string was last followed how."""
        return grow_by_recency(self._anchors(tail), left, schedule, self._newest)

    def drafts_by_likelihood(self, tail: Sequence[int], left: int, breadth: int) -> Growing:
        """Grow a tree of at most `left` drafts by how often a string was followed how."""
        return grow_by_likelihood(self._anchors(tail), left, breadth, self._likeliest)

    def _anchors(self, tail: Sequence[int]) -> list[tuple[int, int]]:
        states = self._states
        at = length = 0
        for token in tail:
            while at and token not in states[at].next:
                at = states[at].link
                length = min(length, states[at].length)
            after = states[at].next.get(token)
            at, length = (0, 0) if after is None else (after, length + 1)
        found = []
        while at > 0 and length > 0:
            if any(token != SEPARATOR for token in states[at].next):
                found.append((length, at))
            at = states[at].link
            length = min(length, states[at].length)
        return found

    def _newest(self, at: int, length: int, breadth: int) -> list[tuple[int, int]]:
        state = self._states[at]
        if state.by_recency is None:
            state.by_recency = sorted(
                ((t, s) for t, s in state.next.items() if t != SEPARATOR),
                key=lambda c: (-self._states[c[1]].last, c[0]),
            )
        return state.by_recency[:breadth]

    def _likeliest(self, at: int, length: int, breadth: int) -> list[tuple[int, int, int]]:
        state = self._states[at]
        if state.by_count is None:
            state.by_count = sorted(
                ((t, s) for t, s in state.next.items() if t != SEPARATOR),
                key=lambda c: (-self._states[c[1]].count, c[0]),
            )
        return [(t, s, self._states[s].count) for t, s in state.by_count[:breadth]]


def name_hash(name: str) -> int:
    """Return the number by which GNU's std::unordered_map files a text (MurmurHash64A)."""
    data = name.encode()
    mask, prime = 2**64 - 1, 0xC6A4A7935BD1E995
    state = 0xC70F6907 ^ (len(data) * prime & mask)
    whole = len(data) & ~7
    for start in range(0, whole, 8):
        part = int.from_bytes(data[start : start + 8], "little") * prime & mask
        state = (state ^ ((part ^ part >> 47) * prime & mask)) * prime & mask
    if data[whole:]:
        state = (state ^ int.from_bytes(data[whole:], "little")) * prime & mask
    state = (state ^ state >> 47) * prime & mask
    return state ^ state >> 47
