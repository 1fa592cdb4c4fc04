"""Rows written from parsers, and a parser that cannot be fetched; nothing is downloaded here."""

import json
from pathlib import Path

import pytest

from infra.sglang_cpu.errors import BuildError
from infra.sglang_parsers.__main__ import main
from infra.sglang_parsers.build import CHECKED, parser_dump, pinned_versions
from infra.sglang_parsers.dumps import Dump, read_dump
from infra.sglang_parsers.rows import choices_of, row_of


def dump(tmp_path: Path, *options: dict[str, object]) -> Dump:
    plain = {"action": "StoreAction", "kind": "str", "choices": None, "default": None}
    written = [
        {"names": [f"--{option['dest']}".replace("_", "-")], "many": False, **plain, **option}
        for option in options
    ]
    file = tmp_path / "options.json"
    file.write_text(json.dumps(written))
    return read_dump(file)


def test_a_row_says_when_a_flag_came_and_what_its_default_became(tmp_path: Path) -> None:
    dumps = {
        "0.5.2": dump(tmp_path),
        "0.5.3": dump(tmp_path, {"dest": "new_flag", "kind": "human_readable_int", "default": 1}),
        "0.5.4": dump(tmp_path, {"dest": "new_flag", "kind": "int", "default": 4}),
        "0.5.5": dump(tmp_path),
    }
    row = row_of(dumps, "new_flag")
    assert row.strip() == (
        '"new_flag": Flag(int, 1, first="0.5.3", last="0.5.4", defaults=(("0.5.4", 4),)),'
    )
    with pytest.raises(KeyError):
        row_of(dumps, "no_flag")


def test_choices_say_what_came_and_what_left(tmp_path: Path) -> None:
    dumps = {
        "0.5.2": dump(tmp_path, {"dest": "way", "choices": ["a", "b"]}),
        "0.5.3": dump(tmp_path, {"dest": "way", "choices": ["a", "b", "c"]}),
        "0.5.4": dump(tmp_path, {"dest": "way", "choices": ["a", "c"]}),
    }
    text = choices_of(dumps, "way")
    assert '"a b",' in text
    assert '"0.5.3": "c",' in text
    assert 'gone={\n            "0.5.3": "b",' in text
    dumps["0.5.5"] = dump(tmp_path, {"dest": "way", "choices": ["a", "b"]})
    with pytest.raises(ValueError, match="b left and came back"):
        choices_of(dumps, "way")


def test_every_checked_version_has_pins() -> None:
    assert set(CHECKED) <= set(pinned_versions())
    assert len(CHECKED) >= 5


def test_a_version_without_pins_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        parser_dump("0.4.0", tmp_path)


def test_without_an_index_the_error_says_what_could_not_be_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(BuildError, match=r"fetch SGLang 0\.5\.9"):
        parser_dump("0.5.9", tmp_path / "parsers")
    assert main(["--versions", "0.5.9", "--root", str(tmp_path / "parsers")]) == 1
    assert "error: fetch SGLang 0.5.9" in capsys.readouterr().err
