"""Values of a systemd unit, split and replaced as systemd does.

The rules are those of systemd.syntax(7) for quotes and escapes, of systemd.unit(5) for specifiers,
and of systemd.service(5) for variables in commands.
"""

import re
from collections.abc import Iterator, Mapping

from sweeps.exporters.launches import Unknown, UnreadableExportError, Word

_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " ",
    "\\": "\\", '"': '"', "'": "'",
}  # fmt: skip
_CODED = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})")
_BRACED = re.compile(r"\$\{([A-Za-z_]\w*)\}|\$\$")
_WHOLE = re.compile(r"\$([A-Za-z_]\w*)")
_BLANKS = " \t\n\r"


def words_of(value: str) -> list[str]:
    """Split a value into words. Raises UnreadableExportError."""
    return [_without_specifiers(word) for _, word in _split(value)]


def has_several_commands(value: str) -> bool:
    """Tell whether a bare `;` parts commands; a quoted one is a word like others."""
    return any(written == ";" for written, _ in _split(value))


def replaced(words: list[str], variables: Mapping[str, Word]) -> Iterator[Word]:
    """Yield the words of a command with variables replaced; the first one is no place for them."""
    yield words[0]
    for word in words[1:]:
        whole = _WHOLE.fullmatch(word)
        if whole is None:
            yield _braced_replaced(word, variables)
            continue
        value = variables.get(whole[1])
        if not isinstance(value, str) or re.search(r"[\"'\\]", value):
            yield Unknown(word)
        else:
            yield from value.split()


def _braced_replaced(word: str, variables: Mapping[str, Word]) -> Word:
    names = [match[1] for match in _BRACED.finditer(word) if match[1]]
    if not all(isinstance(variables.get(name), str) for name in names):
        return Unknown(word)
    return _BRACED.sub(lambda match: str(variables[match[1]]) if match[1] else "$", word)


def _split(value: str) -> Iterator[tuple[str, str]]:
    """Yield each word as it is written and as it is meant."""
    at = 0
    while True:
        while at < len(value) and value[at] in _BLANKS:
            at += 1
        if at >= len(value):
            return
        began = at
        word, at = _word(value, at)
        yield value[began:at], word


def _word(value: str, at: int) -> tuple[str, int]:
    """Read one word from a place; return it and the place after it."""
    out: list[str] = []
    quote = ""
    while at < len(value):
        char = value[at]
        if char == "\\":
            text, at = _escaped(value, at + 1)
            out.append(text)
            continue
        if not quote and char in _BLANKS:
            break
        at += 1
        if char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote = char
        else:
            out.append(char)
    if quote:
        raise UnreadableExportError(f"a quote is not closed in it: {value[:60]}")
    return "".join(out), at


def _escaped(value: str, at: int) -> tuple[str, int]:
    if (found := value[at : at + 1]) in _ESCAPES and found:
        return _ESCAPES[found], at + 1
    match = _CODED.match(value, at)
    if match is None:
        raise UnreadableExportError(f"systemd knows no escape \\{found}: {value[:60]}")
    octal = match[4]
    number = int(octal, 8) if octal else int(next(g for g in match.groups() if g), 16)
    if number > 0x10FFFF:
        raise UnreadableExportError(f"\\{match[0]} is no character")
    return chr(number), match.end()


def _without_specifiers(word: str) -> str:
    if "%" in word.replace("%%", ""):
        raise UnreadableExportError(f"{word!r} holds a specifier of systemd")
    return word.replace("%%", "%")
