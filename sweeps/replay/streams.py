"""Recorded output: streams of token ids in the order in which they were served."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stream:
    """One request: what was asked and what the target wrote."""

    prompt: Sequence[int]
    """Its last tokens suffice: a drafter sees no more of it than its depth."""
    output: Sequence[int]
    beyond: Sequence[int] = ()
    """What the target would have written next, where that is known."""
    part: str = ""
    """The phase of the trial that recorded it."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The verify steps of a replay, in their order in time."""

    stream: Ints
    """Which stream each was for, by its place in the list that was replayed."""
    tokens: Ints
    """How many tokens each committed: accepted drafts and the one after them."""
    correct: Ints
    """How many drafts each accepted, those beyond the request's last token included."""

    def __len__(self) -> int:
        return len(self.stream)


def steps_of(rows: Iterable[tuple[int, int, int]]) -> Steps:
    """Make steps of triples of stream, tokens and correct drafts."""
    table = np.array(list(rows), dtype=np.int32).reshape(-1, 3)
    return Steps(*(np.ascontiguousarray(column) for column in table.T))
