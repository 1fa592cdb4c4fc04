"""Replays many settings over the same streams, each once, by the core that answers sooner."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from sweeps.drafting.ngram import NgramShape
from sweeps.replay.reference import replay_by_drafter
from sweeps.replay.streams import Steps, Stream
from sweeps.values import digest

if TYPE_CHECKING:  # it takes seconds to import
    from sweeps.replay.fast import NumberedText

SLOW_TOKENS = 30_000
"""So many tokens are sooner replayed by the reference than the fast core is loaded (2 s)."""

Documents = Sequence[Sequence[int]]


class Replayer:
    """The streams of a recording at one concurrency, after a flush. One thread at a time."""

    def __init__(
        self, streams: Sequence[Stream], *, concurrency: int = 1, corpora: Sequence[Documents] = ()
    ) -> None:
        self.streams = tuple(streams)
        self._concurrency = concurrency
        self._corpora = tuple(corpora)
        self._tokens = sum(len(stream.output) for stream in streams)
        self._slow_tokens = 0
        self._numbered: dict[int, NumberedText] = {}
        self._found: dict[NgramShape, Steps] = {}

    @property
    def digest(self) -> str:
        """Return the hash of the streams, of how many run at a time, and of the corpora."""
        told = [(list(s.prompt), list(s.output), list(s.beyond)) for s in self.streams]
        return digest([repr(told), self._concurrency, repr(self._corpora)])

    @property
    def has_corpora(self) -> bool:
        """Tell whether external corpora are replayed too."""
        return bool(self._corpora)

    @property
    def kept(self) -> int:
        """Return of how many settings the steps are kept."""
        return len(self._found)

    def steps(self, shape: NgramShape) -> Steps:
        """Return the verify steps of all streams with a setting."""
        return self.all_steps([shape])[0]

    def all_steps(self, shapes: Sequence[NgramShape]) -> list[Steps]:
        """Return the verify steps of each setting, replayed on all cores of the machine."""
        missing = [s for s in dict.fromkeys(shapes) if s not in self._found]
        fast = [s for s in missing if not (self._corpora and s.sam_budget)]
        if self._slow_tokens + self._tokens * len(fast) <= SLOW_TOKENS:
            fast = []
        fast = [s for s in fast if self._text_of(s).can_replay(s)]
        for shape in missing:
            if shape not in fast:
                self._found[shape] = self._by_drafter(shape)
        self._found |= self._by_kernel(fast)
        return [self._found[shape] for shape in shapes]

    def forget(self) -> None:
        """Drop the steps that are kept."""
        self._found = {}

    def _by_drafter(self, shape: NgramShape) -> Steps:
        self._slow_tokens += self._tokens
        return replay_by_drafter(
            self.streams, shape, concurrency=self._concurrency, corpora=self._corpora
        )

    def _by_kernel(self, shapes: Sequence[NgramShape]) -> Iterable[tuple[NgramShape, Steps]]:
        def replayed(shape: NgramShape) -> tuple[NgramShape, Steps]:
            return shape, self._text_of(shape).replay(shape, self._concurrency)

        if len(shapes) < 2:
            return map(replayed, shapes)
        first = replayed(shapes[0])  # compiles, where nobody has yet
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return [first, *pool.map(replayed, shapes[1:])]

    def _text_of(self, shape: NgramShape) -> "NumberedText":
        numbered = self._numbered.get(shape.depth)
        if numbered is None:
            from sweeps.replay.fast import NumberedText

            numbered = self._numbered[shape.depth] = NumberedText(self.streams, shape.depth)
        return numbered
