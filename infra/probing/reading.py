"""How a fact is read: each beside the others, with a deadline, and a failure is a note."""

import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from infra.probing.facts import Note
from infra.whole_session import run_to_end

_T = TypeVar("_T")
_MOST_CHARS = 600
_HEAD_CHARS = 200


class ReadError(Exception):
    """A fact cannot be read; the text says why."""

    def __init__(self, why: str, printed: str = "") -> None:
        super().__init__(why)
        self.printed = printed
        """What a program that failed had printed: some of it may be good."""


class Readings:
    """Facts that are being read, each by a thread of its own, and notes on those that failed."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def start(
        self, fact: str, read: Callable[[], _T], fallback: _T, deadline_s: float
    ) -> Callable[[], _T]:
        """Start to read; what is returned waits, and gives the fallback where reading fails.

        A read that is still at it after its deadline is left behind: no file system can be hurried.
        """
        future: Future[_T] = Future()

        def work() -> None:
            try:
                future.set_result(read())
            except BaseException as error:  # noqa: BLE001 - raised where the fact is asked for
                future.set_exception(error)

        threading.Thread(target=work, name=f"probe {fact}", daemon=True).start()

        def collect() -> _T:
            try:
                return future.result(deadline_s)
            except TimeoutError:
                self.notes.append(Note(fact, f"no answer within {deadline_s:g} s"))
            except (ReadError, OSError, ValueError) as error:
                self.notes.append(Note(fact, str(error) or type(error).__name__))
            return fallback

        return collect

    def start_many(
        self, fact: str, read: Callable[[], tuple[_T, ...]], deadline_s: float
    ) -> Callable[[], tuple[_T, ...]]:
        """Start to read a number of things; none of them where reading fails."""
        return self.start(fact, read, (), deadline_s)


def ask(argv: Sequence[str], env: Mapping[str, str], deadline_s: float, cwd: Path) -> str:
    """Run a program that answers and ends; return what it printed. Raises ReadError.

    It gets a session of its own, and none of it outlives the deadline.
    """
    try:
        done = run_to_end(argv, deadline_s, env=env, cwd=cwd)
    except OSError as error:
        raise ReadError(f"{argv[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ReadError(f"no answer within {deadline_s:g} s") from error
    printed, complained = _text(done.stdout), _text(done.stderr)
    if done.returncode != 0:
        words = message_of(complained, printed)
        reason = f": {words}" if words else ""
        why = f"{Path(argv[0]).name} ended with {done.returncode}{reason}"
        raise ReadError(why, printed)
    return printed


def message_of(*texts: str) -> str:
    """Return all that a failing program said, as one line of printable characters.

    Of what is long, the head and the end stay: a tool tells the cause first, a traceback last.
    """
    lines = [" ".join(line.split()) for text in texts for line in text.splitlines()]
    said = "; ".join(line for line in dict.fromkeys(lines) if line)
    shown = "".join(char if char.isprintable() else "?" for char in said)
    if len(shown) <= _MOST_CHARS:
        return shown
    return f"{shown[:_HEAD_CHARS]} ... {shown[_HEAD_CHARS - _MOST_CHARS :]}"


def _text(data: bytes) -> str:
    """Read what a program printed; every end of a line is one."""
    return data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
