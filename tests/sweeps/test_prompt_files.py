"""Users' prompt files are read in each form, and each bad line is named with its mend."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps import json_lines
from sweeps.problems import BadInputError, Problem
from sweeps.prompt_files import read_prompts
from sweeps.prompts import Message, Prompt, PromptSet

HUMAN = {"from": "human", "value": "Hi?"}
GPT = {"from": "gpt", "value": "Hello."}


def _read(tmp_path: Path, data: str | bytes) -> PromptSet:
    path = tmp_path / "asked.jsonl"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_prompts(path)


def _problems(tmp_path: Path, data: str | bytes) -> list[Problem]:
    with pytest.raises(BadInputError) as caught:
        _read(tmp_path, data)
    assert caught.value.source == str(tmp_path / "asked.jsonl")
    assert all(p.field == "workload.prompts" and p.mend for p in caught.value.problems)
    return list(caught.value.problems)


def _roles(entry: object, tmp_path: Path) -> list[str]:
    (prompt,) = _read(tmp_path, json.dumps([entry])).prompts
    return [message.role for message in prompt.messages]


@pytest.mark.parametrize(
    "entry",
    [
        "Hi?",
        {"prompt": "Hi?", "max_tokens": 5},
        {"text": "Hi?"},
        {"messages": [{"role": "user", "content": "Hi?"}], "prompt": "Hi?"},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi?"}]}]},
        {"messages": [{"role": "user", "content": "Hi?"},
                      {"role": "assistant", "content": "Hello."}]},
        {"id": "x", "conversations": [HUMAN, GPT]},
        {"conversations": [GPT, HUMAN, GPT]},
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["line", "list"])
def test_reads(tmp_path: Path, entry: object, form: str) -> None:
    data = json.dumps(entry) if form == "line" else json.dumps([entry], indent=1)
    assert _read(tmp_path, data).prompts == (Prompt((Message("user", "Hi?"),)),)


def test_keeps_the_turns_up_to_the_last_question(tmp_path: Path) -> None:
    system = {"role": "system", "content": "Be brief."}
    user = {"role": "user", "content": "And?"}
    assert _roles({"messages": [system, user, {"role": "assistant", "content": "x"}, user]},
                  tmp_path) == ["system", "user", "assistant", "user"]  # fmt: skip
    said = [{"from": "system", "value": "Be brief."}, GPT, HUMAN, GPT, HUMAN, GPT]
    assert _roles({"conversations": said}, tmp_path) == ["system", "user", "assistant", "user"]


def test_blank_lines_marks_and_line_ends_do_not_matter(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf\r\n"a"\r\n\r\n  {"prompt": "b\\u2028c"}\r\n"d\xe2\x80\xa8e"'
    assert [prompt.text for prompt in _read(tmp_path, data).prompts] == [
        "a",
        "b\u2028c",
        "d\u2028e",
    ]


def test_what_repeats_or_asks_nothing_is_passed_over(tmp_path: Path) -> None:
    silent: list[object] = [{"conversations": []}, {"conversations": [GPT]},
                            {"conversations": [{"from": "human", "value": " "}]}]  # fmt: skip
    found = _read(tmp_path, json.dumps(["a", "b", "a", {"prompt": "a"}, *silent]))
    assert [prompt.text for prompt in found.prompts] == ["a", "b"]
    assert found.passed_over == 5


USER = '{"role": "user", "content": "x"}'


@pytest.mark.parametrize(
    ("line", "why", "mend"),
    [
        (b"{", "no JSON", "or \"...\""),
        (b'{"prompt": "x"} {"prompt": "y"}', "Extra data", "Write"),
        (b'"caf\xe9"', "byte 5 is no UTF-8", "UTF-8"),
        (b'"a"'.decode().encode("utf-16"), "byte 1 is no UTF-8", "UTF-8"),
        (b"7", "it is a number", "Write"),
        (b"null", "it is null", "Write"),
        (b"1" * 5000, "no JSON that can be read", "Write"),
        (b'{"a":' * 100_000, "no JSON that can be read", "Write"),
        (b"{}", "none of the keys messages, conversations, conversation, prompt", "Write"),
        (b'{"mesages": []}', "none of the keys", "Did you mean `messages`?"),
        (b'{"prompt": 3}', "`prompt` is a number", "Write"),
        (b'{"prompt": " "}', "the prompt is empty", "take the line out"),
        (b'""', "the prompt is empty", "take the line out"),
        (b'{"text": "\\ud83d"}', "half a character: '\\ud83d'", "pair"),
        (b'{"messages": "x"}', "`messages` is a string", "Write"),
        (b'{"messages": []}', "no message of a user", "End `messages`"),
        (b'{"messages": [3]}', "message 1 is a number", "Write"),
        (b'{"messages": [{"role": "usr", "content": "x"}]}', "has 'usr' as its `role`", "`user`"),
        (b'{"messages": [{"role": ["user"], "content": "x"}]}', "has ['user'] as", "`user`"),
        (b'{"messages": [{"role": "user", "content": null}]}', "content of message 1 is null", ""),
        (f'{{"messages": [{USER}, {{"role": "system", "content": "y"}}]}}'.encode(),
         "no message of a user", "End `messages`"),
        (f'{{"messages": [{USER}, {{"role": "tool", "content": "y"}}]}}'.encode(),
         "message 2 is of a tool (tool)", "Take the entry out"),
        (b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
         "a part that is not text", "Only text"),
        (b'{"conversations": {"from": "human"}}', "`conversations` is an object", "Write"),
        (b'{"conversations": [true]}', "message 1 is a truth value", "Write"),
        (b'{"conversations": [{"from": "robot", "value": "x"}]}', "has 'robot' as", "human"),
        (b'{"conversations": [{"from": "human"}]}', "the content of message 1 is null", "Write"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, why: str, mend: str) -> None:
    (problem,) = _problems(tmp_path, b'"good"\n\n' + line + b'\n"good too"\n')
    assert problem.value == f"{tmp_path / 'asked.jsonl'} line 3"
    assert why in problem.why
    assert mend in problem.mend


def test_a_bad_entry_of_a_list_is_named(tmp_path: Path) -> None:
    (problem,) = _problems(tmp_path, '["a", {"conversations": [{"from": 1, "value": "x"}]}]')
    assert problem.value.endswith(" entry 2")


def test_a_broken_list_names_its_line(tmp_path: Path) -> None:
    (problem,) = _problems(tmp_path, '[\n"a",\n"b"\n"c"]')
    assert "line 4, column 1" in problem.why
    assert "one JSON list" in problem.mend


def test_of_many_bad_lines_the_first_are_told_and_the_rest_counted(tmp_path: Path) -> None:
    found = _problems(tmp_path, "\n".join(["x"] * 12))
    assert [p.value.rpartition(" ")[2] for p in found[:5]] == list("12345")
    assert "7 more" in found[5].why
    assert len(found) == 6


@pytest.mark.parametrize("data", [b"", b"\n \n", b"[]", b'[{"conversations": []}]'])
def test_an_empty_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (problem,) = _problems(tmp_path, data)
    assert problem.why == "it holds no prompt"


def test_what_is_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "not-there", tmp_path / "pipe", tmp_path / ("x" * 300)):
        with pytest.raises(BadInputError):
            read_prompts(path)
    (tmp_path / "large").write_text('"abc"')
    monkeypatch.setattr(json_lines, "MOST_BYTES", 4)
    with pytest.raises(BadInputError, match="5 bytes"):
        read_prompts(tmp_path / "large")


@settings(max_examples=100, deadline=None)
@given(
    data=st.binary(max_size=60) | st.from_regex(r'\{"(prompt|messages)": .{0,30}\}').map(str.encode)
)
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(data)
    try:
        assert read_prompts(path).prompts
    except BadInputError as refused:
        assert refused.problems


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=8, unique=True))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "texts.jsonl"
    for dump in ("\n".join(map(json.dumps, texts)), json.dumps([{"text": t} for t in texts])):
        path.write_text(dump)
        assert [prompt.text for prompt in read_prompts(path).prompts] == texts
