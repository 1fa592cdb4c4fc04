"""What is wrong with an input, and the error that says it."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_MOST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong: the field, the value that it holds, why that fails, and how to mend it."""

    field: str
    value: str
    why: str
    mend: str

    def __str__(self) -> str:
        return f"{self.field} = {self.value}: {self.why}. {self.mend}".rstrip()


class BadInputError(Exception):
    """An input that nothing can be started with; the command line exits with 2."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join([source, *map(str, problems)]))
        self.source = source
        self.problems = tuple(problems)


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest the spelling that was probably meant, as a sentence; empty where none is near."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"Did you mean `{close[0]}`?" if close else ""


def shown(value: object) -> str:
    """Return a value as an error names it: on one line, and not at length."""
    text = ascii(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."
