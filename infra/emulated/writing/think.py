"""Writes text that thinks aloud: stock phrases, and sentences that return with one word changed."""

import random

from infra.emulated.writing.frames import Memory, Turns, Words, flat, frame
from infra.emulated.writing.vocabulary import tokenize
from infra.emulated.writing.words import ANY_NUMBERS, SHORT_ADJECTIVES, SHORT_NOUNS, SHORT_VERBS

_STOCK = Words.of(
    (
        "Wait, let me check this again:",
        "So we need to see whether",
        "Hold on,",
        "Let me put it another way:",
        "Given all of that,",
        "Which means that",
        "As said above,",
        "In this case",
        "Now for the next part,",
        "But that does not change the answer, because",
        "So it follows that",
        "Maybe it helps to look at it from the other side:",
        "What would it take to show that",
        "At the very least,",
        "It is the same as before:",
        "Let me make sure that",
    )
)
_OPENERS = Words.of(
    (
        "So", "But", "Then", "Now", "Also", "If", "Since", "Because", "And", "Perhaps",
        "Suppose that", "Next,", "Still,", "Hmm,", "First,", "Second,", "Alternatively,", "Yes,",
        "No,", "Actually,", "Or", "When", "While", "Here", "Clearly,", "Note that", "Otherwise,",
        "OK,", "Again,", "Finally,", "Even if", "Although", "Say that", "Could it be that",
        "Usually", "By contrast,",
    )
)  # fmt: skip
_BODIES = (
    " the {n} {v} {n} {n} and {v} {a} {n}, {n} and {a} {n} {n}.",
    " {a} {n} {v} the {n} {n} with {n}, and {n} {n} {v} {n}.",
    " we {v} {n} and {n} by {n}, not {a} {n} or {n} {n}.",
    " {n} {v} {n}, {n} {v} {a} {n}, and {n} {v} {n} {n}.",
    " {n} is {a}, so {n} {n} {v} {a} {n} and {n}.",
    " {n} of {n} {v} {a} {n} {n} or {n} {n}, at {number} {n}.",
    " {n} {v} {number} {n} per {n} and {a} {n} {n} {v} {n}.",
    " if {n} {v} {n}, {a} {n} {v} {n} {n} or {a} {n}.",
)
_BREAK = tuple(tokenize("\n\n"))


class ThinkWriter:
    """One train of thought, with habits of its own."""

    restate_share = 0.128
    """How many of the sentences say again what was said, with one word changed."""
    stock_share = 0.2
    """How many sentences open with a stock phrase."""
    stock_phrases = 2
    openers = 4
    paragraph_share = 0.2
    memory_sentences = 60

    def __init__(self, rng: random.Random) -> None:
        self._uniform = rng.random
        tables = {"n": SHORT_NOUNS, "v": SHORT_VERBS, "a": SHORT_ADJECTIVES}
        tables["number"] = ANY_NUMBERS
        self._bodies = [frame(text, tables) for text in _BODIES]
        self._stock, self._openers = Words(), Words()
        self._stock.hold(_STOCK, rng.sample(range(len(_STOCK)), self.stock_phrases))
        self._openers.hold(_OPENERS, rng.sample(range(len(_OPENERS)), self.openers))
        self._restates = Turns(rng.random, self.restate_share)
        self._memory = Memory(rng.random, self.memory_sentences)
        self._bare = True

    def more(self) -> list[int]:
        """Write one sentence."""
        uniform = self._uniform
        said = self._memory.again if self._restates.due() else self._memory.fresh
        body = said(self._bodies)
        openers = self._stock if uniform() < self.stock_share else self._openers
        forms = openers.bare if self._bare else openers.spaced
        parts = [forms[int(uniform() * len(forms))], *body]
        self._bare = uniform() < self.paragraph_share
        if self._bare:
            parts.append(_BREAK)
        return flat(parts)
