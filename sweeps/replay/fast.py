"""The fast core: recorded text numbered once for each depth, then replayed for any setting."""

from collections.abc import Sequence

import numpy as np

from sweeps.drafting.ngram import NgramShape
from sweeps.replay.kernel import Batch, Draft, Shape, Text, Trie, replay
from sweeps.replay.numbering import number_strings
from sweeps.replay.streams import Ints, Steps, Stream


class NumberedText:
    """Streams for one depth of trie: what all settings of this depth share."""

    def __init__(self, streams: Sequence[Stream], depth: int) -> None:
        starts, roots, limits = [0], [], []
        parts: list[Sequence[int]] = []
        for stream in streams:
            prompt = stream.prompt[-(depth - 1) :]
            parts += [prompt, stream.output, stream.beyond]
            roots.append(starts[-1] + len(prompt))
            limits.append(roots[-1] + len(stream.output))
            starts.append(limits[-1] + len(stream.beyond))
        text = np.concatenate([_ints(part) for part in parts])
        numbers, known, repeated, links = number_strings(text, _ints(starts), depth)
        self.depth = depth
        bounds = _ints(starts), _ints(roots), _ints(limits)
        self._text = Text(text, *bounds, numbers, known, repeated)
        self._links = links

    def can_replay(self, shape: NgramShape) -> bool:
        """Tell whether no room has to be made in the trie: the fast core evicts nothing."""
        return len(self._text.tokens) * shape.depth < shape.capacity_nodes

    def replay(self, shape: NgramShape, concurrency: int = 1) -> Steps:
        """Serve the streams in order, so many at a time, after a flush."""
        if shape.depth != self.depth:
            raise ValueError(f"the text is numbered for depth {self.depth}, not {shape.depth}")
        places = len(self._text.tokens)
        found = np.empty((places, 3), np.int32)
        steps = replay(
            self._text,
            _numbers(shape),
            self._trie(shape),
            _draft(shape),
            _batch(concurrency),
            found,
        )
        return Steps(*(np.ascontiguousarray(column) for column in found[:steps].T))

    def _trie(self, shape: NgramShape) -> Trie:
        rows = len(self._links) if shape.by_likelihood else 1
        counts, sizes, lasts = (np.zeros(rows, np.int32) for _ in range(3))
        stops = np.zeros(len(self._text.tokens), np.int32)
        return Trie(self._links.copy(), counts, sizes, lasts, stops)


def _ints(values: Sequence[int]) -> Ints:
    return np.asarray(values, dtype=np.int32)


def _numbers(shape: NgramShape) -> Shape:
    window, schedule = shape.window, shape.schedule
    return Shape(
        width=shape.draft_tokens,
        depth=shape.depth,
        breadth=shape.max_breadth,
        shortest=window.shortest if window else 0,
        longest=window.longest if window else 0,
        by_likelihood=shape.by_likelihood,
        behind=shape.inserts_behind,
        overlap=shape.overlap,
        top=schedule.top_length,
        least=schedule.least,
        step=float(schedule.step),
    )


def _draft(shape: NgramShape) -> Draft:
    room = shape.draft_tokens + 1
    heap = room * (shape.max_breadth + 1)
    return Draft(
        tree=np.empty((room, 4), np.int32),
        queue=np.empty((room, 3), np.int32),
        widths=np.empty(room, np.float64),
        heap=np.empty((heap, 4), np.int32),
        chances=np.empty(heap, np.float64),
    )


def _batch(concurrency: int) -> Batch:
    return Batch(*(np.zeros(concurrency, np.int32) for _ in Batch._fields))
