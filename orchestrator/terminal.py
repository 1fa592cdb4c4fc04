"""What reaches a terminal: the text of hosts, logs and files is shown there, and never obeyed."""

import re
import sys
from typing import Any, TextIO

_OBEYED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)"
)
"""Control characters, the escape among them, and what turns the direction of writing."""


def plain(text: str) -> str:
    """Return a text without what a terminal obeys, but for line ends and tabs."""
    return _OBEYED.sub("?", text)


class PlainStream:
    """A stream to which only text goes. `raw` is for those who mean what they write to it."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        """Write a text; what a terminal would obey is replaced."""
        return self.raw.write(plain(text))

    def writelines(self, lines: list[str]) -> None:
        """Write some texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def guard_streams() -> None:
    """Let only text out of this process: messages, logs and tracebacks alike."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, PlainStream):
            setattr(sys, name, PlainStream(stream))
