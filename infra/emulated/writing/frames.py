"""Sentences and statements with open slots, filled from tables of token ids."""

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain

from infra.emulated.writing.vocabulary import tokenize

Pieces = tuple[int, ...]
Frame = list[list[Pieces]]
"""One table a place; a table of one entry is a fixed text."""

_SLOT = re.compile(r"( ?\{\w+\})")


@dataclass(slots=True)
class Words:
    """Words as ids, each after a space and without one. Frames see what is put in later."""

    spaced: list[Pieces] = field(default_factory=list)
    bare: list[Pieces] = field(default_factory=list)

    @staticmethod
    def of(texts: Iterable[str]) -> "Words":
        """Make a table of texts."""
        made = Words()
        for text in texts:
            made.spaced.append(tuple(tokenize(f" {text}")))
            made.bare.append(tuple(tokenize(text)))
        return made

    def __len__(self) -> int:
        return len(self.spaced)

    def hold(self, source: "Words", places: Iterable[int]) -> None:
        """Replace what is in here by words of another table, counted on round its end."""
        places = [place % len(source) for place in places]
        self.spaced[:] = [source.spaced[place] for place in places]
        self.bare[:] = [source.bare[place] for place in places]

    def end_with(self, words: "Words", start: int, repeats: int) -> None:
        """Replace what is in here from a place on by other words, each several times."""
        self.spaced[start:] = words.spaced * repeats
        self.bare[start:] = words.bare * repeats

    def part(self, rng: random.Random, words: int, topic_words: int, topic_share: float) -> "Words":
        """Make a text's own table: so many words in a row, a few of them for a share of entries."""
        first = rng.randrange(len(self))
        repeats = round(topic_share / (1 - topic_share) * words / topic_words)
        places = [*range(first, first + words), *list(range(first, first + topic_words)) * repeats]
        made = Words()
        made.hold(self, places)
        return made


def frame(text: str, tables: Mapping[str, Words]) -> Frame:
    """Compile a text with `{slots}`; the space before a slot is part of the word that fills it."""
    return [
        (tables[part.name].spaced if part.spaced else tables[part.name].bare)
        if isinstance(part, _Slot)
        else [part]
        for part in _parsed(text)
    ]


@dataclass(frozen=True, slots=True)
class _Slot:
    name: str
    spaced: bool


@cache
def _parsed(text: str) -> tuple[_Slot | Pieces, ...]:
    texts = [part for part in _SLOT.split(text) if part]
    parts: list[_Slot | Pieces] = []
    for part, after in zip(texts, [*texts[1:], ""], strict=True):
        if _SLOT.fullmatch(part):
            parts.append(_Slot(part.strip(" {}"), part.startswith(" ")))
        else:
            parts.append(_fixed(part, spaced_after=after.startswith(" ")))
    return tuple(parts)


def _fixed(text: str, *, spaced_after: bool) -> Pieces:
    """Split a text as with a word behind it, which takes the last of a run of spaces."""
    return tuple(tokenize(f"{text} a")[:-1] if spaced_after else tokenize(text))


def fill(places: Frame, uniform: Callable[[], float]) -> list[Pieces]:
    """Choose an entry for each place."""
    return [table[int(uniform() * len(table))] for table in places]


def flat(parts: Iterable[Pieces]) -> list[int]:
    """Return the ids of the parts in a row."""
    return list(chain.from_iterable(parts))


class Turns:
    """Says yes to a share of the questions, more evenly spaced than by chance."""

    def __init__(self, uniform: Callable[[], float], share: float) -> None:
        self._uniform = uniform
        self._gap = 1 / share
        self._left = self._gap * uniform()

    def due(self) -> bool:
        """Answer the next question."""
        self._left -= 1
        if self._left > 0:
            return False
        self._left += self._gap * (0.5 + self._uniform())
        return True


class Memory:
    """What a text wrote lately, to come again with one word changed."""

    def __init__(self, uniform: Callable[[], float], entries: int) -> None:
        self._uniform = uniform
        self._entries = entries
        self._written: list[tuple[Frame, list[Pieces]]] = []

    def fresh(self, forms: Sequence[Frame]) -> list[Pieces]:
        """Fill one of the forms and keep it."""
        places = forms[int(self._uniform() * len(forms))]
        return self._kept(places, fill(places, self._uniform))

    def again(self, forms: Sequence[Frame], entries: int = 1) -> list[Pieces]:
        """Repeat what stood in a row somewhere; without anything to repeat, write afresh."""
        uniform, written = self._uniform, self._written
        first = int(uniform() * len(written))
        out: list[Pieces] = []
        for places, before in written[first : first + entries]:
            parts = before.copy()
            changed = int(uniform() * len(places))
            parts[changed] = places[changed][int(uniform() * len(places[changed]))]
            out += self._kept(places, parts)
        return out or self.fresh(forms)

    def _kept(self, places: Frame, parts: list[Pieces]) -> list[Pieces]:
        self._written.append((places, parts))
        if len(self._written) > 2 * self._entries:
            del self._written[: -self._entries]
        return parts
