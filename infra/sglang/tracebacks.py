"""Finds the exceptions that a log of a Python program tells of, whatever their type."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_BEGINS = re.compile(r"Traceback \(most recent call last\):\s*$")
# torch puts the rank before each line, an exception group a bar.
_MARGIN = re.compile(r"^(?:\[rank\d+\]:? ?|\s*[|+] ?)*")
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: ?(?P<text>.*))?$")
_LOG_LINE = re.compile(r"^\[?\d{4}-\d\d-\d\d|^\[\d\d?-\d\d ")
_FOLLOWED = re.compile(
    r"During handling of the above exception|direct cause of the following exception"
)
# Without a traceback, a line counts if its type is named as one.
_LOOSE = re.compile(
    r"^(?:\[[^\]]*\]:? ?)*(?P<type>(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout"
    r"|Failure|Resources))(?:: (?P<text>.*))?:?$"
)
_MOST_TEXT = 60
"""Lines of one exception's text."""
_MOST_BETWEEN = 20
"""Lines of other writers that may stand between the parts of one traceback."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception as the log tells it."""

    kind: str
    """Its type, with the module."""
    text: str
    heading: str
    """What stands before its traceback, such as `Scheduler hit an exception: `."""
    place: str = ""
    """The innermost frame; empty where none is told."""

    def __str__(self) -> str:
        text = self.text or (f"(in {self.place})" if self.place else "")
        return f"{self.kind}: {text}" if text else self.kind


def exceptions_in(lines: Sequence[str]) -> list[Raised]:
    """Return the exceptions that ended something, in the order of the log.

    Of a chain it is the last one, which was not handled. Without any traceback, lines that look
    like the last one of it count.
    """
    found = list(_from_tracebacks(lines))
    if found:
        return found
    loose = (_LOOSE.match(line.strip()) for line in lines)
    return [Raised(m["type"], (m["text"] or "").strip(), "") for m in loose if m]


def _from_tracebacks(lines: Sequence[str]) -> Iterator[Raised]:
    at = 0
    while at < len(lines):
        begins = _BEGINS.search(lines[at])
        at += 1
        if not begins:
            continue
        raised, at = _read(lines, at, lines[at - 1][: begins.start()])
        if raised and not _is_followed(lines, at):
            yield raised


def _read(lines: Sequence[str], at: int, heading: str) -> tuple[Raised | None, int]:
    """Return the exception of a traceback whose frames begin at a line, and where it ends."""
    place, strange = "", 0
    while at < len(lines) and strange < _MOST_BETWEEN and not _BEGINS.search(lines[at]):
        line = _MARGIN.sub("", lines[at], count=1)
        at += 1
        if frame := _FRAME.match(line):
            name = frame["file"].rsplit("/", 1)[-1]
            place = f"{frame['function']}, {name} line {frame['line']}"
        if line.startswith((" ", "\t")) or not line.strip():
            continue
        match = _EXCEPTION.match(line.rstrip())
        if match is None or _LOG_LINE.match(line):
            strange += 1
            continue
        text = (match["text"] or "").strip()
        if ":" in line and (not text or text.endswith(":")):
            text = _joined(text, _rest(lines, at))
        return Raised(match["type"], text, heading, place), at
    return None, at


def _rest(lines: Sequence[str], at: int) -> list[str]:
    """Return the further lines of an exception's text, as far as they are its own."""
    rest = []
    for line in lines[at : at + _MOST_TEXT]:
        text = _MARGIN.sub("", line, count=1).strip()
        if not text or _LOG_LINE.match(text) or _BEGINS.search(text):
            break
        rest.append(text)
    return rest


def _joined(text: str, rest: Sequence[str]) -> str:
    """Join what a text begins with and what it ends with: between them, compilers show code."""
    ends = [text, *rest[:1], *rest[-1:]] if not text else [text, *rest[-1:]]
    return " ".join(dict.fromkeys(filter(None, ends)))


def _is_followed(lines: Sequence[str], at: int) -> bool:
    """Tell whether another exception came of the one that ends before a line."""
    ahead = [line for line in lines[at : at + _MOST_BETWEEN] if line.strip()]
    for line in ahead:
        if _FOLLOWED.search(line):
            return True
        if _LOG_LINE.match(line) or _BEGINS.search(line):
            return False
    return False
