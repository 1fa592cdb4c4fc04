"""The recommendation as a systemd unit."""

import re
from collections.abc import Iterator

from sweeps.exporters.launches import PORT, Launch, UnreadableExportError, after_module
from sweeps.exporters.recommendation import Recommendation, comments
from sweeps.exporters.sealed import as_comments, record

HOST_NAME, PORT_NAME = "SERVE_HOST", "SERVE_PORT"
"""Variables of the unit that a drop-in may set otherwise."""

_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|([^\s"\']+)')


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


def read(text: str) -> Launch:
    """Read what a unit starts. Raises UnreadableExportError."""
    env: dict[str, str] = {}
    options: tuple[str, ...] | None = None
    for key, value in _entries(text):
        if key == "Environment":
            env |= dict(word.split("=", 1) for word in words_of(value) if "=" in word)
        elif key == "ExecStart" and value:
            options = after_module([word.replace("$$", "$") for word in words_of(value)])
    if options is None:
        raise UnreadableExportError("it has no ExecStart")
    return Launch(options, {n: v for n, v in env.items() if n not in (HOST_NAME, PORT_NAME)})


def words_of(value: str) -> list[str]:
    """Split a value as systemd does, for what `write` writes: specifiers but `%%` are refused.

    Raises UnreadableExportError.
    """
    words = []
    for found in _WORD.finditer(value):
        quoted, bare = found.groups()
        word = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        if re.search(r"%", word.replace("%%", "")):
            raise UnreadableExportError(f"{word!r} holds a specifier of systemd")
        words.append(word.replace("%%", "%"))
    return words


def _entries(text: str) -> Iterator[tuple[str, str]]:
    kept = "\n".join(line for line in text.split("\n") if line.lstrip()[:1] not in ("#", ";"))
    for line in kept.replace("\\\n", " ").split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            yield key.strip(), value.strip()


def _argument(word: str) -> str:
    """Quote a word of a command, in which systemd would replace variables."""
    return _quoted(word.replace("$", "$$"))


def _quoted(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
