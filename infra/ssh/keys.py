"""The keys that we log in with: exactly those that are named, and why each was no good."""

import os
import socket
import stat
from pathlib import Path
from typing import Any

import paramiko
from paramiko.agent import AgentSSH
from paramiko.ssh_exception import PasswordRequiredException, SSHException

from infra import secret_refs


class KeyFileError(Exception):
    """A private key cannot be used; the message names its file."""


def load_key(path: Path, passphrase: str | None) -> paramiko.PKey:
    """Read a private key of whatever type its file says. Raises KeyFileError.

    `passphrase` is a reference.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise KeyFileError(f"key {path}: {error.strerror}") from error
    if mode & 0o077:
        raise KeyFileError(f"key {path}: its permissions {mode:03o} let others in: chmod 600 it")
    try:
        secret = None if passphrase is None else secret_refs.resolve(passphrase)
    except secret_refs.SecretError as error:
        raise KeyFileError(f"key {path}: {error}") from error
    return _read(path, secret)


def _read(path: Path, secret: str | None) -> paramiko.PKey:
    # Bytes, whatever the annotation of the library says.
    passphrase: Any = None if secret is None else secret.encode()
    try:
        return paramiko.PKey.from_path(path, passphrase)
    except (PasswordRequiredException, TypeError) as error:
        # The library below says so by TypeError, for a missing and for a needless passphrase.
        if secret is not None:
            raise KeyFileError(f"key {path}: it has no passphrase, and one is given") from error
        mend = "add it to the agent (ssh-add), or name `passphrase`"
        raise KeyFileError(f"key {path}: it is encrypted: {mend}") from error
    except (SSHException, ValueError, OSError, UnicodeDecodeError) as error:
        if secret is not None:
            raise KeyFileError(f"key {path}: the passphrase does not open it") from error
        raise KeyFileError(f"key {path}: it is no private key that can be read") from error


def agent_keys(socket_path: Path | None = None) -> tuple[paramiko.PKey, ...]:
    """Return the keys of an agent, of the user's own by default; none where no agent runs."""
    path = socket_path or os.environ.get("SSH_AUTH_SOCK")
    try:
        return tuple(_Agent(str(path)).get_keys()) if path else ()
    except (SSHException, OSError):
        return ()


class _Agent(AgentSSH):
    """An agent at a socket. Its keys keep it open, as it is what signs."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._link.connect(path)
            self._connect(self._link)  # type: ignore[attr-defined] # not in the stubs
        except BaseException:
            self._link.close()
            raise

    def __del__(self) -> None:
        self._link.close()
