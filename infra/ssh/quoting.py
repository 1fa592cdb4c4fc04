"""How words become the one line that an SSH server gives to the user's shell."""

import re
from collections.abc import Mapping, Sequence

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quote(word: str) -> str:
    """Write a word so that a POSIX shell reads it back unchanged. Raises ValueError for a NUL."""
    if "\0" in word:
        raise ValueError("a word of a command holds a NUL")
    if _PLAIN.fullmatch(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def command_line(
    argv: Sequence[str], env: Mapping[str, str] | None = None, *, cwd: str | None = None
) -> str:
    """Return the line that replaces the shell by a program. Raises ValueError."""
    if not argv or not argv[0]:
        raise ValueError("no program is named")
    words = ["env", *assignments(env or {})] if env else []
    # A program whose name has an equals sign would be taken for a variable by `env`.
    if words and "=" in argv[0]:
        words = [*words, "sh", "-c", 'exec "$@"', "sh"]
    line = " ".join(map(quote, ["exec", *words, *argv]))
    return line if cwd is None else f"cd {quote(_folder(cwd))} && {line}"


def assignments(env: Mapping[str, str]) -> list[str]:
    """Return variables as `env` takes them. Raises ValueError for a name that is none."""
    for name in env:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot name a variable")
    return [f"{name}={value}" for name, value in env.items()]


def exports(env: Mapping[str, str]) -> str:
    """Return one line that a shell evaluates to set variables. Raises ValueError for a newline."""
    for name, value in env.items():
        if "\n" in value:
            raise ValueError(f"the hidden variable {name} holds a newline")
    return " ".join(["export", *map(quote, assignments(env))])


def reading_exports(line: str) -> str:
    """Return a line that first takes its hidden variables from its input, as `exports` wrote them.

    So they stand in no list of processes. A shell reads its input by the byte: the rest is left.
    """
    return f'IFS= read -r hidden && eval "$hidden" && unset hidden && {line}'


def _folder(path: str) -> str:
    """A folder such as `-` would be an option of cd."""
    return path if path.startswith("/") else f"./{path}"
