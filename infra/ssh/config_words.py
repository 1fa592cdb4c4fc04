"""The lines of an SSH configuration, taken apart as OpenSSH does it."""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

_LINE = re.compile(r'[ \t]*(?P<quote>"?)(?P<keyword>[A-Za-z0-9]+)(?P=quote)(?:[ \t]*=|(?=[ \t"]))'
                   r"[ \t]*(?P<rest>.*)", re.DOTALL)  # fmt: skip
_ESCAPED = "'\"\\"


class WordsError(ValueError):
    """A line is none that OpenSSH takes; the message says why."""


@dataclass(frozen=True, slots=True)
class Line:
    """One option with its words."""

    where: str
    """File and line number."""
    keyword: str
    """In small letters."""
    words: tuple[str, ...]
    rest: str
    """What follows the keyword, as it stands there."""


def read_line(text: str, where: str) -> Line | None:
    """Return a line in words; None where it holds none. Raises WordsError."""
    text = text.rstrip(" \t\r\n\f")
    if not text.strip() or text.strip().startswith("#"):
        return None
    match = _LINE.fullmatch(text)
    if match is None:
        raise WordsError(f"{where}: `{text.strip()[:60]}` is no option with a value")
    words = split(match["rest"], where)
    if not words:
        raise WordsError(f"{where}: {match['keyword']} has no value")
    return Line(where, match["keyword"].lower(), words, match["rest"])


def split(text: str, where: str) -> tuple[str, ...]:
    """Take words apart: quotes, escapes, and `#` before a word ends them. Raises WordsError."""
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in " \t":
            at += 1
        elif text[at] == "#":
            break
        else:
            word, at = _word(text, at, where)
            words.append(word)
    return tuple(words)


def _word(text: str, at: int, where: str) -> tuple[str, int]:
    kept, quote = "", ""
    while at < len(text) and (quote or text[at] not in " \t"):
        letter, after = text[at], text[at + 1 : at + 2]
        if letter == "\\" and after and (after in _ESCAPED or (not quote and after == " ")):
            kept, at = kept + after, at + 1
        elif letter == quote:
            quote = ""
        elif not quote and letter in "'\"":
            quote = letter
        else:
            kept += letter
        at += 1
    if quote:
        raise WordsError(f"{where}: a quote is not closed")
    return kept, at


def matches(text: str, pattern: str) -> bool:
    """Tell whether a pattern with `*` and `?` matches all of a text."""
    # Brackets are no pattern there.
    return fnmatchcase(text, pattern.replace("[", "[[]"))


def matches_list(text: str, patterns: str) -> bool:
    """Tell whether a list with commas matches; a `!` before one that matches denies it."""
    found = False
    for pattern in patterns.split(","):
        if matches(text, pattern.removeprefix("!")):
            if pattern.startswith("!"):
                return False
            found = True
    return found
