"""Words reach a program unchanged, whatever they hold: read back by a real shell."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from infra.ssh.quoting import command_line, exports, quote, reading_exports

_WORDS = st.lists(st.text(st.characters(blacklist_characters="\0", codec="utf-8")), max_size=30)
_SHELLS = [shell for shell in ("sh", "bash", "dash") if shutil.which(shell)]
_HOSTILE = [
    "", " ", "a b", "it's", '"', "'", "''", "$HOME", "`id`", "$(id)", "\\", "\\'", "!", "!!", "*",
    "~", "~root", "a\nb", "\n", "\t", "-n", "--", "a=b", "=b", ";", "&&", "|", ">", "#", "{a,b}",
    "née", "\x7f", "\x01", "%s", "[a-z]", "?",
]  # fmt: skip


def read_back(line: str, shell: str = "sh", stdin: bytes = b"") -> list[str]:
    """Run a line that prints its words with a NUL after each."""
    done = subprocess.run([shell, "-c", line], input=stdin, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().split("\0")[:-1]


def printing(words: list[str], env: dict[str, str] | None = None) -> str:
    """Return a line that prints words as they arrive."""
    # printf repeats its format, once also for no word at all.
    return command_line(["sh", "-c", 'for w; do printf "%s\\0" "$w"; done', "sh", *words], env)


@settings(max_examples=15)
@given(_WORDS)
@example(_HOSTILE)
def test_a_shell_reads_back_what_was_written(words: list[str]) -> None:
    assert read_back(printing(words)) == words


@pytest.mark.parametrize("shell", _SHELLS)
def test_every_shell_agrees(shell: str) -> None:
    assert read_back(printing(_HOSTILE), shell) == _HOSTILE


@pytest.mark.parametrize("value", _HOSTILE)
def test_variables_arrive_unchanged(value: str) -> None:
    line = command_line(["sh", "-c", 'printf "%s\\0" "$SWEPT"'], {"SWEPT": value})
    assert read_back(line) == [value]


@pytest.mark.parametrize("value", [value for value in _HOSTILE if "\n" not in value])
def test_hidden_variables_come_by_the_input_and_leave_the_rest_of_it(value: str) -> None:
    show = 'printf "%s\\0" "$TOKEN" "$hidden" "$(cat)"'
    line = reading_exports(command_line(["sh", "-c", show]))
    stdin = exports({"TOKEN": value}).encode() + b"\nrest"
    assert read_back(line, stdin=stdin) == [value, "", "rest"]


def test_a_directory_may_have_any_name(tmp_path: Path) -> None:
    for name in ("-", "a b", "it's"):
        (tmp_path / name).mkdir()
        line = f"cd {quote(str(tmp_path))} && {command_line(['pwd'], cwd=name)}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60)
        assert done.stdout == f"{tmp_path / name}\n"


@pytest.mark.parametrize(
    "make",
    [
        lambda: command_line(["a\0b"]),
        lambda: command_line([]),
        lambda: command_line([""]),
        lambda: command_line(["a"], {"A B": "x"}),
        lambda: command_line(["a"], {"A;B": "x"}),
        lambda: exports({"A": "x\ny"}),
    ],
)
def test_what_no_shell_can_pass_on_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=r"NUL|program|variable"):
        make()


def test_a_program_with_an_equals_sign_is_no_variable() -> None:
    line = command_line(["./a=b"], {"X": "1"})
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.returncode == 127
    assert "a=b" in done.stderr
