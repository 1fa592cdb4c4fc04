"""Rows of the flag table, written from the parsers of many versions."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.sglang_parsers.dumps import Dump, Option, option_of
from sweeps.values import Value

_WIDTH = 100

Dumps = Mapping[str, Dump]
"""Version to its parser, oldest first."""


@dataclass(frozen=True, slots=True)
class Course:
    """An option in those versions that have it, oldest first."""

    name: str
    versions: tuple[str, ...]
    options: tuple[Option, ...]

    @property
    def last(self) -> Option:
        """The newest form."""
        return self.options[-1]


def course_of(dumps: Dumps, name: str) -> Course:
    """Follow an option through the versions. Raises KeyError where none has it."""
    found = [(v, o) for v, dump in dumps.items() if (o := option_of(dump, name)) is not None]
    if not found:
        raise KeyError(name)
    versions, options = zip(*found, strict=True)
    return Course(name, versions, options)


def row_of(dumps: Dumps, name: str) -> str:
    """Write the row of a flag, without bounds, which no parser tells."""
    course = course_of(dumps, name)
    every = list(dumps)
    words = [course.last.type.__name__]
    defaults = _changes(course)
    if defaults[0][1] is not None:
        words.append(_literal(defaults[0][1]))
    if any(option.choices for option in course.options):
        words.append(f'choices=CHOICES["{name}"]')
    if course.versions[0] != every[0]:
        words.append(f'first="{course.versions[0]}"')
    if course.versions[-1] != every[-1]:
        words.append(f'last="{course.versions[-1]}"')
    if course.last.many:
        words.append("many=True")
    if len(defaults) > 1:
        later = "".join(f'("{v}", {_literal(value)}), ' for v, value in defaults[1:])
        words.append(f"defaults=({later.strip()})")
    return f'    "{name}": Flag({", ".join(words)}),'


def choices_of(dumps: Dumps, name: str) -> str:
    """Write the row of a flag's choices; empty where any value is taken in each version."""
    course = course_of(dumps, name)
    if not any(option.choices for option in course.options):
        return ""
    first: list[str] = []
    later: dict[str, list[str]] = {}
    gone: dict[str, list[str]] = {}
    for choice in sorted({c for option in course.options for c in option.choices}):
        holders = [
            v for v, o in zip(course.versions, course.options, strict=True) if choice in o.choices
        ]
        start, end = course.versions.index(holders[0]), course.versions.index(holders[-1])
        if len(holders) != end - start + 1:
            raise ValueError(f"{name}: {choice} left and came back")
        (first if not start else later.setdefault(holders[0], [])).append(choice)
        if end + 1 < len(course.versions):
            gone.setdefault(holders[-1], []).append(choice)
    lines = [f'    "{name}": Choices.of(', *_wrapped("        ", "", first)]
    lines += _by_version("later", later, list(dumps)) + _by_version("gone", gone, list(dumps))
    return "\n".join([*lines, "    ),"])


def _by_version(word: str, table: Mapping[str, Sequence[str]], order: Sequence[str]) -> list[str]:
    if not table:
        return []
    rows: list[str] = []
    for version in order:
        rows += _wrapped("            ", f'"{version}": ', table.get(version, ()))
    return [f"        {word}={{", *rows, "        },"]


def _wrapped(indent: str, head: str, words: Sequence[str]) -> list[str]:
    """Write words as one text, in as many pieces as the width of a line asks for."""
    if not words:
        return []
    pieces = textwrap.wrap(" ".join(words), _WIDTH - len(indent) - 8)
    if len(pieces) == 1 and len(indent + head + pieces[0]) + 3 <= _WIDTH:
        return [f'{indent}{head}"{pieces[0]}",']
    inner = [f'{indent}    "{piece} "' for piece in pieces]
    return [f"{indent}{head}(" if head else f"{indent}(", *inner, f"{indent}),"]


def _changes(course: Course) -> list[tuple[str, Value]]:
    """List each default with the version that brought it."""
    found: list[tuple[str, Value]] = []
    for version, option in zip(course.versions, course.options, strict=True):
        value = option.default
        if option.type is bool and value is None:
            value = False
        if not found or found[-1][1] != value:
            found.append((version, value))
    return found


def _literal(value: Value) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
