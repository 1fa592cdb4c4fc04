"""Replay in plain Python, by the drafter of the emulated host: what the fast core is held against.

It knows everything that the drafter knows: small capacities and external corpora too.
"""

from collections.abc import Iterator, Sequence

from sweeps.drafting.ngram import NgramDrafter, NgramRequest, NgramShape
from sweeps.replay.streams import Steps, Stream, steps_of


def replay_by_drafter(
    streams: Sequence[Stream],
    shape: NgramShape,
    *,
    concurrency: int = 1,
    corpora: Sequence[Sequence[Sequence[int]]] = (),
) -> Steps:
    """Serve the streams in order, so many at a time, after a flush.

    `corpora` are external ones: documents of token ids each.
    """
    drafter = NgramDrafter(shape)
    for number, documents in enumerate(corpora):
        drafter.add_corpus(f"corpus-{number}", documents)
    return steps_of(_served(streams, drafter, concurrency))


class _Running:
    """A request in the batch."""

    def __init__(self, number: int, stream: Stream, drafter: NgramDrafter) -> None:
        self.number = number
        self.drafts = drafter.shape.draft_tokens - 1
        self.target = [*stream.output, *stream.beyond]
        self.limit = len(stream.output)
        self.done = 1
        self.matched = 0
        self.request: NgramRequest = drafter.open(stream.prompt, number)
        self.request.commit(self.target[:1])

    def draft(self) -> None:
        upcoming = self.target[self.done : self.done + self.drafts]
        self.matched = self.request.correct_drafts(upcoming)

    def commit(self) -> tuple[int, int, int]:
        left = self.limit - self.done
        taken = min(self.matched + 1, left)
        self.request.commit(self.target[self.done : self.done + taken])
        # SGLang knows beforehand of an end that one token brings, and computes no step past it.
        if self.matched >= left - 1 > 0:
            self.request.end(self.target[self.limit : self.done + self.matched + 1])
        self.done += taken
        return self.number, taken, self.matched


def _served(
    streams: Sequence[Stream], drafter: NgramDrafter, concurrency: int
) -> Iterator[tuple[int, int, int]]:
    waiting = iter([(n, s) for n, s in enumerate(streams) if len(s.output) > 1])
    running: list[_Running] = []
    while True:
        while len(running) < concurrency and (following := next(waiting, None)):
            running.append(_Running(*following, drafter))
        if not running:
            return
        for request in running:
            request.draft()
        for request in running:
            yield request.commit()
        running = [r for r in running if r.done < r.limit]
