"""Lists of jump hosts, in the forms that OpenSSH takes: `user@host:port` and `ssh://` addresses."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

_PLACE = re.compile(r"(?:\[(?P<inner>[^\[\]]+)\]|(?P<plain>[^\[\]:/]+))(?::(?P<port>\d{1,5}))?")
_UNSAFE = re.compile(r"^-|[\s\x00-\x1f\x7f'\"`$\\;&<>|(){}@/]")
"""What OpenSSH refuses in the name of a host on its command line, and more."""
_UNSAFE_USER = re.compile(r"^-|[\x00-\x20\x7f'\"`;&<>|(){}]|\\$")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Jump:
    """One jump host as it is written; what is None is as its own configuration says."""

    host: str
    user: str | None = None
    port: int | None = None


def is_name(text: str) -> bool:
    """Tell whether a text can name a host, and nothing else, on a command line of OpenSSH."""
    return bool(text) and _UNSAFE.search(text) is None


def jumps(text: str) -> tuple[Jump, ...]:
    """Return the hosts of a list, the first hop first; none for `none`. Raises ValueError."""
    if text.strip().lower() == "none":
        return ()
    return tuple(_jump(part.strip()) for part in text.split(","))


def _jump(text: str) -> Jump:
    is_uri = text.lower().startswith("ssh://")
    user, at, place = (text[6:].removesuffix("/") if is_uri else text).rpartition("@")
    match = _PLACE.fullmatch(place)
    if match is None or (at and not user):
        raise ValueError(f"`{text}` is no jump host")
    host = match["inner"] or match["plain"]
    if is_uri and _BAD_ESCAPE.search(user):
        raise ValueError(f"`{text}` holds a `%` that encodes nothing")
    user = unquote(user) if is_uri else user
    port = None if match["port"] is None else int(match["port"])
    if not is_name(host) or (port is not None and not 0 < port <= _MOST_PORT):
        raise ValueError(f"`{text}` is no jump host")
    if user and (_UNSAFE_USER.search(user) or (is_uri and ":" in user)):
        raise ValueError(f"`{text}` names no user that can log in")
    return Jump(host, user or None, port)
