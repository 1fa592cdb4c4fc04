"""The recommendation as a shell script that starts the server."""

import shlex
from dataclasses import dataclass, field

from sweeps.exporters.launches import (
    PORT,
    Launch,
    Reading,
    Unknown,
    UnreadableExportError,
    Word,
)
from sweeps.exporters.recommendation import Recommendation, comments
from sweeps.exporters.sealed import as_comments, record
from sweeps.exporters.server_command import read_command, starts_a_server
from sweeps.exporters.shell_words import Raw, Statement, statements, value_of

_OF_THE_PLACE = ("PYTHON", "HOST", "PORT")
"""Variables of whoever runs the script: what it says itself is the default."""
_ARGUMENTS = Unknown("$@")
_HARMLESS_OPTIONS = frozenset("aefuvxC")
_LEAVES = ("exit", "return", "break", "continue")


def write(what: Recommendation) -> str:
    """Write a script. PYTHON, HOST and PORT in its environment replace the defaults."""
    python, *module = what.program
    lines = [
        "#!/bin/sh",
        *comments(what),
        "# Arguments are passed on to the server.",
        "set -eu",
        *assignments(what.launch, "export "),
        f"default_python={shlex.quote(python)}",
        f'exec "${{PYTHON:-$default_python}}" {shlex.join(module)} \\',
        *(f"    {shlex.join(group)} \\" for group in what.launch.grouped),
        f'    --host "${{HOST:-127.0.0.1}}" --port "${{PORT:-{PORT}}}" "$@"',
        *as_comments(record(what, "sh")),
    ]
    return "\n".join(lines) + "\n"


def read(text: str) -> Reading:
    """Read what a script starts. Raises UnreadableExportError."""
    shell = Shell()
    for statement in statements(text):
        shell.run(statement)
        if shell.started is not None:
            env = {n: v for n, v in shell.environment.items() if n not in _OF_THE_PLACE}
            return read_command(shell.started, env, *shell.beyond)
    raise UnreadableExportError("no `exec` of a server stands in it")


def assignments(launch: Launch, before: str = "") -> list[str]:
    """Write each variable on a line, quoted for a shell."""
    return [f"{before}{name}={shlex.quote(v)}" for name, v in sorted(launch.env.items())]


@dataclass(slots=True)
class Shell:
    """Runs statements as far as that can be known, and starts nothing."""

    exports_all: bool = False
    expands: bool = True
    """Whether a value may hold others; where not, it is unknown."""
    beyond: list[str] = field(default_factory=list)
    """What else changes the process, in words."""
    started: list[Word] | None = None
    """The words of the server's command, once it is reached."""
    _variables: dict[str, Word] = field(default_factory=dict)
    _exported: set[str] = field(default_factory=set)

    @property
    def environment(self) -> dict[str, Word]:
        """Return the variables that a command gets."""
        known = {n: v for n, v in self._variables.items() if n in self._exported}
        unset = sorted(self._exported - known.keys())
        return {**known, **{name: Unknown(f"${name}") for name in unset}}

    def run(self, statement: Statement) -> None:
        """Run one statement. Raises UnreadableExportError where its effect cannot be known."""
        if not statement.words:
            self._assign(statement.assignments)
            self.beyond += [f"`{one}` stands in it" for one in statement.redirections]
            return
        if statement.assignments and statement.words[0].plain != "exec":
            self._run_with(statement)
            return
        command = _COMMANDS.get(statement.words[0].plain)
        if command is None:
            self._other(statement)
        else:
            command(self, statement)

    def _run_with(self, statement: Statement) -> None:
        """Run a command that gets variables of its own: the server, or what names itself."""
        if starts_a_server(self._values(statement.words)):
            self._export_all(statement.assignments)
        self._other(statement)

    def _assign(self, assigned: tuple[tuple[str, Raw], ...]) -> None:
        for name, raw in assigned:
            is_known = self.expands or raw.is_text
            value = value_of(raw, self._variables, splits=False)
            self._variables[name] = value if is_known else Unknown(raw.text)
            if self.exports_all:
                self._exported.add(name)

    def _export_all(self, assigned: tuple[tuple[str, Raw], ...]) -> None:
        self._assign(assigned)
        self._exported |= {name for name, _ in assigned}

    def _values(self, words: tuple[Raw, ...]) -> list[Word]:
        return [value_of(word, self._variables, splits=True) for word in words]

    def _export(self, statement: Statement) -> None:
        for word in statement.words[1:]:
            if (assigned := word.assignment) is not None:
                self._export_all((assigned,))
            elif word.plain and not word.plain.startswith("-"):
                self._exported.add(word.plain)
            else:
                raise UnreadableExportError(f"`{statement.text}` is not read")

    def _unset(self, statement: Statement) -> None:
        for word in statement.words[1:]:
            self._variables.pop(word.plain, None)
            self._exported.discard(word.plain)

    def _set(self, statement: Statement) -> None:
        for word in statement.words[1:]:
            sign, letters = word.plain[:1], word.plain[1:]
            if sign not in ("-", "+") or not set(letters) <= _HARMLESS_OPTIONS:
                raise UnreadableExportError(f"`{statement.text}` is not read")
            if "a" in letters:
                self.exports_all = sign == "-"

    def _exec(self, statement: Statement) -> None:
        if len(statement.words) > 1:
            self._export_all(statement.assignments)
        self.beyond += [f"`{one}` stands at its `exec`" for one in statement.redirections]
        if len(statement.words) > 1:
            self.started = [
                word for word in self._values(statement.words[1:]) if word != _ARGUMENTS
            ]

    def _source(self, statement: Statement) -> None:
        self.beyond.append(f"`{statement.text}` sets what this file does not tell")

    def _nothing(self, _: Statement) -> None:
        """Do nothing."""

    def _refuse(self, statement: Statement) -> None:
        raise UnreadableExportError(f"`{statement.text}`: what follows it is not known")

    def _other(self, statement: Statement) -> None:
        words = self._values(statement.words)
        if starts_a_server(words):
            self.beyond.append("its server is started without `exec`")
            self.started = [word for word in words if word != _ARGUMENTS]
        else:
            self.beyond.append(f"`{statement.text}` runs before it")


_COMMANDS = {
    "export": Shell._export, "unset": Shell._unset, "set": Shell._set, "exec": Shell._exec,
    ".": Shell._source, "source": Shell._source, ":": Shell._nothing, "true": Shell._nothing,
    "readonly": Shell._refuse, "eval": Shell._refuse, "trap": Shell._refuse,
    "alias": Shell._refuse, **dict.fromkeys(_LEAVES, Shell._refuse),
}  # fmt: skip
