"""The text that the emulated model writes: an endless stream of word pieces, fixed by the prompt.

Two kinds, with the repetition that an n-gram drafter lives on: prose that thinks aloud (stock
phrases, restatements with one word changed) and program code (a small grammar, few identifiers).
"""

import hashlib
import random
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import accumulate

PAD_ID = 0
"""What SGLang hangs into unused draft slots; no text contains it."""


def _split(text: str, mark: str = " ") -> list[str]:
    return text.split(mark)


_CONSONANTS = _split("b c d f g h k l m n p r s t v w st tr pl gr sh ch")
_VOWELS = _split("a e i o u ea ou ai")
_ENDS = _split("n r l t s m nd nt ck x")
_SYLLABLES = [c + v for c in _CONSONANTS for v in _VOWELS]
_CLOSED = [c + v + e for c in _CONSONANTS for v in _VOWELS for e in _ENDS]
_FUNCTION_WORDS = _split(
    "the a of to in is it that so we let me need check this if then but and for now wait maybe "
    "which means can be seen from above first next hold on given what follows put another way "
    "as before same with by at least one more case here does not change answer sure yet"
)
_MARKS = [".", ",", "\n\n", ":", "?"]
_CODE_TEXTS = _split(
    "def|(|):\n|) ->|   |       |           | return| =| +=| ==| <|.|,|)|[|]|\n|\n\n|for| in|:\n|"
    " range|(len|if| not|while| None| True| False| 0| 1| 2| else|:|append|items|get|self|(self|"
    'get(|class| +| -| *|import|from| is|raise| ValueError|("|")|try|except|with| as|print',
    "|",
)


class Kind(StrEnum):
    """How a text reads."""

    THINK = "think"
    CODE = "code"


class _Vocabulary:
    """Pieces by id; a word that starts with a space begins a word."""

    def __init__(self) -> None:
        self.pieces = ["<pad>"]
        self.ids: dict[str, int] = {}
        for piece in _MARKS + [f" {word}" for word in _FUNCTION_WORDS] + _CODE_TEXTS:
            self.add(piece)
        self.first_content = len(self.pieces)
        for stem in _SYLLABLES + _CLOSED:
            self.add(f" {stem}")
        self.first_ending = len(self.pieces)
        for stem in _CLOSED:
            self.add(stem)

    def add(self, piece: str) -> None:
        if piece not in self.ids:
            self.ids[piece] = len(self.pieces)
            self.pieces.append(piece)

    def words(self, count: int, seed: int) -> list[tuple[int, ...]]:
        """Make content words of one to three pieces."""
        rng = random.Random(seed)
        starts = range(self.first_content, self.first_ending)
        ends = range(self.first_ending, len(self.pieces))
        return [
            (rng.choice(starts), *rng.choices(ends, k=rng.choices((0, 1, 2), (55, 33, 12))[0]))
            for _ in range(count)
        ]


_VOCABULARY = _Vocabulary()
_WORDS = _VOCABULARY.words(6000, 11)
_WORD_WEIGHTS = list(accumulate(1 / (rank + 130) for rank in range(len(_WORDS))))
_RESTATE_MEMORY = 60


def _ids(text: str) -> tuple[int, ...]:
    return tuple(_VOCABULARY.ids[f" {word}"] for word in text.split())


_STOCK = tuple(
    map(
        _ids,
        (
            "wait let me check this",
            "so we need to",
            "hold on",
            "let me put it another way",
            "given that",
            "which means that",
            "as can be seen from the above",
            "in this case",
            "now for the next one",
            "but this does not change the answer",
            "so it follows that",
            "maybe we can check that first",
            "what is the answer if",
            "at least one of the",
            "the same as before",
            "let me be sure",
        ),
    )
)


def render(token: int) -> str:
    """Return the text of one token; ids that the model never writes read as a byte mark."""
    pieces = _VOCABULARY.pieces
    return pieces[token] if 0 <= token < len(pieces) else "\ufffd"


def render_all(tokens: Iterable[int]) -> str:
    """Return the text of several tokens."""
    return "".join(map(render, tokens))


def tokenize(text: str) -> list[int]:
    """Split a prompt into ids: pieces that the model writes keep theirs, others get a hash."""
    known = _VOCABULARY.ids
    size = len(_VOCABULARY.pieces)
    return [
        known.get(piece)
        or size + int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=4).digest())
        for piece in re.findall(r"\s?\w{1,6}|\w{1,6}|[^\w\s]|\s", text)
    ]


def kind_of(prompt: str) -> Kind:
    """Tell from a prompt's look what the model would answer with."""
    looks_like_code = "`" in prompt or re.search(
        r"\b(code|function|python|class|def|script|program|implement|refactor|bug|sql)\b",
        prompt,
        re.IGNORECASE,
    )
    return Kind.CODE if looks_like_code else Kind.THINK


def seed_of(prompt: str | Sequence[int]) -> int:
    """Return the number that a prompt fixes; two prompts that differ give unrelated texts."""
    raw = prompt if isinstance(prompt, str) else ",".join(map(str, prompt))
    return int.from_bytes(hashlib.sha256(raw.encode()).digest()[:8])


class TargetStream:
    """What the model writes for one prompt, made as far as it is asked for. Not thread safe."""

    def __init__(self, seed: int, kind: Kind = Kind.THINK) -> None:
        self.ids: list[int] = []
        self._writer: _Prose | _Code = (
            _Prose(random.Random(seed)) if kind is Kind.THINK else _Code(random.Random(seed))
        )

    def ensure(self, tokens: int) -> None:
        """Make at least this many tokens available in `ids`."""
        while len(self.ids) < tokens:
            self.ids.extend(self._writer.more())

    def window(self, start: int, tokens: int) -> list[int]:
        """Return `tokens` ids from a position on."""
        self.ensure(start + tokens)
        return self.ids[start : start + tokens]


class _Prose:
    """Sentences of random content words; a part of them returns with one word changed."""

    restate_share = 0.15
    stock_share = 0.25

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._said: list[list[tuple[int, ...]]] = []

    def more(self) -> list[int]:
        """Write one sentence."""
        rng = self._rng
        if self._said and rng.random() < self.restate_share:
            sentence = list(rng.choice(self._said))
            sentence[rng.randrange(len(sentence))] = self._content(1)[0]
        else:
            sentence = self._new_sentence()
        self._said.append(sentence)
        del self._said[:-_RESTATE_MEMORY]
        return [token for word in sentence for token in word] + [_STOP]

    def _new_sentence(self) -> list[tuple[int, ...]]:
        sentence: list[tuple[int, ...]] = []
        for word in self._content(self._rng.randint(6, 14)):
            if self._rng.random() < self.stock_share / 6:
                sentence.append(self._rng.choice(_STOCK))
            sentence.append(word)
        return sentence

    def _content(self, count: int) -> list[tuple[int, ...]]:
        return self._rng.choices(_WORDS, cum_weights=_WORD_WEIGHTS, k=count)


_STOP = _VOCABULARY.ids["."]


class _Code:
    """Functions over a handful of identifiers of the prompt's own."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names = rng.choices(_WORDS, k=80)
        self._locals: list[tuple[int, ...]] = []
        self._functions: list[tuple[int, ...]] = rng.choices(_WORDS, k=6)

    def more(self) -> list[int]:
        """Write one function."""
        rng = self._rng
        name = rng.choice(_WORDS)
        self._functions = [*self._functions[-11:], name]
        self._locals = rng.sample(self._names, k=rng.randint(3, 6))
        out = _code("def") + list(name) + _code("(")
        for number, argument in enumerate(self._locals[:2]):
            out += (_code(",") if number else []) + list(argument)
        out += _code("):\n")
        for _ in range(rng.randint(3, 9)):
            out += self._statement("   ")
        return out + _code("   ", " return") + self._expression() + _code("\n\n")

    def _statement(self, indent: str) -> list[int]:
        rng = self._rng
        choice = rng.random()
        if choice < 0.40 or len(indent) > 8:
            return _code(indent) + self._name() + _code(" =") + self._expression() + _code("\n")
        if choice < 0.55:
            return _code(indent) + self._call() + _code("\n")
        if choice < 0.70:
            head = _code(indent, " if") + self._name() + _code(rng.choice((" ==", " <", " is")))
            head += self._operand() + _code(":\n")
        elif choice < 0.86:
            head = _code(indent, " for") + self._name() + _code(" in")
            head += self._name() + _code(":\n")
        else:
            return (
                _code(indent)
                + self._name()
                + _code(".", "append", "(")
                + self._name()
                + _code(")", "\n")
            )
        inner = indent + "    "
        return head + [t for _ in range(rng.randint(1, 2)) for t in self._statement(inner)]

    def _expression(self) -> list[int]:
        choice = self._rng.random()
        if choice < 0.35:
            return self._operand()
        if choice < 0.65:
            return self._operand() + _code(self._rng.choice((" +", " -", " *"))) + self._operand()
        if choice < 0.85:
            return self._call()
        return self._name() + _code("[") + self._operand() + _code("]")

    def _call(self) -> list[int]:
        out = list(self._rng.choice(self._functions)) + _code("(") + self._name()
        if self._rng.random() < 0.5:
            out += _code(",") + self._operand()
        return out + _code(")")

    def _operand(self) -> list[int]:
        if self._rng.random() < 0.25:
            return _code(self._rng.choice((" 0", " 1", " 2", " None", " True")))
        return self._name()

    def _name(self) -> list[int]:
        if self._rng.random() < 0.35:
            return list(self._rng.choice(_WORDS))
        return list(self._rng.choice(self._locals))


def _code(*pieces: str) -> list[int]:
    ids = _VOCABULARY.ids
    return [ids[piece] for piece in pieces]
