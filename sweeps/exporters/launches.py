"""What of an export starts a server: options and variables, without the place that they run in."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sweeps.problems import Problem
from sweeps.values import digest

MODULE = "sglang.launch_server"
PORT = 30000
"""SGLang's own default."""
OF_THE_PLACE = ("--host", "--port", "--nccl-port", "--dist-init-addr")
"""Options that belong to where a server runs."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_FOLDERS = ("--model-path", "--tokenizer-path", "--speculative-draft-model-path")


class UnreadableExportError(Exception):
    """A file holds no server command that can be read."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Options of SGLang and variables of its environment."""

    options: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def grouped(self) -> list[tuple[str, ...]]:
        """Return each option with its values."""
        groups: list[list[str]] = []
        for word in self.options:
            if word.startswith("--") or not groups:
                groups.append([])
            groups[-1].append(word)
        return [tuple(group) for group in groups]

    @property
    def plan(self) -> str:
        """Return the hash that all formats of one configuration share, whatever the order."""
        return digest({"options": sorted(self.grouped), "env": dict(self.env)})

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the folders of the host that the server reads its models from."""
        named = [g[1] for g in self.grouped if g[0] in _FOLDERS and len(g) == 2]
        return tuple(dict.fromkeys(path for path in named if path.startswith("/")))

    def problems(self) -> Iterator[Problem]:
        """List what no file can carry unharmed."""
        for name, value in self.env.items():
            if not _VARIABLE.fullmatch(name):
                yield Problem("env", repr(name), "that is no name of a variable", "Rename it.")
            if _CONTROL.search(value):
                yield _unprintable(f"env.{name}", value)
        for word in self.options:
            if _CONTROL.search(word):
                yield _unprintable("argv", word)


def _unprintable(field_name: str, value: str) -> Problem:
    why = "a control character does not survive in a file of text"
    return Problem(field_name, repr(value), why, "Give a value of printable characters.")


def after_module(words: Sequence[str]) -> tuple[str, ...]:
    """Return the options of a command of SGLang, without those of the place.

    Raises UnreadableExportError.
    """
    if MODULE not in words:
        raise UnreadableExportError(f"no command of {MODULE} stands in it")
    rest = words[list(words).index(MODULE) + 1 :]
    return without(tuple(rest), *OF_THE_PLACE)


def without(options: tuple[str, ...], *names: str) -> tuple[str, ...]:
    """Leave out some options and the value of each."""
    kept: list[str] = []
    skip = False
    for word in options:
        if skip or word in names:
            skip = word in names
            continue
        kept.append(word)
    return tuple(kept)


def differences(sealed: Launch, found: Launch) -> tuple[str, ...]:
    """Say in which options and variables a file is not what it was when it was exported."""
    old, new = _values(sealed), _values(found)
    return tuple(_difference(name, old, new) for name in {**old, **new} if _differs(name, old, new))


def _values(launch: Launch) -> dict[str, str]:
    options = {group[0]: " ".join(group[1:]) for group in launch.grouped}
    return {**options, **launch.env}


def _differs(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    return old.get(name) != new.get(name)


def _difference(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> str:
    if name not in new:
        return f"{name} {old[name]} is gone".replace("  ", " ")
    if name not in old:
        return f"{name} {new[name]} was added".replace("  ", " ")
    return f"{name} is {new[name] or 'on'} and not {old[name] or 'on'}"
