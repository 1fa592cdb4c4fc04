"""Entries in the forms of public sets: what belongs to a prompt is sent, or refused by its name."""

import gzip
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sweeps import json_lines
from sweeps.problems import BadInputError, Problem
from sweeps.prompt_files import read_prompts
from sweeps.prompts import Message, PromptSet

HI = {"role": "user", "content": "Hi?"}
AVE = {"role": "assistant", "content": "Ave."}
HUMAN = {"from": "human", "value": "Hi?"}
GPT = {"from": "gpt", "value": "Ave."}
USER = ("user", "Hi?")

SENT: list[tuple[str, Any, list[tuple[str, str]]]] = [
    # Where the form is documented or used, an entry, and the messages that it becomes.
    ("hiyouga/LLaMA-Factory data/README: sharegpt with a system column",
     {"system": "Be brief.", "conversations": [HUMAN, GPT], "tools": ""},
     [("system", "Be brief."), USER]),
    ("hiyouga/LLaMA-Factory data/README: alpaca",
     {"instruction": "Translate:", "input": "cat", "output": "chat"},
     [("user", "Translate:\ncat")]),
    ("hiyouga/LLaMA-Factory data/README: alpaca with system and history",
     {"instruction": "Thanks", "input": "", "output": "x", "system": "Be brief.",
      "history": [["Hi?", "Ave."]]},
     [("system", "Be brief."), USER, ("assistant", "Ave."), ("user", "Thanks")]),
    ("yahma/alpaca-cleaned: no input",
     {"instruction": "Hi?", "input": "", "output": "Ave."}, [USER]),
    ("huggingface/trl docs/dataset_formats: conversational prompt-only", {"prompt": [HI]}, [USER]),
    ("huggingface/trl docs/dataset_formats: conversational prompt-completion",
     {"prompt": [HI], "completion": [AVE]}, [USER]),
    ("Magpie sets: conversations with role and content",
     {"conversations": [HI, AVE]}, [USER]),
    ("allenai/WildChat: conversation, with facts on each turn",
     {"conversation_hash": "x", "model": "m", "turn": 1,
      "conversation": [{**HI, "language": "en", "toxic": False}, AVE]}, [USER]),
    ("lmsys/lmsys-chat-1m", {"conversation_id": "1", "conversation": [HI, AVE]}, [USER]),
    ("teknium/OpenHermes-2.5: an empty system prompt",
     {"conversations": [HUMAN, GPT], "system_prompt": None}, [USER]),
    ("Open-Orca/OpenOrca",
     {"id": "niv.1", "system_prompt": "Be brief.", "question": "Hi?", "response": "Ave."},
     [("system", "Be brief."), USER]),
    ("openai/gsm8k", {"question": "Hi?", "answer": "#### 4"}, [USER]),
    ("HuggingFaceH4/ultrachat_200k: the first question beside its messages",
     {"prompt": "Hi?", "prompt_id": "x", "messages": [HI, AVE]}, [USER]),
    ("OpenAI, batch input files",
     {"custom_id": "r-1", "method": "POST", "url": "/v1/chat/completions",
      "body": {"model": "m", "messages": [HI]}}, [USER]),
    ("messages under OpenAI's key in ShareGPT's form", {"messages": [HUMAN, GPT]}, [USER]),
    ("the system's text in both places",
     {"system": "S", "messages": [{"role": "system", "content": "S"}, HI]},
     [("system", "S"), USER]),
    ("axolotl-ai-cloud/axolotl: a rendered text beside its messages",
     {"messages": [HI], "text": "<|im_start|>user\nHi?<|im_end|>"}, [USER]),
]  # fmt: skip

REFUSED: list[tuple[str, Any, str]] = [
    # Where it is from, an entry, and the key or role that the refusal names.
    ("hiyouga/LLaMA-Factory: tools", {"conversations": [HUMAN, GPT], "tools": "[{}]"}, "tools"),
    ("hiyouga/LLaMA-Factory: turns of tools",
     {"conversations": [HUMAN, {"from": "function_call", "value": "{}"},
                        {"from": "observation", "value": "1"}, GPT, HUMAN]}, "function_call"),
    ("OpenAI chat: tools", {"messages": [HI], "tools": [{"type": "function"}]}, "tools"),
    ("OpenAI chat: calls of tools",
     {"messages": [HI, {"role": "assistant", "content": "", "tool_calls": [{}]}, HI]},
     "tool_calls"),
    ("OpenAI chat: a participant's name", {"messages": [{**HI, "name": "ann"}]}, "name"),
    ("OpenAI completions: a suffix", {"prompt": "def f(", "suffix": "return 1"}, "suffix"),
    ("OpenAI responses: instructions", {"input": "Hi?", "instructions": "In Latin."},
     "instructions"),
    ("SGLang and vLLM: arguments of the template",
     {"messages": [HI], "chat_template_kwargs": {"enable_thinking": True}},
     "chat_template_kwargs"),
    ("SGLang /generate: an image", {"text": "Hi?", "image_data": "x.png"}, "image_data"),
    ("databricks/databricks-dolly-15k",
     {"instruction": "Who?", "context": "Ann came.", "response": "Ann"}, "context"),
    ("axolotl-ai-cloud/axolotl: context_qa", {"article": "Ann came.", "question": "Who?"},
     "article"),
    ("cais/mmlu", {"question": "2+2?", "choices": ["3", "4"], "answer": 1}, "choices"),
    ("DeepSeek chat: a prefix of the answer",
     {"messages": [HI, {**AVE, "prefix": True}]}, "prefix"),
    ("Qwen and Kimi: a partial answer", {"messages": [HI, {**AVE, "partial": True}]}, "partial"),
    ("DeepSeek: reasoning of an earlier turn",
     {"messages": [HI, {**AVE, "reasoning_content": "r"}, HI]}, "reasoning_content"),
    ("OpenAI completions: several prompts", {"prompt": ["a", "b"]}, "list of 2 texts"),
    ("OpenAI completions: token ids", {"prompt": [1, 2, 3]}, "token ids"),
    ("two prompts that differ", {"messages": [HI], "prompt": "Another."},
     "`messages` and `prompt`"),
    ("an instruction beside a conversation",
     {"instruction": "Fix it.", "conversations": [{"role": "user", "content": ""}]},
     "`conversations` and `instruction`"),
    ("two texts of the system",
     {"system": "A", "messages": [{"role": "system", "content": "B"}, HI]}, "`system`"),
]  # fmt: skip


def _read(folder: Path, entry: object) -> PromptSet:
    path = folder / "asked.jsonl"
    path.write_text(json.dumps(entry) + "\n")
    return read_prompts(path)


def _problem(folder: Path, entry: object) -> Problem:
    with pytest.raises(BadInputError) as refused:
        _read(folder, entry)
    (problem,) = refused.value.problems
    assert problem.value.endswith("line 1")
    return problem


@pytest.mark.parametrize(("source", "entry", "messages"), SENT)
def test_all_of_a_prompt_is_sent(
    tmp_path: Path, source: str, entry: object, messages: list[tuple[str, str]]
) -> None:
    (prompt,) = _read(tmp_path, entry).prompts
    assert prompt.messages == tuple(Message(*one) for one in messages), source


@pytest.mark.parametrize(("source", "entry", "named"), REFUSED)
def test_what_is_not_sent_is_named(tmp_path: Path, source: str, entry: object, named: str) -> None:
    problem = _problem(tmp_path, entry)
    assert named in problem.why, source
    assert problem.mend


@pytest.mark.parametrize(
    ("entry", "mended"),
    [(entry, json.loads(json.dumps(entry))) for _, entry, _ in REFUSED],
)
def test_a_mend_that_takes_a_key_out_works(tmp_path: Path, entry: object, mended: Any) -> None:
    mend = _problem(tmp_path, entry).mend
    found = re.search(r"Take `(\w+)`(?: or `(\w+)`)? out", mend)
    if found is None:
        assert re.search(r"Write|Keep|Take the entry out|Take that message out", mend)
        return
    name = found.group(1) if found.group(2) != "instruction" else "conversations"
    _without(mended, name)
    assert len(_read(tmp_path, mended).prompts) == 1


def _without(entry: Any, name: str) -> None:
    for holder in (entry, *(entry.get("messages") or ())):
        holder.pop(name, None)


def test_other_mends_work(tmp_path: Path) -> None:
    """What the other refusals advise: one text of the system, the message out, one a line."""
    assert _read(tmp_path, {"messages": [{"role": "system", "content": "B"}, HI]}).prompts
    assert _read(tmp_path, {"messages": [HI]}).prompts
    assert "line of its own" in _problem(tmp_path, {"prompt": ["a", "b"]}).mend
    path = tmp_path / "lines.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    assert len(read_prompts(path).prompts) == 2
    said = {"conversations": [HUMAN, GPT, {"from": "human", "value": "It is 1."}]}
    assert len(_read(tmp_path, said).prompts) == 1


def test_what_is_beside_a_prompt_is_told(tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"
    entries = [{"id": 1, "source": "x", "conversations": [GPT, HUMAN, GPT]},
               {"id": 2, "prompt": "b", "system": ""}]  # fmt: skip
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert read_prompts(path).unsent == (
        "id", "what an assistant says before the first question", "source",
    )  # fmt: skip


def test_a_line_that_is_a_list_of_turns_is_one_prompt(tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"
    other = {"role": "user", "content": "b"}
    path.write_text(f"{json.dumps([HI, AVE])}\n{json.dumps([other])}\n")
    assert [prompt.text for prompt in read_prompts(path).prompts] == ["Hi?", "b"]


LINES = b'{"prompt": "a"}\n{"prompt": "b"}\n'


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + LINES,
        LINES.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + LINES[:16] + b"\xef\xbb\xbf" + LINES[16:],  # two files in one
        gzip.compress(LINES, mtime=0),
        gzip.compress(LINES[:16], mtime=0) + gzip.compress(LINES[16:], mtime=0),
        gzip.compress(b'[{"prompt": "a"},\n {"prompt": "b"}]', mtime=0),
    ],
)
def test_marks_line_ends_and_gzip_do_not_matter(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "asked"
    path.write_bytes(data)
    assert [prompt.text for prompt in read_prompts(path).prompts] == ["a", "b"]


@pytest.mark.parametrize(
    ("data", "why", "mend"),
    [
        ('"a"'.encode("utf-16"), "it is UTF-16", "iconv -f UTF-16 -t UTF-8"),
        ('"a"'.encode("utf-32"), "it is UTF-32", "iconv -f UTF-32 -t UTF-8"),
        ('"a"'.encode("utf-16-le"), "it is UTF-16LE", "iconv -f UTF-16LE -t UTF-8"),
        ('"a"'.encode("utf-16-be"), "it is UTF-16BE", "iconv -f UTF-16BE -t UTF-8"),
        (gzip.compress(LINES, mtime=0)[:-9], "cannot be read", "is whole"),
        (b"\x28\xb5\x2f\xfd1234", "compressed by zstd", "Unpack"),
        (b"PK\x03\x041234", "a ZIP archive", "Unpack"),
        (b"PAR11234", "it is Parquet", "JSON lines"),
    ],
)
def test_another_coding_is_named(tmp_path: Path, data: bytes, why: str, mend: str) -> None:
    path = tmp_path / "asked.jsonl"
    path.write_bytes(data)
    with pytest.raises(BadInputError) as refused:
        read_prompts(path)
    (problem,) = refused.value.problems
    assert why in problem.why
    assert mend in problem.mend
    if (found := re.search(r"iconv -f (\S+) -t (\S+)", problem.mend)) is not None:
        words = ["iconv", "-f", found.group(1), "-t", found.group(2), str(path)]
        (tmp_path / "new").write_bytes(
            subprocess.run(words, capture_output=True, check=True).stdout
        )
        assert [prompt.text for prompt in read_prompts(tmp_path / "new").prompts] == ["a"]


def test_few_bytes_do_not_become_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(json_lines, "MOST_ENTRY_BYTES", 1 << 12)
    path = tmp_path / "asked.gz"
    for unpacked in (b'"a"\n' + b"\n" * (1 << 21), b'["a",' + b" " * (1 << 21), b" " * (1 << 21)):
        path.write_bytes(gzip.compress(unpacked, mtime=0))
        assert path.stat().st_size < 10_000
        with pytest.raises(BadInputError, match="more than 1048576 bytes when it is unpacked"):
            read_prompts(path)
    path.write_bytes(b'"a"\n"' + b"b" * 10_000 + b'"\n3\n')
    with pytest.raises(BadInputError) as refused:
        read_prompts(path)
    assert [(p.value.rpartition(" ")[2], p.why) for p in refused.value.problems] == [
        ("2", "it has more than 4096 bytes"), ("3", "it is a number, not an object or a string"),
    ]  # fmt: skip


def test_a_key_that_stands_twice_is_named(tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": "a", "prompt": "b"}\n')
    with pytest.raises(BadInputError, match="the key 'prompt' stands twice"):
        read_prompts(path)


def test_hostile_text_reaches_no_message_unharmed(tmp_path: Path) -> None:
    for entry in ({"messages": [{"role": "\x1b[31m" * 50, "content": "x"}]},
                  {"messages": [{"role": "\ud83d", "content": "x"}]}):  # fmt: skip
        problem = _problem(tmp_path, entry)
        assert f"{problem.why}{problem.mend}".isprintable()
        assert len(problem.why) < 200
