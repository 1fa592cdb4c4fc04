"""What OpenSSH itself makes of its configuration for one host: `ssh -G`.

It runs what `Match exec` names, as each `ssh HOST` of the user does.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from infra.ssh.options import LISTS, Settings
from infra.whole_session import run_to_end

ASK_S = 60.0
"""Wall seconds for one answer; a `Match exec` may ask a network."""

_OTHERS_WRITE = 0o022
_MAY_RUN = re.compile(r"exec|include", re.IGNORECASE)
_NO_QUESTION = re.compile(r"(unknown|illegal|invalid) option -- '?G")
_ALWAYS = ("hostname", "user", "port")


class AskError(Exception):
    """OpenSSH refuses the configuration; the message is its own."""


class NoAnswerError(Exception):
    """This OpenSSH cannot be asked, as it is older than 6.8."""


def ask(
    program: str, address: str, user: str | None, port: int | None, file: Path | None
) -> Settings:
    """Return what applies to a host. Raises AskError, NoAnswerError.

    `file` replaces the user's and the system's own; it is not used where others may write it and
    it may run a program, as OpenSSH would not use such a file of the user either.
    """
    if file is not None:
        _refuse_unsafe(file)
    words = ["-l", user] if user else []
    words += ["-p", str(port)] if port else []
    found = _answer(program, file, (*words, "--", address))
    plain = _plain(program)
    given = {
        option: values
        for option, values in found.items()
        if option in _ALWAYS or plain.get(option) != values
    }
    gone = dict.fromkeys(LISTS & plain.keys() - found.keys(), ())
    given.pop("host", None)
    return Settings({**given, **gone}, expanded=True)


@lru_cache
def _plain(program: str) -> Mapping[str, tuple[str, ...]]:
    """Return the answer without any configuration: the defaults of this OpenSSH."""
    return _answer(program, Path("/dev/null"), ("--", "localhost"))


def _answer(
    program: str, file: Path | None, words: tuple[str, ...]
) -> Mapping[str, tuple[str, ...]]:
    chosen = () if file is None else ("-F", str(file))
    try:
        done = run_to_end([program, *chosen, "-G", *words], ASK_S)
    except subprocess.TimeoutExpired as error:
        raise AskError(f"`ssh -G` gave no answer within {ASK_S:g} s") from error
    except OSError as error:
        raise NoAnswerError(f"{program} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        why = done.stderr.decode(errors="replace").strip() or f"it ended with {done.returncode}"
        if _NO_QUESTION.search(why):
            raise NoAnswerError(why)
        raise AskError("`ssh -G` refuses it: " + "; ".join(why.splitlines()))
    return _read(done.stdout.decode(errors="surrogateescape"))


def _read(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for line in text.split("\n"):
        option, _, value = line.partition(" ")
        option = option.lower()
        values = tuple(_paths(value)) if option.endswith("knownhostsfile") else (value,)
        if option:
            found[option] = (*found.get(option, ()), *values)
    return found


def _paths(line: str) -> list[str]:
    """Take a line of absolute paths apart; a word that begins none belongs to the one before."""
    found: list[str] = []
    for word in line.split(" "):
        if found and not word.startswith("/"):
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def _refuse_unsafe(file: Path) -> None:
    """Raise AskError for a file that others may write and that may name a program."""
    try:
        held = file.stat()
        text = file.read_text(errors="replace") if file.is_file() else ""
    except OSError as error:
        raise AskError(f"{file} cannot be read: {error.strerror}") from error
    is_own = held.st_uid in (0, os.getuid()) and not held.st_mode & _OTHERS_WRITE
    if not is_own and _MAY_RUN.search(text):
        why = "others may write it, and `Match exec` or a file that it includes may run a program"
        raise AskError(f"{why}: chmod go-w {file}")
