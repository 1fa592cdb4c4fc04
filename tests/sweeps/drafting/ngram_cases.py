"""Streams for the n-gram drafter, and the orders by which SGLang's own corpus drafts for them."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from infra.emulated.text import Kind, TargetStream
from sweeps.drafting.draft_tree import DraftTree
from sweeps.drafting.ngram import NgramDrafter, NgramRequest, NgramShape

Order = dict[str, object]
_CORPUS_NAMES = ("a", "corpus-1", "12345678", "/data/a/path/that/is/long.jsonl", "über")


@dataclass(frozen=True, slots=True)
class Case:
    """One start of a server and the requests that it serves."""

    shape: NgramShape
    batch: int
    alphabet: int | Kind
    """Random ids below this, or text of a kind."""
    seed: int
    requests: int = 4
    tokens: int = 120
    flushes: bool = False
    corpora: int = 0


@dataclass(slots=True)
class Transcript:
    """Our draft trees by batch, and what makes SGLang draft the same."""

    orders: list[Order] = field(default_factory=list)
    trees: list[list[DraftTree]] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    """The case of each batch in `trees`."""

    @property
    def steps(self) -> int:
        """Verifies of all requests."""
        return sum(map(len, self.trees))

    def digest(self) -> str:
        """Return a digest of all trees."""
        lines = "\n".join(f"{t.tokens}{t.parents}" for trees in self.trees for t in trees)
        return hashlib.sha256(lines.encode()).hexdigest()[:16]


@dataclass(slots=True)
class _Running:
    name: str
    drafter: NgramRequest
    text: list[int]
    stream: list[int]
    done: int = 0

    def take(self, tokens: int) -> None:
        new = self.stream[self.done : self.done + tokens]
        self.done += tokens
        self.text += new
        self.drafter.commit(new)


def play(cases: Sequence[Case]) -> Transcript:
    """Serve all cases with our drafter."""
    transcript = Transcript()
    for case in cases:
        _Server(case, transcript).run()
    return transcript


class _Server:
    def __init__(self, case: Case, transcript: Transcript) -> None:
        self.case = case
        self.transcript = transcript
        self.rng = random.Random(case.seed)
        self.drafter = NgramDrafter(case.shape)
        self.opened = 0
        shape = case.shape
        self._order(
            "new",
            depth=shape.depth,
            min_breadth=shape.min_breadth,
            max_breadth=shape.max_breadth,
            draft_tokens=shape.draft_tokens,
            match_type="PROB" if shape.by_likelihood else "BFS",
            capacity_nodes=shape.capacity_nodes,
            sam_budget=shape.sam_budget,
        )

    def run(self) -> None:
        names = self.rng.sample(_CORPUS_NAMES, self.case.corpora)
        for name in names:
            documents = [self._stream(60) for _ in range(self.rng.randint(1, 3))]
            self.drafter.add_corpus(name, documents)
            self._order("add", name=name, documents=documents)
        self._serve(self.case.requests)
        if self.case.flushes:
            self.drafter.reset()
            self._order("flush")
            self._serve(2)
        if names:
            self.drafter.remove_corpus(names[0])
            self._order("remove", name=names[0])
            self._serve(1)

    def _serve(self, requests: int) -> None:
        waiting = requests
        running: list[_Running] = []
        while waiting or running:
            while waiting and len(running) < self.case.batch:
                if running and self.rng.random() < 0.7:
                    break
                running.append(self._open())
                waiting -= 1
            self._step(running)
            needed = self.case.shape.draft_tokens
            gone = [r for r in running if r.done + needed >= len(r.stream)]
            running = [r for r in running if r not in gone]
            if gone and running:  # SGLang notices when the next batch runs
                self._order("forget", requests=[r.name for r in gone])

    def _step(self, running: Sequence[_Running]) -> None:
        drafts = self.case.shape.draft_tokens - 1
        tails = [r.text[-self.case.shape.depth :] for r in running]
        totals = [len(r.text) for r in running]
        self._order("draft", requests=[r.name for r in running], tails=tails, totals=totals)
        trees = [r.drafter.tree() for r in running]
        self.transcript.trees.append(trees)
        self.transcript.cases.append(self.case)
        self._order("insert", tails=tails)
        matches = []
        for request, tree in zip(running, trees, strict=True):
            upcoming = request.stream[request.done : request.done + drafts]
            matches.append(tree.correct_drafts(upcoming))
            assert request.drafter.correct_drafts(upcoming) == matches[-1], self.case
        for request, matched in zip(running, matches, strict=True):
            request.take(matched + 1)

    def _open(self) -> _Running:
        self.opened += 1
        prompt = self._stream(self.rng.choice((1, 3, 7, 30)))
        stream = self._stream(self.case.tokens)
        drafter = self.drafter.open(prompt, 0)
        request = _Running(f"r{self.opened}", drafter, list(prompt), stream)
        request.take(1)
        return request

    def _stream(self, tokens: int) -> list[int]:
        alphabet = self.case.alphabet
        if isinstance(alphabet, Kind):
            return TargetStream(self.rng.randrange(10**9), alphabet).window(0, tokens)
        return [self.rng.randrange(alphabet) for _ in range(tokens)]

    def _order(self, do: str, **what: object) -> None:
        self.transcript.orders.append({"do": do, **what})


def random_cases(seed: int, kinds: Sequence[int | Kind], requests: int = 4) -> list[Case]:
    """List one case for each match type, breadth, depth and number of draft tokens."""
    rng = random.Random(seed)
    return [
        Case(
            NgramShape(
                draft_tokens=width,
                depth=depth,
                min_breadth=rng.choice((1, 1, min(2, breadth))),
                max_breadth=breadth,
                by_likelihood=by_likelihood,
                capacity_nodes=rng.choice(_capacities(depth)),
                sam_budget=rng.choice((0, 1, width // 2, width)),
            ),
            batch=rng.choice((1, 1, 2, 3)),
            alphabet=rng.choice(kinds),
            seed=rng.randrange(10**9),
            requests=requests,
            flushes=rng.random() < 0.3,
            corpora=rng.choice((0, 0, 1, 3)),
        )
        for by_likelihood, breadth, depth, width in _settings()
    ]


def _settings() -> Iterator[tuple[bool, int, int, int]]:
    for by_likelihood in (False, True):
        for breadth in (1, 2, 4, 10):
            for depth in (4, 6, 18):
                for width in (2, 4, 8, 16, 32):
                    yield by_likelihood, breadth, depth, width


def _capacities(depth: int) -> tuple[int, ...]:
    """Return capacities from one that a window fills to one that is never filled."""
    window = depth * (depth + 1) // 2
    return (60_000, 60_000, depth + 2, window + 5, 4 * window + 9, 8 * window + 7, 2_000)
