"""The n-gram drafter: what SGLang's NGRAM worker inserts and matches when, over one shared trie.

Since 0.5.14 a verify's tokens enter the trie only after the next verify: what is inserted is the
tail that was drafted from (srt/speculative/ngram_worker.py, 0.5.23). A drafter that inserts them
at once accepts one to eight tokens too many per request.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweeps.drafting.draft_tree import (
    PAD_ID,
    BreadthSchedule,
    DraftTree,
    Growing,
    HashMapOrder,
    merged,
    written,
)
from sweeps.drafting.external_corpus import ExternalCorpus, name_hash
from sweeps.drafting.trie import Child, NgramTrie, Node, Writer
from sweeps.drafting.trie_drafts import trie_tree_by_likelihood, trie_tree_by_recency


@dataclass(frozen=True, slots=True)
class MatchWindow:
    """Shortest and longest match in tokens, as SGLang before 0.5.10 bounds it."""

    shortest: int
    longest: int


@dataclass(frozen=True, slots=True)
class NgramShape:
    """How an n-gram drafter drafts."""

    draft_tokens: int
    """Tokens of a draft tree, the root included."""
    depth: int = 18
    min_breadth: int = 1
    max_breadth: int = 10
    by_likelihood: bool = False
    """Match type PROB; BFS otherwise."""
    capacity_nodes: int = 10_000_000
    sam_budget: int = 0
    """Drafts that are kept for external corpora."""
    window: MatchWindow | None = None
    """Set for SGLang before 0.5.10, which matches no other lengths and takes what has no
    continuation for a match too."""
    inserts_behind: bool = True
    """Tokens enter the trie one verify after they were accepted (SGLang 0.5.14 and later)."""
    overlap: bool = True
    """A request that ends runs one step more unseen, and what it inserts is kept."""

    @property
    def schedule(self) -> BreadthSchedule:
        """The breadths of match type BFS."""
        spread = self.max_breadth - self.min_breadth
        if self.window is not None:
            top = self.window.longest
            return BreadthSchedule(top, self.min_breadth, spread / (top - self.window.shortest + 1))
        top = max(1, self.depth - 1)
        return BreadthSchedule(top, self.min_breadth, spread / top)


class NgramDrafter:
    """Drafts from the shared trie and from external corpora.

    The prompt enters by its last tokens only. In a batch, all requests of a step draft before
    the first of them commits.
    """

    def __init__(self, shape: NgramShape) -> None:
        self.shape = shape
        self.trie = NgramTrie(
            shape.depth,
            shape.capacity_nodes,
            skipped=shape.window.shortest if shape.window else 0,
            counts=shape.by_likelihood,
        )
        self._corpora: dict[str, ExternalCorpus] = {}
        self._corpus_order = HashMapOrder()

    def open(self, prompt: Sequence[int], key: int) -> "NgramRequest":
        """Start a request. Nothing is inserted before its first verify."""
        return NgramRequest(self, prompt)

    def reset(self) -> None:
        """Empty the trie; external corpora stay."""
        self.trie.clear()

    def add_corpus(self, name: str, documents: Sequence[Sequence[int]]) -> None:
        """Add an external corpus. Raises ValueError for a name in use and for no tokens."""
        if name in self._corpora:
            raise ValueError(f"external corpus {name!r} exists already")
        self._corpora[name] = ExternalCorpus(documents)
        self._corpus_order.add(name_hash(name))

    def remove_corpus(self, name: str) -> None:
        """Remove an external corpus, if it is there."""
        if self._corpora.pop(name, None):
            self._corpus_order.keys.remove(name_hash(name))

    def corpora(self) -> Mapping[str, int]:
        """Return the tokens of each external corpus, separators included."""
        return {name: corpus.tokens for name, corpus in self._corpora.items()}

    @property
    def corpus_budget(self) -> int:
        """Drafts that each external corpus may make."""
        if not self._corpora:
            return 0
        return min(self.shape.sam_budget, self.shape.draft_tokens - 1) // len(self._corpora)

    def corpus_trees(self, tail: Sequence[int]) -> Iterable[Growing]:
        """Draft from each external corpus."""
        shape, budget = self.shape, self.corpus_budget
        by_hash = {name_hash(name): corpus for name, corpus in self._corpora.items()}
        for corpus in map(by_hash.__getitem__, self._corpus_order.keys):
            if shape.by_likelihood:
                yield corpus.drafts_by_likelihood(tail, budget, shape.max_breadth)
            else:
                yield corpus.drafts_by_recency(tail, budget, shape.schedule)


class NgramRequest:
    """The drafts of one request."""

    def __init__(self, drafter: NgramDrafter, prompt: Sequence[int]) -> None:
        self._drafter = drafter
        self._trie = drafter.trie
        self._shape = shape = drafter.shape
        self._schedule = shape.schedule
        self._tail = list(prompt[-shape.depth :])
        self._total = len(prompt)
        self._writer = Writer()
        self._drafted = False
        self._path: list[Node] = []
        self._matched_total = 0
        self._epoch = 0  # no trie's: the first match looks everything up
        self._evictions = 0

    def correct_drafts(self, upcoming: Sequence[int]) -> int:
        """Draft; return how many drafts a verify accepts if the target writes `upcoming`."""
        if self._drafter.corpus_budget:
            return self.tree().correct_drafts(upcoming)
        self._drafted = True
        anchors = self._anchors()
        if upcoming and upcoming[0] != PAD_ID and not self._may_follow(upcoming[0]):
            return 0
        tree = self._grow(anchors, self._shape.draft_tokens - 1)
        position = 0
        for depth, token in enumerate(upcoming):
            after = tree[position].get(token)
            if after is None:
                padded = token == PAD_ID and not depth and len(tree) < self._shape.draft_tokens
                return depth + padded
            position = after
        return len(upcoming)

    def tree(self) -> DraftTree:
        """Draft, and return the whole tree as SGLang writes it."""
        self._drafted = True
        shape, tail = self._shape, self._tail
        budget = self._drafter.corpus_budget
        left = shape.draft_tokens - 1 - budget * len(self._drafter.corpora() if budget else ())
        tree = written(self._grow(self._anchors(), left), tail[-1], left + 1)
        if budget:
            for other in self._drafter.corpus_trees(tail):
                tree = merged(tree, written(other, tail[-1], budget + 1), shape.draft_tokens)
        return tree

    def commit(self, tokens: Sequence[int]) -> None:
        """Take in accepted tokens; after a draft, let the trie learn."""
        if self._drafted and self._shape.inserts_behind:
            self._insert()
        tail = self._tail
        tail += tokens
        del tail[: -self._shape.depth]
        self._total += len(tokens)
        if self._drafted and not self._shape.inserts_behind:
            self._insert()
        self._drafted = False

    def end(self, unseen: Sequence[int]) -> None:
        """Take in what overlap scheduling computes past the end: one step, and the tokens of the
        last verify that the request had no room for."""
        if self._shape.overlap and self._shape.inserts_behind:
            self.commit(unseen)
            self._insert()

    def _insert(self) -> None:
        self._trie.insert(self._tail, self._total, self._writer)

    def _anchors(self) -> Iterable[tuple[int, Child]]:
        """List the strings in the trie that end as the request does, with lengths, longest first.

        A string that entered the trie after it was looked up stays unknown until the request is
        past it: SGLang leads what it found on from step to step.
        """
        if self._shape.window is not None:
            return self._window_anchors(self._shape.window)
        trie, tail, path = self._trie, self._tail, self._path
        new = self._total - self._matched_total
        lost = self._evictions != trie.evictions and not trie.alive(path)
        if lost or self._epoch != trie.epoch or new > len(tail):
            path = trie.follow([], tail)
        else:
            path = trie.follow(path, tail[len(tail) - new :])
        self._path = path
        self._matched_total = self._total
        self._epoch, self._evictions = trie.epoch, trie.evictions
        return zip(range(len(path), 0, -1), reversed(path), strict=False)

    def _window_anchors(self, window: MatchWindow) -> list[tuple[int, Child]]:
        tail = self._tail
        found = []
        for length in range(min(len(tail), window.longest), window.shortest - 1, -1):
            at = self._trie.find(tail[len(tail) - length :])
            if at is not None:
                found.append((length, at))
        return found

    def _may_follow(self, token: int) -> bool:
        """Tell whether a token followed any of the anchors: then it followed the shortest."""
        if self._shape.window is not None:
            return True
        return bool(self._path) and token in self._path[0].children

    def _grow(self, anchors: Iterable[tuple[int, Child]], left: int) -> Growing:
        if self._shape.by_likelihood:
            return trie_tree_by_likelihood(self._trie, anchors, left, self._shape.max_breadth)
        return trie_tree_by_recency(self._trie, anchors, left, self._schedule)
