"""Tokens and variables in the words of an SSH configuration, as ssh_config(5) lists them."""

import getpass
import os
import pwd
import re
import socket
from collections.abc import Mapping
from pathlib import Path

_TOKEN = re.compile(r"%(.?)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{([^}]*)\}?")


class TokenError(ValueError):
    """A word holds a token or a variable that cannot be replaced; the message names it."""


def local_tokens() -> dict[str, str]:
    """Return the tokens that are the same for every host."""
    name = socket.gethostname()
    return {
        "%": "%", "d": str(Path.home()), "i": str(os.getuid()), "l": name,
        "L": name.partition(".")[0], "u": getpass.getuser(),
    }  # fmt: skip


def replaced(text: str, tokens: Mapping[str, str]) -> str:
    """Return a text with its tokens replaced. Raises TokenError."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in tokens:
            raise TokenError(f"the token %{match[1]} is not known here")
        return tokens[match[1]]

    return _TOKEN.sub(value, text)


def path_of(text: str, tokens: Mapping[str, str]) -> Path:
    """Return a file that is named with a home, tokens and variables. Raises TokenError."""

    def variable(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise TokenError(f"the variable {match[0]} is not set")
        return os.environ[match[1]]

    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        raise TokenError(f"{text} names the home of nobody here") from error
    return Path(_VARIABLE.sub(variable, replaced(str(path), tokens)))


def account_home() -> Path:
    """Return what OpenSSH takes for `~`: the home of the account, whatever HOME says."""
    return Path(pwd.getpwuid(os.getuid()).pw_dir)


def in_our_home(path: Path) -> Path:
    """Return a file of OpenSSH's home below HOME, where that names another."""
    account, home = account_home(), Path.home()
    return home / path.relative_to(account) if path.is_relative_to(account) else path
