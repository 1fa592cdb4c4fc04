"""The recommendation as a systemd unit."""

import re
from collections.abc import Iterator

from sweeps.exporters.launches import PORT, Reading, Unknown, UnreadableExportError, Word
from sweeps.exporters.recommendation import Recommendation, comments
from sweeps.exporters.sealed import as_comments, record
from sweeps.exporters.server_command import read_command
from sweeps.exporters.systemd_words import has_several_commands, replaced, words_of

HOST_NAME, PORT_NAME = "SERVE_HOST", "SERVE_PORT"
"""Variables of the unit that a drop-in may set otherwise."""

_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_WRITTEN = {"LimitMEMLOCK": "infinity", "LimitNOFILE": "1048576"}
"""Limits of the process that `write` sets."""
_LISTS = ("EnvironmentFile", "ExecCondition", "ExecStartPre", "ExecStartPost", "UnsetEnvironment")
_OF_SUPERVISION = frozenset({
    "Group", "KillMode", "KillSignal", "LogLevelMax", "Restart", "RestartSec", "StandardError",
    "StandardInput", "StandardOutput", "SuccessExitStatus", "SyslogIdentifier", "TimeoutSec",
    "TimeoutStartSec", "TimeoutStopSec", "Type", "User",
})  # fmt: skip
"""What starts, stops and watches the process, and does not change it."""


def write(what: Recommendation) -> str:
    """Write a unit; a drop-in may change host and port, and should name a user."""
    python, *module = what.program
    program = [python, *module] if python.startswith("/") else ["/usr/bin/env", python, *module]
    stop_s = what.origin.stop_s + 10
    lines = [
        *comments(what),
        f"# `systemctl edit` may set {HOST_NAME}, {PORT_NAME} and User=.",
        "",
        "[Unit]",
        f"Description=SGLang, plan {what.launch.plan}",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        "Type=exec",
        *(f"Environment={_quoted(f'{n}={v}')}" for n, v in sorted(what.env.items())),
        f"Environment={HOST_NAME}=127.0.0.1 {PORT_NAME}={PORT}",
        f"ExecStart={' '.join(map(_argument, program))} \\",
        *(f"    {' '.join(map(_argument, group))} \\" for group in what.launch.grouped),
        f"    --host ${{{HOST_NAME}}} --port ${{{PORT_NAME}}}",
        "Restart=on-failure",
        "RestartSec=10",
        f"TimeoutStopSec={stop_s:.0f}",
        "KillMode=mixed",
        "LimitMEMLOCK=infinity",
        "LimitNOFILE=1048576",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        *as_comments(record(what, "systemd")),
    ]
    return "\n".join(lines) + "\n"


def read(text: str) -> Reading:
    """Read what a unit starts. Raises UnreadableExportError."""
    unit = _Unit()
    section = ""
    for line in _lines(text):
        key, equals, value = (part.strip() for part in line.partition("="))
        if line.startswith("["):
            section = line
        elif equals and section == "[Service]":
            unit.take(key, value)
    return unit.reading()


class _Unit:
    """The entries of a unit's [Service], as they come."""

    def __init__(self) -> None:
        self._env: dict[str, Word] = {}
        self._commands: list[str] = []
        self._others: dict[str, list[str]] = {}

    def take(self, key: str, value: str) -> None:
        """Take an entry; an empty one of a list takes back those before it."""
        if key == "Environment":
            self._env = self._env | _variables(value) if value else {}
        elif key == "ExecStart":
            self._commands = [*self._commands, value] if value else []
        elif key == "PassEnvironment":
            self._env |= {name: Unknown(f"PassEnvironment={name}") for name in value.split()}
        elif key in _LISTS:
            self._others[key] = [*self._others.get(key, []), value] if value else []
        else:
            self._others[key] = [value]

    def reading(self) -> Reading:
        """Return what it starts. Raises UnreadableExportError."""
        if len(self._commands) != 1:
            raise UnreadableExportError(f"it has {len(self._commands)} ExecStart, not one")
        prefix, command = _prefix(self._commands[0])
        words: list[Word] = list(words_of(command))
        if not words:
            raise UnreadableExportError("its ExecStart is empty")
        if has_several_commands(command):
            raise UnreadableExportError("several commands stand in its ExecStart")
        if ":" not in prefix:
            words = list(replaced([str(word) for word in words], self._env))
        env = {n: v for n, v in self._env.items() if n not in (HOST_NAME, PORT_NAME)}
        said = [f"the prefix {prefix} stands before its command"] if prefix else []
        return read_command(words, env, *said, *self._beyond())

    def _beyond(self) -> Iterator[str]:
        for key, values in self._others.items():
            for value in values:
                if key not in _OF_SUPERVISION and _WRITTEN.get(key) != value:
                    yield f"{key}={value}"
        for key, value in _WRITTEN.items():
            if key not in self._others:
                yield f"{key}={value} is gone"


def _variables(value: str) -> dict[str, Word]:
    pairs = [word.partition("=") for word in words_of(value)]
    wrong = [name for name, equals, _ in pairs if not equals]
    if wrong:
        raise UnreadableExportError(f"Environment={wrong[0]} assigns nothing")
    return {name: found for name, _, found in pairs}


def _prefix(command: str) -> tuple[str, str]:
    """Part what stands before the path of a program and changes how it is started."""
    match = re.match(r"[-@:+!|]*", command)
    prefix = match[0] if match else ""
    if "@" in prefix:
        raise UnreadableExportError("@ before its command gives the program another name")
    return prefix, command[len(prefix) :]


def _lines(text: str) -> Iterator[str]:
    """Yield lines, joined where one ends in a backslash; comments are left out, also within."""
    lines = text.replace("\r\n", "\n").split("\n")
    kept = "\n".join(line for line in lines if line.lstrip()[:1] not in ("#", ";"))
    for line in kept.replace("\\\n", " ").split("\n"):
        if line.strip():
            yield line.strip()


def _argument(word: str) -> str:
    """Quote a word of a command, in which systemd would replace variables."""
    return _quoted(word.replace("$", "$$"))


def _quoted(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
