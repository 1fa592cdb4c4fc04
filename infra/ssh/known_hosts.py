"""The host keys that are trusted, in OpenSSH's own file."""

import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import paramiko
from paramiko.hostkeys import HostKeyEntry, HostKeys, InvalidHostKey
from paramiko.ssh_exception import SSHException

from infra.remote import UntrustedHostError

_DEFAULT_PORT = 22
_KEY_WORDS = 3
"""Names, kind and key."""
_BROKEN = (InvalidHostKey, SSHException, ValueError, TypeError, IndexError, EOFError, struct.error)
"""What the library raises for a line that is none."""


@dataclass(frozen=True, slots=True)
class HostKey:
    """What a host shows of itself."""

    place: str
    """As the file names it: `[host]:port` off the usual port."""
    kind: str
    fingerprint: str
    line: str
    """For the file."""


def place_of(address: str, port: int) -> str:
    """Return how the file names an address."""
    return address if port == _DEFAULT_PORT else f"[{address}]:{port}"


def shown(place: str, key: paramiko.PKey) -> HostKey:
    """Return a key that was shown as plain data."""
    line = f"{place} {key.get_name()} {key.get_base64()}\n"
    return HostKey(place, key.get_name(), key.fingerprint, line)


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """Files of trusted keys; new ones go to the first. What was read is not read again."""

    paths: tuple[Path, ...]

    def keys(self, place: str) -> list[paramiko.PKey]:
        """Return all keys that are trusted for a place."""
        return [
            entry.key
            for entry in self._entries()
            if entry.key is not None and _is_meant(place, entry.hostnames or ())
        ]

    def check(self, place: str, key: paramiko.PKey, how_to_trust: str) -> None:
        """Let a trusted key pass. Raises UntrustedHostError, with the old and the new one."""
        offered = shown(place, key)
        if self.has(offered):
            return
        self.refuse_changed(offered)
        raise UntrustedHostError(
            f"{place} is not known (to {self._where()}); it shows {offered.kind}"
            f" {offered.fingerprint}. Compare that with the host's own"
            f" (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then {how_to_trust}"
        )

    def has(self, key: HostKey) -> bool:
        """Tell whether a key is trusted for its place."""
        is_known = any(shown(key.place, known) == key for known in self.keys(key.place))
        return is_known and not self._is_revoked(key)

    def refuse_changed(self, key: HostKey) -> None:
        """Raise UntrustedHostError where another key is known, or this one was revoked."""
        if self._is_revoked(key):
            what = f"{key.kind} {key.fingerprint}"
            raise UntrustedHostError(f"{key.place} shows a key that was revoked: {what}")
        known = self.keys(key.place)
        if not known:
            return
        old = ", ".join(f"{one.get_name()} {one.fingerprint}" for one in known)
        raise UntrustedHostError(
            f"{key.place} shows another key than before: {key.kind} {key.fingerprint}; known is"
            f" {old} (in {self._where()}). Somebody may be in between. If the host was set up anew,"
            f" remove the old line (ssh-keygen -R '{key.place}'), then trust the new one"
        )

    def add(self, key: HostKey) -> Path:
        """Append a key to the first file; return that file. Raises OSError."""
        path = self.paths[0]
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        old = path.read_bytes() if path.exists() else b""
        gap = b"" if not old or old.endswith(b"\n") else b"\n"
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(fd, "ab") as file:
            file.write(gap + key.line.encode())
        return path

    def _where(self) -> str:
        return ", ".join(map(str, self.paths))

    def _entries(self) -> Iterable[HostKeyEntry]:
        for line in self._lines():
            if line.startswith("@"):
                continue
            try:
                # The library splits at each blank, and OpenSSH at any number of them.
                entry = HostKeyEntry.from_line(" ".join(line.split()[:_KEY_WORDS]))
            except _BROKEN:
                continue
            if entry is not None:
                yield entry

    def _is_revoked(self, key: HostKey) -> bool:
        """Hold a key against the lines that the library leaves out."""
        text = key.line.split()[-1]
        for line in self._lines():
            mark, *words = line.split()
            is_revoked = mark == "@revoked" and len(words) >= _KEY_WORDS and words[2] == text
            if is_revoked and _is_meant(key.place, words[0].split(",")):
                return True
        return False

    def _lines(self) -> Iterable[str]:
        for path in self.paths:
            try:
                lines = path.read_text(errors="replace").splitlines()
            except OSError:
                continue
            yield from (line.strip() for line in lines if line.strip()[:1] not in ("", "#"))


def _is_meant(place: str, names: Sequence[str]) -> bool:
    """Tell whether a line is about a place; a `!` before a pattern that matches denies it."""
    if any(_names(place, name[1:]) for name in names if name.startswith("!")):
        return False
    return any(_names(place, name) for name in names)


def _names(place: str, pattern: str) -> bool:
    """Tell whether a name of the file, which may be hashed or a pattern, is that of a place."""
    if pattern.startswith("|1|"):
        try:
            return HostKeys.hash_host(place, pattern) == pattern
        except _BROKEN:
            return False
    # Brackets stand around addresses with a port, and are no pattern. OpenSSH minds no capitals.
    return fnmatchcase(place.lower(), pattern.lower().replace("[", "[[]"))
