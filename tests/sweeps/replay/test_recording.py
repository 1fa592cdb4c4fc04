"""Recordings keep streams whole, and logs of completions are read as they come."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.problems import BadInputError
from sweeps.replay.completions import read_completions
from sweeps.replay.recording import PROMPT_TOKENS, Circumstances, Recording, read_recording
from sweeps.replay.streams import Stream

RECORDING = Recording(
    Circumstances("models/k2", "ab12", 0.6, "work", "reasoning", "0.5.23", "h1", emulated=True),
    (Stream([5, 6], [1, 163_839, 3], part="cold pass"), Stream([], [7], part="measuring")),
)


def test_a_recording_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.recording"
    path.write_bytes(RECORDING.as_bytes())
    told = read_recording(path)
    assert (told, told.key) == (RECORDING, RECORDING.key)
    assert told.output_tokens == 4


def test_the_key_tells_other_tokens_and_other_circumstances_apart() -> None:
    other = replace(RECORDING, circumstances=replace(RECORDING.circumstances, temperature=0.0))
    shorter = replace(RECORDING, streams=RECORDING.streams[:1])
    assert len({RECORDING.key, other.key, shorter.key}) == 3


def test_of_a_long_prompt_the_end_is_kept_in_little_room(tmp_path: Path) -> None:
    long = Recording(Circumstances("m"), (Stream(range(10_000), [1, 2, 3] * 2000),))
    path = tmp_path / "a.recording"
    path.write_bytes(long.as_bytes())
    assert read_recording(path).streams[0].prompt == list(range(10_000))[-PROMPT_TOKENS:]
    assert path.stat().st_size < 1000


@pytest.mark.parametrize("spoilt", [b"", b"{}\n", RECORDING.as_bytes()[:-4], b"\xff\xfe"])
def test_what_is_no_recording_is_refused(tmp_path: Path, spoilt: bytes) -> None:
    path = tmp_path / "a.recording"
    path.write_bytes(spoilt)
    with pytest.raises(BadInputError, match="no recording"):
        read_recording(path)
    with pytest.raises(BadInputError, match="No such file"):
        read_recording(tmp_path / "none.recording")


def completions(folder: Path, *entries: object) -> Path:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_ids_are_read_under_their_usual_names(tmp_path: Path) -> None:
    path = completions(
        tmp_path,
        [1, 2, 3],
        {"output_ids": [4, 5], "prompt_ids": [9]},
        {"text": "seen but not needed", "token_ids": [6, 7], "input_ids": [8]},
    )
    assert read_completions(path) == [
        Stream((), [1, 2, 3]), Stream([9], [4, 5]), Stream([8], [6, 7]),
    ]  # fmt: skip


def test_text_needs_a_tokenizer(tmp_path: Path) -> None:
    path = completions(tmp_path, "abc", {"prompt": "x", "completion": "de"})
    with pytest.raises(BadInputError, match="--tokenizer"):
        read_completions(path)
    told = read_completions(path, lambda text: [ord(letter) for letter in text])
    assert told == [Stream((), [97, 98, 99]), Stream([120], [100, 101])]


def test_each_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('[1, 2]\n{"ids": [1, "2"]}\nno JSON\n')
    with pytest.raises(BadInputError) as error:
        read_completions(path)
    assert [problem.field for problem in error.value.problems] == ["line 2", "line 3"]


def test_a_log_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no completion has two tokens"):
        read_completions(completions(tmp_path, [1], []))
    with pytest.raises(BadInputError, match="No such file"):
        read_completions(tmp_path / "none.jsonl")
