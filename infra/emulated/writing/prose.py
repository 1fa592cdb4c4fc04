"""Writes text like a manual: headings, paragraphs and lists about a few recurring terms."""

import random

from infra.emulated.writing.frames import Frame, Memory, Turns, Words, fill, flat, frame
from infra.emulated.writing.vocabulary import tokenize
from infra.emulated.writing.words import ADJECTIVES, NOUNS, NUMBERS, THIRD_VERBS, VERBS

_HEADINGS = (
    "## {a} {n} {n}\n\n",
    "## How to {v} the {term}\n\n",
    "## The {n} of the {term}\n\n",
    "### {n} and {n}\n\n",
)
_SENTENCES = (
    "The {term} {vs} {the} {n} {of} {the} {n} and {vs} {a} {n}.",
    "Each {n} {vs} {the} {a} {n} {of} {the} {term}.",
    "If {the} {n} is {a}, {v} {the} {term} before {the} {n} {vs}.",
    "A {term} with {number} {n} {vs} {a} {n}.",
    "To {v} {the} {n}, {v} {the} {a} {n} or {the} {term}.",
    "It {vs} {n} by {n}, so that {the} {term} is {a}.",
    "{number} {n} are enough {of} {the} {a} {n}.",
    "Most {n} {v} {the} {n} {of} {the} {a} {n}, not {of} {the} {term}.",
    "See {the} {n} on {the} {n} {of} {the} {term}.",
    "The {n} {can} not {v} more than {number} {n}.",
    "When a {n} {vs}, {the} {term} {can} {v} {the} {n}.",
    "Only {the} {a} {n} {vs} this {n}.",
    "By default, {the} {n} {vs} every {n} {of} {the} {n}.",
    "Do not {v} {the} {term} while {the} {n} {vs}.",
    "There are {number} {a} {n} {of} {the} {n}.",
    "This {vs} {the} {n}, which is {a} in {n}.",
    "Some {n} {of} {the} {term} {v} {a} {n}.",
    "Unlike {the} {n}, a {term} has {a} {n} and {n}.",
    "The {a} {n} and {the} {a} {n} {v} {the} {term}.",
    "Note that {n} and {n} are {a} here.",
    "For {a} {n}, {the} {n} {vs} {number} {n} later.",
    "What {the} {term} {vs} depends on {the} {n}.",
    "Any {n} {can} {v} {n}, {n} and {n}.",
    "After {number} {n} {the} {n} {vs} to {the} {term}.",
    "Where {the} {n} {vs}, {a} {n} {v} {the} {term}.",
    "Without {the} {n}, {the} {term} {vs} {n} {of} {n}.",
    "Every {number} {n}, {v} {the} {a} {n}.",
    "Such {n} {v} {n} {of} {n}, or {a} {n}.",
    "Here {the} {n} is {a} and {the} {n} is {a}.",
    "Until {the} {term} {vs}, {n} and {n} {v} {n}.",
    "Both {n} and {n} {vs} {the} {a} {term}.",
    "In {the} {n}, {v} {number} {n} {of} {the} {term}.",
)
_ARTICLES = Words.of([*["the"] * 3, *["a"] * 2, "each", "this", "every", "its", "one", "no", "any"])
_PREPOSITIONS = Words.of(
    ["of", "of", "in", "with", "for", "from", "by", "at", "under", "over", "between"]
)
_MODALS = Words.of(["can", "may", "must", "should", "will", "does"])
_ITEMS = (
    "- {term}: {vs} {the} {a} {n} {of} {the} {n}",
    "- {term}: {number} {n}, {a}",
    "- {v} {the} {n} until {the} {n} {vs}",
    "- {the} {a} {n} {of} {the} {term}",
    "- {n} ({a}): {v} it {of} {the} {n}",
    "- {the} {n}, if {a}",
)
_BREAK = tokenize("\n\n")
_LINE_END = tokenize("\n")


class ProseWriter:
    """One document."""

    restate_share = 0.187
    """How many of the sentences are an earlier one with a word changed."""
    topic_share = 0.1
    """How many of the content words come from the document's own few."""
    topic_words = 14
    known_words = 180
    terms = 14
    memory_sentences = 40
    restated_sentences = 4

    def __init__(self, rng: random.Random) -> None:
        self._uniform = rng.random
        mix = self.known_words, self.topic_words, self.topic_share
        tables = {"n": NOUNS.part(rng, *mix), "a": ADJECTIVES.part(rng, *mix)}
        tables |= {"v": VERBS.part(rng, *mix), "vs": THIRD_VERBS.part(rng, *mix)}
        tables |= {"the": _ARTICLES, "of": _PREPOSITIONS, "can": _MODALS}
        tables["term"] = _two_words(rng, self.terms)
        tables["number"] = NUMBERS
        self._headings = [frame(text, tables) for text in _HEADINGS]
        self._first = [frame(text, tables) for text in _SENTENCES]
        self._further = [frame(f" {text}", tables) for text in _SENTENCES]
        self._items = [frame(text, tables) for text in rng.sample(_ITEMS, 3)]
        self._restates = Turns(rng.random, self.restate_share)
        self._memory = Memory(rng.random, self.memory_sentences)
        self._started = False

    def more(self) -> list[int]:
        """Write one block."""
        uniform, memory = self._uniform, self._memory
        kind = uniform()
        if kind < 0.15 or not self._started:
            self._started = True
            return self._one_of(self._headings)
        if kind < 0.35:
            out = self._one_of(self._items)
            for _ in range(2 + int(4 * uniform())):
                out += _LINE_END
                out += self._one_of(self._items)
            return out + _BREAK
        out = self._one_of(self._first)
        for _ in range(1 + int(4 * uniform())):
            if self._restates.due():
                out += flat(
                    memory.again(self._further, 1 + int(self.restated_sentences * uniform()))
                )
            else:
                out += flat(memory.fresh(self._further))
        return out + _BREAK

    def _one_of(self, forms: list[Frame]) -> list[int]:
        uniform = self._uniform
        return flat(fill(forms[int(uniform() * len(forms))], uniform))


def _two_words(rng: random.Random, count: int) -> Words:
    made = Words()
    for _ in range(count):
        first, second = rng.randrange(len(NOUNS)), rng.randrange(len(NOUNS))
        made.spaced.append(NOUNS.spaced[first] + NOUNS.spaced[second])
        made.bare.append(NOUNS.bare[first] + NOUNS.spaced[second])
    return made
