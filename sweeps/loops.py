"""Texts that got stuck: the loop in which a text ends, if it ends in one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_REPEATS = 4
"""Three equal lines happen in code and lists; four in a row to the very end hardly do."""

LEAST_PIECES = 48
"""A row of closing brackets or a ruler of dashes is no loop; a stuck model fills its limit."""

LEAST_SHARE = 0.2
"""Of the whole text, so that a table at the end of a long answer is none either."""

# Words are cut at 16 letters, so that a loop inside one endless word is found; scripts without
# spaces count by the letter. Numbers are equal, so that a loop with a counter is one.
_PIECE = re.compile(r"[A-Za-z_]{1,16}|\d+|\S")


@dataclass(frozen=True, slots=True)
class Loop:
    """The periodic end of a text, counted in pieces: words, numbers and signs."""

    period_pieces: int
    repeats: float
    share: float
    """Of the text that the loop fills."""

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {
            "period_pieces": self.period_pieces, "repeats": self.repeats, "share": self.share,
        }  # fmt: skip


def find_loop(text: str) -> Loop | None:
    """Return the longest loop in which a text ends; None where it ends in none."""
    pieces = ["0" if piece[0].isdigit() else piece for piece in _PIECE.findall(text)]
    del pieces[-1:]  # which may be half a word, where the limit of tokens cut it
    if len(pieces) < LEAST_PIECES:
        return None
    pieces.reverse()
    best_period, best_length = 0, 0
    for period, matched in enumerate(_matches_of_start(pieces)):
        length = period + matched
        if length > best_length and length >= LEAST_REPEATS * period > 0:
            best_period, best_length = period, length
    share = best_length / len(pieces)
    if best_length < LEAST_PIECES or share < LEAST_SHARE:
        return None
    return Loop(best_period, best_length / best_period, share)


def _matches_of_start(pieces: Sequence[str]) -> list[int]:
    """Return for each position how much of the start is repeated there (the Z function)."""
    n = len(pieces)
    matched = [0] * n
    left = right = 0
    for i in range(1, n):
        length = min(right - i, matched[i - left]) if i < right else 0
        while i + length < n and pieces[length] == pieces[i + length]:
            length += 1
        matched[i] = length
        if i + length > right:
            left, right = i, i + length
    return matched
