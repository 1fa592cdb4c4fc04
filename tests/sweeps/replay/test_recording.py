"""Recordings keep streams whole, and logs of completions are read as they come."""

import gzip
import json
import os
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.problems import BadInputError
from sweeps.replay.completions import read_completions
from sweeps.replay.recording import PROMPT_TOKENS, Circumstances, Recording, read_recording
from sweeps.replay.streams import Stream
from tests.attacks import attack

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
    assert [problem.value for problem in error.value.problems] == [
        f"{path} line 2",
        f"{path} line 3",
    ]


def test_a_log_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no completion has two tokens"):
        read_completions(completions(tmp_path, [1], []))
    with pytest.raises(BadInputError, match="no such file"):
        read_completions(tmp_path / "none.jsonl")


def letters(text: str) -> list[int]:
    """Stand for a tokenizer: as strict as real ones with half a character."""
    return list(text.encode())


def test_marks_line_ends_gzip_and_lists_do_not_matter(tmp_path: Path) -> None:
    line, path = b'{"output_ids": [1, 2, 3]}', tmp_path / "log"
    for data in (
        b"\xef\xbb\xbf" + line + b"\n" + line,
        line + b"\r\n\r\n" + line + b"\r\n",
        gzip.compress(line + b"\n" + line + b"\n", mtime=0),
        b"[" + line + b",\n" + line + b"]",
        b"[\n [1, 2, 3],\n [1, 2, 3]\n]",
        b"[1, 2, 3]\n[1, 2, 3]",
    ):
        path.write_bytes(data)
        assert read_completions(path) == [Stream((), [1, 2, 3])] * 2


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"prompt":"hi","completion":"ok \\ud83d"}', "`completion` holds half a character"),
        ('{"prompt":"\\udc00","completion":"ok"}', "`prompt` holds half a character"),
        ('"\\ud83d"', "it holds half a character"),
        ('{"output_ids": [1, 2147483648]}', "item 2 of `output_ids` is 2147483648"),
        ('{"output_ids": [1, -1]}', "item 2 of `output_ids` is -1"),
        ('{"output_ids": [1, true]}', "item 2 of `output_ids` is True"),
        ('{"output_ids": [1], "prompt_ids": ["x"]}', "item 1 of `prompt_ids` is 'x'"),
        ('{"output_ids": "1 2 3"}', "`output_ids` is a string"),
        ('{"completion": [1, 2]}', "neither token ids nor text"),
        ('{"tools": [{}], "prompt": "a", "completion": "b"}', "`tools` changes"),
        ('{"completion": "a", "completion": "b"}', "stands twice"),
        ("[" * 100_000, "nested too deeply"),
        ("1" * 5000, "no JSON that can be read"),
        ("7", "neither token ids nor text"),
        ("null", "neither token ids nor text"),
    ],
)
def test_each_bad_line_has_its_number_and_reason(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f'{{"completion": "fine"}}\n\n{line}\n{{"completion": "fine too"}}\n')
    with pytest.raises(BadInputError) as refused:
        read_completions(path, letters)
    (problem,) = refused.value.problems
    assert problem.value == f"{path} line 3"
    assert why in problem.why
    assert problem.mend


@pytest.mark.parametrize(
    ("entry", "asked", "written"),
    [
        ({"instruction": "Translate: ", "input": "cat", "output": "chat"}, "Translate: \ncat",
         "chat"),
        ({"question": "Hi?", "answer": "Ave."}, "Hi?", "Ave."),
        ({"input": "Hi?", "output": "Ave."}, "Hi?", "Ave."),
        ({"prompt": "Hi?", "text": "Ave.", "meta_info": {"id": "x"}}, "Hi?", "Ave."),
        ({"messages": [{"role": "user", "content": "Hi?"}], "response": "Ave."}, "Hi?", "Ave."),
        ({"prompt": None, "completion": "Ave."}, "", "Ave."),
    ],
)  # fmt: skip
def test_all_that_was_asked_stands_before_what_was_written(
    tmp_path: Path, entry: object, asked: str, written: str
) -> None:
    (stream,) = read_completions(completions(tmp_path, entry), letters)
    assert (bytes(stream.prompt).decode(), bytes(stream.output).decode()) == (asked, written)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(BadInputError, match="it is no file"):
            read_completions(path)
        with pytest.raises(BadInputError, match="it is no file"):
            read_recording(path)


HEAD = json.loads(RECORDING.as_bytes().partition(b"\n")[0])
IDS = RECORDING.as_bytes().partition(b"\n")[2]


@pytest.mark.parametrize(
    ("head", "ids"),
    [
        ([], IDS), ("x", IDS), (None, IDS), ({**HEAD, "lengths": [6, -2, 1, 1]}, IDS),
        ({**HEAD, "lengths": [2, 3, 0, True, 0]}, IDS), ({**HEAD, "lengths": [2.0, 3, 0, 1]}, IDS),
        ({**HEAD, "lengths": [2**40, 3, 0, 1]}, IDS), ({**HEAD, "parts": [1, 2]}, IDS),
        ({**HEAD, "lengths": {}}, IDS), ({**HEAD, "model": 5}, IDS), ({**HEAD, "more": 1}, IDS),
        ({**HEAD, "temperature": "cold"}, IDS), ({**HEAD, "emulated": "no"}, IDS), (HEAD, b""),
        (HEAD, zlib.compress(bytes(1 << 24))), (HEAD, zlib.compress(bytes(23))), (HEAD, IDS[:-4]),
    ],
)  # fmt: skip
def test_a_spoilt_recording_is_refused_whatever_it_says(
    tmp_path: Path, head: object, ids: bytes
) -> None:
    path = tmp_path / "a.recording"
    path.write_bytes(json.dumps(head).encode() + b"\n" + ids)
    with pytest.raises(BadInputError, match="no recording"):
        read_recording(path)
    path.write_bytes(b"[" * 100_000 + b"\n" + ids)
    with pytest.raises(BadInputError, match="no recording"):
        read_recording(path)


@attack("14: a small recording that unpacks to very much")
def test_a_recording_that_unpacks_to_much_costs_little(tmp_path: Path) -> None:
    path = tmp_path / "a.recording"
    path.write_bytes(json.dumps(HEAD).encode() + b"\n" + zlib.compress(bytes(1 << 28)))
    tracemalloc.start()
    with pytest.raises(BadInputError, match="no recording"):
        read_recording(path)
    most_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most_bytes < 4 * path.stat().st_size
