"""Reads users' own prompts from a file, and names each line that cannot be one."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path

from sweeps.problems import BadInputError, Problem, nearest
from sweeps.prompts import Message, Prompt, PromptSet

FIELD = "workload.prompts"
MOST_BYTES = 1 << 30
_SHOWN = 5
_BOM = b"\xef\xbb\xbf"
_FORMS = 'Write {"messages": [{"role": "user", "content": "..."}]}, {"prompt": "..."} or "...".'
_ROLES = ("system", "developer", "user", "assistant")
_SPEAKERS = {
    "human": "user", "user": "user", "system": "system",
    "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant", "bing": "assistant",
    "bard": "assistant",
}  # fmt: skip


class _BadEntryError(Exception):
    """One entry of a file cannot be a prompt."""

    def __init__(self, why: str, mend: str = _FORMS) -> None:
        super().__init__(why)
        self.why = why
        self.mend = mend


def read_prompts(path: Path) -> PromptSet:
    """Read a JSON list, or JSON Lines, of prompts.

    An entry is a JSON string, or an object with the first of `messages` (OpenAI), `conversations`
    (ShareGPT), `prompt` and `text` that it has; other keys are passed over. What an assistant says
    last is not sent: it is what the model is asked for. Of equal prompts the first stays. A
    ShareGPT conversation in which nobody asks anything is passed over.

    Raises: BadInputError, which names each line or entry, and what is wrong with it.
    """
    try:
        if not path.is_file():
            raise _refused(path, "there is no such file", "Check the path.")
        stat = path.stat()
        if stat.st_size > MOST_BYTES:
            why = f"it has {stat.st_size} bytes, and prompts of {MOST_BYTES} are read at most"
            raise _refused(path, why, "Give a part of it.")
        return _read(path.absolute(), stat.st_mtime_ns, stat.st_size, stat.st_ino)
    except OSError as error:
        raise _refused(path, f"it cannot be read: {error.strerror}", "Mend that.") from error


@lru_cache(maxsize=4)
def _read(path: Path, *_state: int) -> PromptSet:
    """Read a file in the state that it is in."""
    prompts: list[Prompt] = []
    found: list[Problem] = []
    entries = 0
    for place, make in _entries(path):
        entries += 1
        try:
            prompt = make()
        except _BadEntryError as bad:
            found.append(Problem(FIELD, f"{path} {place}", bad.why, bad.mend))
        else:
            prompts += [prompt] if prompt else []
    if found:
        raise BadInputError(str(path), _first(found, path))
    if not prompts:
        raise _refused(path, "it holds no prompt", _FORMS)
    return PromptSet.of(prompts, entries - len(prompts))


def _first(found: list[Problem], path: Path) -> list[Problem]:
    more = len(found) - _SHOWN
    if more <= 0:
        return found
    mend = "Mend those above first."
    return [*found[:_SHOWN], Problem(FIELD, str(path), f"{more} more entries are wrong", mend)]


def _entries(path: Path) -> Iterator[tuple[str, Callable[[], Prompt | None]]]:
    """Yield the place of each entry, and what makes its prompt or raises _BadEntryError."""
    data = path.read_bytes().removeprefix(_BOM)
    if data[:4096].lstrip()[:1] != b"[":
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.strip():
                yield f"line {number}", partial(_prompt_of_line, line)
        return
    try:
        entries = _load(data)
    except _BadEntryError as bad:
        mend = "A file that begins with [ must be one JSON list."
        raise _refused(path, bad.why, mend) from bad
    assert isinstance(entries, list)
    for number, entry in enumerate(entries, 1):
        yield f"entry {number}", partial(_prompt, entry)


def _load(data: bytes) -> object:
    try:
        return json.loads(data.decode())
    except UnicodeDecodeError as error:
        why = f"byte {error.start + 1} is no UTF-8"
        raise _BadEntryError(why, "Save the file as UTF-8.") from error
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise _BadEntryError(f"it is no JSON: {error.msg} at {line}column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise _BadEntryError(f"it is no JSON that can be read: {error}") from error


def _prompt_of_line(line: bytes) -> Prompt | None:
    return _prompt(_load(line))


def _prompt(entry: object) -> Prompt | None:
    if isinstance(entry, str):
        return _plain(entry)
    if not isinstance(entry, Mapping):
        raise _BadEntryError(f"it is {_kind(entry)}, not an object or a string")
    for key, read in _READERS.items():
        if key in entry:
            return read(entry[key])
    close = [hint for key in entry if (hint := nearest(str(key), _READERS))]
    raise _BadEntryError(f"it has none of the keys {', '.join(_READERS)}", *close[:1])


def _plain(given: object) -> Prompt:
    text = _text(given, "the prompt")
    if not text.strip():
        raise _BadEntryError("the prompt is empty", "Write one, or take the line out.")
    return Prompt.of(text)


def _openai(given: object) -> Prompt:
    messages = [
        _message(message, f"message {n}") for n, message in enumerate(_list(given, "messages"), 1)
    ]
    while messages and messages[-1].role == "assistant":
        messages.pop()
    if not messages or messages[-1].role != "user" or not messages[-1].content.strip():
        why = "no message of a user awaits an answer at its end"
        raise _BadEntryError(why, "End `messages` with the role user and what is asked.")
    return Prompt(tuple(messages))


def _message(given: object, where: str) -> Message:
    if not isinstance(given, Mapping):
        raise _BadEntryError(f"{where} is {_kind(given)}, not an object")
    role = given.get("role")
    if role not in _ROLES:
        mend = nearest(str(role), _ROLES) or f"Use one of {', '.join(_ROLES)}."
        raise _BadEntryError(f"{where} has the role {role!r}", mend)
    content = given.get("content")
    if isinstance(content, list):
        content = "".join(_part(part, where) for part in content)
    return Message(str(role), _text(content, f"the content of {where}"))


def _part(given: object, where: str) -> str:
    if not isinstance(given, Mapping) or given.get("type") != "text":
        raise _BadEntryError(f"{where} has a part that is not text", "Only text is sent.")
    return _text(given.get("text"), f"a part of {where}")


def _sharegpt(given: object) -> Prompt | None:
    turns = [_turn(turn, f"turn {n}") for n, turn in enumerate(_list(given, "conversations"), 1)]
    asked = [at for at, turn in enumerate(turns) if turn.role == "user"]
    if not asked or not turns[asked[-1]].content.strip():
        return None
    kept = turns[: asked[-1] + 1]
    before = [turn for turn in kept[: asked[0]] if turn.role == "system"]
    return Prompt((*before, *kept[asked[0] :]))


def _turn(given: object, where: str) -> Message:
    if not isinstance(given, Mapping):
        raise _BadEntryError(f"{where} is {_kind(given)}, not an object")
    role = _SPEAKERS.get(str(given.get("from")))
    if role is None:
        mend = f"Use one of {', '.join(_SPEAKERS)}."
        raise _BadEntryError(f"{where} is from {given.get('from')!r}", mend)
    return Message(role, _text(given.get("value"), f"the value of {where}"))


_READERS: dict[str, Callable[[object], Prompt | None]] = {
    "messages": _openai,
    "conversations": _sharegpt,
    "prompt": _plain,
    "text": _plain,
}


def _list(given: object, key: str) -> list[object]:
    if not isinstance(given, list):
        raise _BadEntryError(f"`{key}` is {_kind(given)}, not a list")
    return given


def _text(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise _BadEntryError(f"{what} is {_kind(given)}, not text")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        why = f"{what} holds half a character: {given[error.start]!a}"
        raise _BadEntryError(why, "Take it out, or write the pair.") from error
    return given


def _kind(given: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value"}
    return "null" if given is None else names.get(type(given), "a number")


def _refused(path: Path, why: str, mend: str) -> BadInputError:
    return BadInputError(str(path), [Problem(FIELD, str(path), why, mend)])
