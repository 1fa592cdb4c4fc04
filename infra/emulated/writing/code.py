"""Writes text like a program: functions over a module's few names."""

import random
from collections.abc import Sequence

from infra.emulated.writing.frames import Frame, Memory, Turns, Words, fill, flat, frame
from infra.emulated.writing.vocabulary import tokenize
from infra.emulated.writing.words import ADJECTIVE_TEXTS, NOUN_TEXTS, NUMBERS, THIRD_VERBS, VERBS

_HEADS = (
    "def {new}({l}):",
    "def {new}({l}, {l}):",
    "def {new}({l}, {l}, {l}=None):",
    'def {new}({l}, {l}):\n    """The {word} {does} a {word} {word}."""',
    'def {new}({l}):\n    """It {does} the {word} {word}."""',
)
_STATEMENTS = (
    "{l} = {x}",
    "{l} = {x}.{k}",
    "{l} = {f}({x})",
    "{l} = {f}({l}, {x})",
    "{l} = {x}[{l}]",
    "{l} = {x} + {l}",
    "{l} = {l} * {number}",
    "{l} = len({x})",
    "{l} = {x}.get({l}, {number})",
    "{l} += {x}",
    "{l} = [{x} for {l} in {x}]",
    "{l}.append({x})",
    "{x}.{k} = {l}",
    "{f}({l}, {x})",
    "{x}[{l}] = {x}",
)
_COMMENTS = (
    "# {word} {word} {does} {word}",
    "# {does} {word} of {word}",
    "# {word}: {word} {word}",
)
_OPENERS = (
    "if {x} is None:",
    "if {l} == {x}:",
    "if not {x}:",
    "if {x} < {number}:",
    "if {l} in {x}:",
    "for {l} in {x}:",
    "for {l} in range({x}):",
    "for {l}, {x} in {x}.items():",
    "while {x} > {number}:",
)
_RETURNS = ("return {l}", "return {x}", "return {f}({l})", "return {l} + {x}", "return True")
_LEAVES = (*_RETURNS, "continue", 'raise ValueError("{word} {word}")')
_BLANK = tokenize("\n\n\n")


def _shuffled_names() -> Words:
    pairs = zip(ADJECTIVE_TEXTS, NOUN_TEXTS[::2], strict=False)
    texts = [*NOUN_TEXTS, *(f"{adjective}_{noun}" for adjective, noun in pairs)]
    random.Random(1).shuffle(texts)
    return Words.of(texts)


_NAMES = _shuffled_names()
_TAILS = [tuple(tokenize(f"_{noun}")) for noun in NOUN_TEXTS]
_WORDS = Words.of((*NOUN_TEXTS, *ADJECTIVE_TEXTS))


class CodeWriter:
    """One module."""

    echo_share = 0.1
    """How many statements begin a copy of earlier ones, each with one part changed."""
    local_share = 0.4
    """How many operands are names of the function, not any of the module's."""
    module_names = 500
    local_names = 5
    copied_lines = 7
    statement_forms = 10
    opener_forms = 6
    known_functions = 12
    memory_lines = 40

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._uniform = rng.random
        first = rng.randrange(len(_NAMES))
        self._module = range(first, first + self.module_names)
        self._tables = {"word": _WORDS, "does": THIRD_VERBS, "number": NUMBERS}
        for name in ("l", "x", "k", "f", "new"):
            self._tables[name] = Words()
        self._tables["k"].hold(_NAMES, rng.sample(self._module, 12))
        self._tables["x"].hold(_NAMES, self._module)
        share = self.local_share / (1 - self.local_share)
        self._repeats = int(share * self.module_names / self.local_names)
        for _ in range(5):
            self._name_function()
        self._heads = self._frames(rng.sample(_HEADS, 3), "")
        statements = [*rng.sample(_STATEMENTS, self.statement_forms), *rng.sample(_COMMENTS, 1)]
        self._statements = self._frames(statements, _indent(1))
        self._nested = self._frames(statements, _indent(2))
        self._openers = self._frames(rng.sample(_OPENERS, self.opener_forms), _indent(1))
        self._leaves = self._frames(_LEAVES, _indent(2))
        self._returns = self._frames(_RETURNS, _indent(1))
        self._copies = Turns(rng.random, self.echo_share)
        self._memory = Memory(rng.random, self.memory_lines)

    def more(self) -> list[int]:
        """Write one function."""
        uniform = self._uniform
        self._name_locals()
        self._name_function()
        out = self._filled(self._heads)
        for _ in range(3 + int(6 * uniform())):
            out += self._statement()
        out += self._filled(self._returns)
        return out + _BLANK

    def _frames(self, texts: Sequence[str], indent: str) -> list[Frame]:
        return [frame(indent + text, self._tables) for text in texts]

    def _name_locals(self) -> None:
        rng, tables = self._rng, self._tables
        tables["l"].hold(_NAMES, rng.sample(self._module, self.local_names))
        tables["x"].end_with(tables["l"], self.module_names, self._repeats)

    def _name_function(self) -> None:
        """Name the next function; those before it can be called from now on."""
        verb = int(self._uniform() * len(VERBS))
        tail = _TAILS[int(self._uniform() * len(_TAILS))]
        new, known = self._tables["new"], self._tables["f"]
        for name, names, form in (
            (new.spaced, known.spaced, VERBS.spaced),
            (new.bare, known.bare, VERBS.bare),
        ):
            names += name
            del names[: -self.known_functions]
            name[:] = [form[verb] + tail]

    def _statement(self) -> list[int]:
        uniform, fresh = self._uniform, self._memory.fresh
        if self._copies.due():
            return flat(
                self._memory.again(self._statements, 1 + int(self.copied_lines * uniform()))
            )
        choice = uniform()
        if choice < 0.65:
            return flat(fresh(self._statements))
        out = fresh(self._openers)
        if choice < 0.80:
            return flat([*out, *fresh(self._leaves)])
        return flat([*out, *fresh(self._nested), *(fresh(self._nested) if choice > 0.90 else ())])

    def _filled(self, forms: list[Frame]) -> list[int]:
        return flat(fill(forms[int(self._uniform() * len(forms))], self._uniform))


def _indent(depth: int) -> str:
    return "\n" + "    " * depth
