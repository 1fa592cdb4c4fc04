"""Text of hosts, servers and files inside Markdown: it stays text, on one line."""

import re

_MARKS = re.compile(r"[\\`*\[\]<>|~!$]|(?<![^\W_])_|_(?![^\W_])|&(?=#|\w+;)")
"""What Markdown gives a meaning within a line; an underscore inside a word has none."""
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_HEADS = re.compile(r"^(\d*)([#+=.)-])")
"""What may begin a heading or a list at the head of a line."""


def plain_text(text: str) -> str:
    """Write a text so that no part of it is a mark of Markdown, a tag or a character's code."""
    line = " ".join(text.split())
    shown = "".join(char if char.isprintable() else "\ufffd" for char in line)
    escaped = _MARKS.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), shown)
    return _HEADS.sub(r"\1\\\2", escaped)
