"""Text of hosts, logs and files reaches a terminal as text: nothing of it is obeyed or styled."""

import io
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.live import Live
from rich.table import Table

from orchestrator import files
from orchestrator.plain_console import plain_console
from orchestrator.state import State
from orchestrator.terminal import PlainStream, plain
from tests.attacks import attack
from tests.orchestrator.test_bad_files import _newest, _spoil, swept
from tests.patience import GIVE_UP_S

__all__ = ["swept"]

ATTACK = "\x1b]0;owned\x07\x1b[2J\x1b[1A\x9b31m\u202e[bold red]x[/]:skull:\r"
SHOWN = "?]0;owned??[2J?[1A?31m?[bold red]x[/]:skull:"
_OURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|[12]?K|[0-9]*A)|\r")
"""What Rich itself writes: styles, the cursor, and what it draws anew."""


def test_text_stays_and_what_is_obeyed_does_not() -> None:
    assert plain(ATTACK) == f"{SHOWN}?"
    assert plain("a\tb\nc\r\nd · é 漢 100 %") == "a\tb\nc\r\nd · é 漢 100 %"


@attack("Low: escape sequences and markup in a message, a log line and a traceback")
def test_a_stream_of_ours_takes_text_alone() -> None:
    raw = io.StringIO()
    stream = PlainStream(raw)
    print(ATTACK, file=stream)
    stream.writelines([ATTACK])
    assert raw.getvalue() == f"{SHOWN}?\n{SHOWN}?"
    assert stream.encoding == raw.encoding


@attack("Low: escape sequences and markup in a table that is drawn again and again")
def test_a_console_styles_only_what_is_ours() -> None:
    file = io.StringIO()
    console = plain_console(force_terminal=True, width=150)
    console.file = file
    table = Table(title=f"of {ATTACK}")
    table.add_column("n")
    table.add_row(ATTACK)
    with Live(table, console=console, redirect_stdout=False) as live:
        live.refresh()
        console.print(ATTACK)
    written = file.getvalue()
    assert "\x1b[" in written, "it is a terminal"
    text = _OURS.sub("", written)
    assert "\x1b" not in text
    assert text.count("[bold red]x[/]:skull:") >= 3
    assert "\x9b" not in written + text
    assert "\x1b[2J" not in written


def _typed(words: list[str], folder: Path) -> str:
    """Run a command on a terminal of its own; return all that the terminal gets."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "orchestrator", *words, "--state-dir", str(folder / "state")],
        cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "COLUMNS": "200"},
    ) as command:  # fmt: skip
        os.close(theirs)
        got = b""
        try:
            while part := os.read(ours, 1 << 16):
                got += part
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(ours)
        command.wait(GIVE_UP_S)
    return got.decode("utf-8", "replace")


@attack("Low: escape sequences and markup in every text of a result, seen by each command")
@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["status"], ["trials"], ["trials", "--csv"], ["explain", "1"],
              ["report", "--format", "markdown", "--output", "-"],
              ["export", "--trial", "1"], ["explain", ATTACK.replace("\0", "")]],
    ids=["status", "trials", "csv", "explain", "report", "export", "a trial of that name"],
)  # fmt: skip
def test_a_hostile_result_moves_no_cursor(swept: Path, tmp_path: Path, words: list[str]) -> None:
    shutil.copytree(swept, tmp_path / "state")
    files.name_once.cache_clear()
    folder = _newest(State(tmp_path / "state"))
    texts: dict[str, Any] = dict.fromkeys(
        ("reason", "host", "why", "quality_note", "signature", "engine_version", "fingerprint"),
        ATTACK,
    )
    _spoil(folder / "trials" / "0001" / "result.json", **texts, notes=[ATTACK])
    written = _typed(words, tmp_path)
    assert written
    assert not re.search(r"\x1b(?!\[)", written), ascii(written)
    assert "\x1b[2J" not in written
    text = _OURS.sub("", written)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\x9b" not in text
    assert "\u202e" not in text
