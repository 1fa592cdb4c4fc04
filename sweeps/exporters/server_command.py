"""The command of a server in words: what stands before the interpreter, it, and the options."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sweeps.exporters.launches import (
    MODULE,
    OF_THE_PLACE,
    Launch,
    Reading,
    UnreadableExportError,
    Word,
)

WRAPPERS = frozenset({
    "chrt", "ionice", "nice", "nohup", "numactl", "prlimit", "setarch", "setsid", "stdbuf",
    "taskset", "time", "timeout",
})  # fmt: skip
"""Programs that change how another one runs, and then become or wait for it."""

_ENV = "env"
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@dataclass(slots=True)
class _Found:
    """What is found from left to right."""

    env: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    beyond: list[str] = field(default_factory=list)
    python: str = ""


def read_command(words: Sequence[Word], env: Mapping[str, Word], *beyond: str) -> Reading:
    """Read what a command starts under some variables. Raises UnreadableExportError.

    Options of the place are left out, whatever they hold.
    """
    at = _module_at(words)
    found = _Found(beyond=list(beyond))
    _read_variables(env, found)
    _read_program(words[: at - 1], found)
    options = _read_options(words[at + 1 :], found)
    launch = Launch(options, found.env)
    return Reading(launch, found.python, None, found.unknown, tuple(found.beyond))


def starts_a_server(words: Sequence[Word]) -> bool:
    """Tell whether a command is one of SGLang."""
    return MODULE in words


def text_of(word: Word) -> str:
    """Return a word as messages show it."""
    return word if isinstance(word, str) else word.text


def _module_at(words: Sequence[Word]) -> int:
    places = [at for at, word in enumerate(words) if word == MODULE and words[at - 1] == "-m"]
    if not places or places[0] < 2:
        raise UnreadableExportError(f"no command of {MODULE} stands in it")
    return places[0]


def _read_variables(env: Mapping[str, Word], found: _Found) -> None:
    for name, value in env.items():
        if isinstance(value, str):
            found.env[name] = value
        else:
            found.unknown[name] = value.text


def _read_program(words: Sequence[Word], found: _Found) -> None:
    """Read the interpreter, its own options, and what runs it."""
    if not all(isinstance(word, str) for word in words):
        told = next(word for word in words if not isinstance(word, str))
        raise UnreadableExportError(
            f"{text_of(told)} is in its program, which only its place knows"
        )
    known = [word for word in words if isinstance(word, str)]
    if _name(known[0]) == _ENV:
        known = _after_env(known[1:], found)
    if known and _name(known[0]) in WRAPPERS:
        known = _after_wrapper(known, found)
    if not known:
        raise UnreadableExportError("no interpreter stands in it")
    found.python, *options = known
    is_python = _PYTHON.fullmatch(_name(found.python)) or options[:1] == ["-m"]
    if options and not (is_python and options[0].startswith("-")):
        raise UnreadableExportError(f"what {found.python} starts is not known")
    if options:
        found.beyond.append(f"{' '.join(options)} is given to the interpreter")


def _after_env(words: Sequence[str], found: _Found) -> list[str]:
    """Take the variables of `env` over; return what it starts."""
    for at, word in enumerate(words):
        match = _ASSIGNMENT.fullmatch(word)
        if match:
            found.env[match[1]] = match[2]
        elif word.startswith("-"):
            raise UnreadableExportError(f"`{_ENV} {word}` takes variables away: that is not read")
        else:
            return list(words[at:])
    return []


def _after_wrapper(words: Sequence[str], found: _Found) -> list[str]:
    """Name the wrappers; return what they start, which is taken for an interpreter by its name."""
    at = next((at for at, word in enumerate(words) if _PYTHON.fullmatch(_name(word))), None)
    if at is None:
        why = f"what {words[0]} starts is not known: no word before -m is a python"
        raise UnreadableExportError(why)
    found.beyond.append(f"`{' '.join(words[:at])}` stands before the interpreter")
    return list(words[at:])


def _read_options(words: Sequence[Word], found: _Found) -> tuple[str, ...]:
    groups: list[list[Word]] = []
    for word in _parted(words):
        if isinstance(word, str) and word.startswith("--"):
            groups.append([word])
        elif groups:
            groups[-1].append(word)
        else:
            found.beyond.append(f"{text_of(word)} stands before its options")
    kept: list[str] = []
    for group in groups:
        name = str(group[0])
        if name in OF_THE_PLACE:
            _read_more(name, group[2:], found)
        elif any(not isinstance(word, str) for word in group):
            found.unknown[name] = " ".join(map(text_of, group[1:]))
        else:
            kept += map(text_of, group)
    return tuple(kept)


def _read_more(name: str, words: Sequence[Word], found: _Found) -> None:
    """Name what follows the value of an option of the place: words for further options, maybe."""
    found.beyond += [f"{text_of(word)} stands after {name}" for word in words]


def _parted(words: Sequence[Word]) -> list[Word]:
    """Part `--name=value`, as argparse does; a value that looks like an option stays there."""
    parted: list[Word] = []
    for word in words:
        text = text_of(word)
        name, equals, value = text.partition("=")
        if not name.startswith("--") or not equals or value.startswith("--"):
            parted.append(word)
        else:
            parted += [name, value if isinstance(word, str) else type(word)(value)]
    return parted


def _name(program: str) -> str:
    return program.rpartition("/")[2]
