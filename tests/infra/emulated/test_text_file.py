"""A user's file as the model's text: every answer is a piece of it."""

from pathlib import Path

import pytest

from infra.emulated.text import EOS_ID, Kind, TextSource, render_all, seed_of
from infra.emulated.text_file import FileSource, TextFileError

LINES = [
    f"{number}. Zeile mit Wörtern, {number * 7919 % 1000} davon neu\n" for number in range(400)
]
WHOLE = "".join(LINES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "own.txt"
    file.write_text(WHOLE, encoding="utf-8")
    return file


def answer(source: TextSource, prompt: str, tokens: int) -> list[int]:
    return source.stream(seed_of(prompt), Kind.PROSE).window(0, tokens)


def test_an_answer_is_the_file_from_a_line_on(path: Path) -> None:
    source = FileSource(path)
    starts = set()
    for number in range(20):
        text = render_all(answer(source, f"p{number}", 400))
        assert text in WHOLE * 2
        starts.add(text.partition("\n")[0] + "\n")
    assert starts <= set(LINES)
    assert len(starts) > 15


def test_the_prompt_fixes_where_an_answer_starts(path: Path) -> None:
    assert answer(FileSource(path), "p", 500) == answer(FileSource(path), "p", 500)


def test_windows_agree_across_the_natural_end_and_the_end_of_the_file(path: Path) -> None:
    stream = FileSource(path).stream(7, Kind.THINK)
    end = stream.natural_tokens
    whole = stream.window(0, 3 * end)
    assert [stream.window(at, 1)[0] for at in range(3 * end)] == whole
    assert [at for at, token in enumerate(whole) if token == EOS_ID] == [end]
    assert render_all(whole[:end]).endswith("\n")
    assert render_all(whole) in WHOLE * 20
    assert stream.window(end - 3, 7) == whole[end - 3 : end + 4]


def test_a_file_without_lines_will_do(tmp_path: Path) -> None:
    path = tmp_path / "one line"
    path.write_text("word " * 2000, encoding="utf-8")
    stream = FileSource(path).stream(3, Kind.CODE)
    assert render_all(stream.window(0, 100)).split() == ["word"] * 100
    assert stream.natural_tokens >= 16


def test_a_file_that_changed_is_read_again(path: Path) -> None:
    before = answer(FileSource(path), "p", 50)
    path.write_text(WHOLE.upper() + "\n", encoding="utf-8")
    assert answer(FileSource(path), "p", 50) != before


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot be read"),
        (b"", "has 0 tokens"),
        (b"too short", "at least 1,000"),
        (b"\xff\xfe" * 2000, "is not UTF-8"),
    ],
)
def test_a_file_that_will_not_do_is_named(
    tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    path = tmp_path / "bad.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TextFileError, match=complaint) as error:
        FileSource(path)
    assert str(path) in str(error.value)
