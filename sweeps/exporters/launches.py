"""What of an export starts a server: options and variables, without the place that they run in."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sweeps.problems import Problem
from sweeps.values import digest

MODULE = "sglang.launch_server"
PORT = 30000
"""SGLang's own default."""
OF_THE_PLACE = ("--host", "--port", "--nccl-port", "--dist-init-addr")
"""Options that belong to where a server runs."""

OF_THE_FILES = frozenset({
    "BASH_ENV", "BASHOPTS", "ENV", "EUID", "HOST", "IFS", "PORT", "PPID", "PYTHON", "SERVE_HOST",
    "SERVE_PORT", "SGLANG_ARGS", "SHELLOPTS", "UID", "default_python",
})  # fmt: skip
"""Variables that the written files, or the shell that runs them, give a meaning of their own."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTION = re.compile(r"--[A-Za-z0-9][\w-]*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
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
                yield Problem("env", ascii(name), "that is no name of a variable", "Rename it.")
            elif name in OF_THE_FILES:
                why = "the files that are written use that name themselves"
                yield Problem("env", name, why, "Set it where the server is started.")
            yield from unprintable(f"env.{name}", value)
        for word in self.options:
            yield from unprintable("argv", word)
        for group in self.grouped:
            if not _OPTION.fullmatch(group[0]):
                yield Problem(
                    "argv", ascii(group[0]), "that is no option of SGLang", "Leave it out."
                )


@dataclass(frozen=True, slots=True)
class Unknown:
    """A word that only the place knows where the file is used, as the file writes it."""

    text: str


Word = str | Unknown


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file starts, as the program reads it that the file is for."""

    launch: Launch
    """What of it is known."""
    python: str = ""
    """The interpreter; empty where the format names none."""
    gpus: int | None = None
    """How many GPUs the file asks for; None where the format does not."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Variables and options whose values only the place knows, and how the file gives each."""
    beyond: tuple[str, ...] = ()
    """What else changes the process, in words."""

    def and_beyond(self, *more: str) -> "Reading":
        """Return it with more that changes the process."""
        return replace(self, beyond=(*self.beyond, *more))


def unprintable(field_name: str, value: str) -> Iterator[Problem]:
    """Yield a problem where a text would not survive in a file, or would be obeyed by one."""
    if _CONTROL.search(value):
        why = "a control character does not survive in a file of text"
        yield Problem(field_name, ascii(value), why, "Give a value of printable characters.")


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
    """Say in which options and variables a launch is not the one that was sealed."""
    old, new = _values(sealed), _values(found)
    return tuple(_difference(name, old, new) for name in {**old, **new} if _differs(name, old, new))


def edits(sealed: Launch, python: str, gpus: int | None, found: Reading) -> tuple[str, ...]:
    """Say in what a file is not what it was when it was exported."""
    said = [
        f"{name} is given by {how}, and what that is only its place knows"
        for name, how in found.unknown.items()
    ]
    if found.python not in ("", python):
        said.append(f"the interpreter is {found.python} and not {python}")
    if gpus is not None and found.gpus not in (None, gpus):
        said.append(f"it asks for {found.gpus} GPUs and not {gpus}")
    known = [
        _difference(name, old, new)
        for old, new in [(_values(sealed), _values(found.launch))]
        for name in {**old, **new}
        if _differs(name, old, new) and name not in found.unknown
    ]
    return (*known, *said, *found.beyond)


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
