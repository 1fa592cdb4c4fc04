"""One entry of a user's file as a prompt, in the forms that public sets of prompts have.

What belongs to a prompt is sent, or the entry is refused by the name of it. What does not belong
to it is passed over, and told by its name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sweeps.json_lines import BadEntryError, kind_of, shown, text_of
from sweeps.problems import nearest
from sweeps.prompts import Message, Prompt

FORMS = 'Write {"messages": [{"role": "user", "content": "..."}]}, {"prompt": "..."} or "...".'
FIRST_WORDS_OF_AN_ASSISTANT = "what an assistant says before the first question"

_SPEAKERS = {
    "human": "user", "user": "user", "system": "system", "developer": "developer",
    "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant", "bing": "assistant",
    "bard": "assistant",
}  # fmt: skip
"""Who speaks, by ShareGPT and by OpenAI, and the role that is sent."""
_TOOL_SPEAKERS = (
    "tool", "tools", "function", "function_call", "function_response", "observation", "tool_call",
    "tool_response", "ipython",
)  # fmt: skip
_SYSTEM = ("system", "system_prompt", "system_message")
"""Keys beside the others that hold what the system says first."""
_NOT_SENT = frozenset({
    "add_generation_prompt", "article", "attachments", "audio", "audio_data", "audios",
    "chat_template", "chat_template_kwargs", "choices", "context", "contexts",
    "continue_final_message", "documents", "enable_thinking", "examples", "few_shot",
    "function_call", "functions", "history", "image", "image_data", "image_url", "images",
    "input_embeds", "instructions", "options", "passage", "prefix", "reasoning_effort", "suffix",
    "thinking", "tool_choice", "tools", "turns", "video", "video_data", "videos",
})  # fmt: skip
"""Keys that change what a model reads, and that are not sent."""
_NOT_SENT_OF_A_TURN = (
    "attachments", "audio", "function_call", "images", "name", "reasoning", "reasoning_content",
    "thinking", "tool_call_id", "tool_calls", "tools", "videos",
)  # fmt: skip
_BEGUN = ("partial", "prefix")
"""Of the last turn: it is a beginning that the model goes on with."""


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """What an entry asks; None where nobody asks anything in it."""

    prompt: Prompt | None
    unsent: tuple[str, ...] = ()
    """What of the entry is not sent: keys that belong to no prompt, and an opening answer."""


def is_turns(given: object) -> bool:
    """Tell whether a list is a conversation by itself."""
    return isinstance(given, list) and bool(given) and all(
        isinstance(turn, Mapping) and ("role" in turn or "from" in turn) for turn in given
    )  # fmt: skip


def read_prompt(entry: object) -> ReadPrompt:
    """Read a text, a list of turns, or an object with one of either.

    Raises: BadEntryError, which names what cannot be sent.
    """
    if isinstance(entry, str):
        return ReadPrompt(_plain(entry, "the prompt"))
    if is_turns(entry):
        return ReadPrompt(_messages(entry, "messages"))
    if not isinstance(entry, Mapping):
        raise BadEntryError(f"it is {kind_of(entry)}, not an object or a string")
    main = main_key(entry)
    if main is None:
        return _without_main(entry)
    prompt = _READERS[main](entry[main], main)
    prompt, used = _joined(entry, main, prompt)
    prompt = _after_system(entry, prompt)
    left = [name for name in entry if name not in (main, *used, *_SYSTEM)]
    _refuse_what_is_not_sent(entry, left)
    _refuse_another(entry, main, prompt, left)
    opening = [FIRST_WORDS_OF_AN_ASSISTANT] if _opens_with_an_answer(entry[main], main) else []
    return ReadPrompt(prompt, (*opening, *left))


def main_key(entry: Mapping[str, object]) -> str | None:
    """Return the key that holds what is asked, None where there is none."""
    there = [key for key in _READERS if key in entry]
    return next((key for key in there if entry[key] is not None), there[0] if there else None)


def _without_main(entry: Mapping[str, object]) -> ReadPrompt:
    body = entry.get("body")
    if isinstance(body, Mapping):  # a request of OpenAI's batch files
        read = read_prompt(body)
        return ReadPrompt(read.prompt, (*(name for name in entry if name != "body"), *read.unsent))
    close = [hint for key in entry if (hint := nearest(key, _READERS))]
    raise BadEntryError(f"it has none of the keys {', '.join(_READERS)}", *close[:1])


def _plain(given: object, key: str) -> Prompt:
    if isinstance(given, list):
        return _of_list(given, key)
    text = text_of(given, key if " " in key else f"`{key}`")
    if not text.strip():
        raise BadEntryError("the prompt is empty", "Write one, or take the line out.")
    return Prompt.of(text)


def _of_list(given: list[object], key: str) -> Prompt:
    """Read a prompt that is a list: turns, as in TRL's sets."""
    if is_turns(given):
        return _messages(given, key)
    if given and all(type(item) is int for item in given):
        why = f"`{key}` is a list of token ids, and text is sent"
        raise BadEntryError(why, "Write the text of it.")
    if given and all(isinstance(item, str) for item in given):
        why = f"`{key}` is a list of {len(given)} texts, and an entry is one prompt"
        raise BadEntryError(why, "Write each on a line of its own.")
    raise BadEntryError(f"`{key}` is a list, not text")


def _messages(given: object, key: str) -> Prompt:
    turns = _turns(given, key)
    while turns and _role(turns[-1], len(turns)) == "assistant":
        _refuse_a_beginning(turns.pop(), len(turns) + 1)
    said = [_message(turn, n) for n, turn in enumerate(turns, 1)]
    if not said or said[-1].role != "user" or not said[-1].content.strip():
        why = "no message of a user awaits an answer at its end"
        raise BadEntryError(why, f"End `{key}` with the role user and what is asked.")
    return Prompt(tuple(said))


def _conversation(given: object, key: str) -> Prompt | None:
    turns = _turns(given, key)
    roles = [_role(turn, n) for n, turn in enumerate(turns, 1)]
    asked = [at for at, role in enumerate(roles) if role == "user"]
    if not asked:
        return None
    for at in range(asked[-1] + 1, len(turns)):
        _refuse_a_beginning(turns[at], at + 1)
    kept = [
        _message(turns[at], at + 1)
        for at in range(asked[-1] + 1)
        if at >= asked[0] or roles[at] != "assistant"
    ]
    return Prompt(tuple(kept)) if kept[-1].content.strip() else None


def _opens_with_an_answer(given: object, key: str) -> bool:
    """Tell whether a conversation begins with an answer: many templates refuse to write that."""
    if _READERS[key] is not _conversation or not isinstance(given, list):
        return False
    roles = [_role(turn, n) for n, turn in enumerate(given, 1)]
    return "user" in roles and "assistant" in roles[: roles.index("user")]


def _turns(given: object, key: str) -> list[Mapping[str, object]]:
    if not isinstance(given, list):
        raise BadEntryError(f"`{key}` is {kind_of(given)}, not a list")
    for number, turn in enumerate(given, 1):
        if not isinstance(turn, Mapping):
            raise BadEntryError(f"message {number} is {kind_of(turn)}, not an object")
    return list(given)


def _role(turn: Mapping[str, object], number: int) -> str:
    """Return who speaks, by OpenAI's key or by ShareGPT's."""
    told = turn.get("role" if "role" in turn else "from")
    if isinstance(told, str) and told in _SPEAKERS:
        return _SPEAKERS[told]
    if told in _TOOL_SPEAKERS:
        why = f"message {number} is of a tool ({told}), and tools are not sent"
        raise BadEntryError(why, "Take the entry out, or let the user say it.")
    name = "role" if "role" in turn else "from"
    mend = nearest(str(told), _SPEAKERS) or f"Use one of {', '.join(_SPEAKERS)}."
    raise BadEntryError(f"message {number} has {shown(told)} as its `{name}`", mend)


def _message(turn: Mapping[str, object], number: int) -> Message:
    role = _role(turn, number)
    for name in _NOT_SENT_OF_A_TURN:
        if not _is_empty(turn.get(name)):
            why = f"`{name}` of message {number} is not sent"
            raise BadEntryError(why, f"Take `{name}` out, or the entry.")
    content = turn.get("content" if "content" in turn else "value")
    if isinstance(content, list):
        content = "".join(_part(part, number) for part in content)
    return Message(role, text_of(content, f"the content of message {number}"))


def _refuse_a_beginning(turn: Mapping[str, object], number: int) -> None:
    """See that an answer, which is not sent, is none that the model should go on with."""
    for name in _BEGUN:
        if not _is_empty(turn.get(name)):
            why = f"message {number} is the beginning of the answer (`{name}`), and is not sent"
            raise BadEntryError(why, "Take that message out.")


def _part(given: object, number: int) -> str:
    if not isinstance(given, Mapping) or given.get("type") not in ("text", "input_text"):
        raise BadEntryError(f"message {number} has a part that is not text", "Only text is sent.")
    return text_of(given.get("text"), f"a part of message {number}")


def _joined(
    entry: Mapping[str, object], main: str, prompt: Prompt | None
) -> tuple[Prompt | None, Sequence[str]]:
    """Put an instruction, its input and what was said before together, as LLaMA-Factory does."""
    if main != "instruction" or prompt is None:
        return prompt, ()
    more, before = entry.get("input"), entry.get("history")
    asked = prompt.messages[-1].content
    if not _is_empty(more):
        asked += "\n" + text_of(more, "`input`")
    pairs = [] if _is_empty(before) else _pairs(before)
    return Prompt((*pairs, Message("user", asked))), ("input", "history")


def _pairs(given: object) -> list[Message]:
    """Read earlier turns that are written as pairs of question and answer."""
    pairs = given if isinstance(given, list) else []
    if not pairs or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        mend = 'Write [["question", "answer"]], or take it out.'
        raise BadEntryError("`history` is no list of pairs", mend)
    return [
        Message(role, text_of(said, "a turn of `history`"))
        for pair in pairs
        for role, said in zip(("user", "assistant"), pair, strict=True)
    ]


def _after_system(entry: Mapping[str, object], prompt: Prompt | None) -> Prompt | None:
    """Put before a prompt what the system says in a key beside it."""
    given = [name for name in _SYSTEM if not _is_empty(entry.get(name))]
    told = dict.fromkeys(text_of(entry[name], f"`{name}`") for name in given)
    if prompt is None or not told:
        return prompt
    said = [m.content for m in prompt.messages if m.role in ("system", "developer")]
    told |= dict.fromkeys(said)
    if len(told) > 1:
        why = f"`{given[0]}` and another text are both the system's, and they differ"
        raise BadEntryError(why, "Keep one of them.")
    return prompt if said else Prompt((Message("system", next(iter(told))), *prompt.messages))


def _refuse_what_is_not_sent(entry: Mapping[str, object], names: Sequence[str]) -> None:
    for name in names:
        if name in _NOT_SENT and not _is_empty(entry[name]):
            why = f"`{name}` changes what the model reads, and is not sent"
            mend = f"Take `{name}` out, or write what it says into the prompt."
            raise BadEntryError(why, mend)


def _refuse_another(
    entry: Mapping[str, object], main: str, prompt: Prompt | None, names: Sequence[str]
) -> None:
    """See that no other key asks something else."""
    for name in names:
        if name in _READERS and not _is_empty(entry[name]) and not _says(prompt, entry[name]):
            why = f"`{main}` and `{name}` both hold a prompt, and they differ"
            raise BadEntryError(why, f"Take `{main}` or `{name}` out.")


def _says(prompt: Prompt | None, given: object) -> bool:
    """Tell whether a prompt says what another key holds: a part of it, or the whole as one text."""
    if prompt is None or not isinstance(given, str):
        return False
    said = [message.content.strip() for message in prompt.messages]
    return given.strip() in said or all(text in given for text in said)


def _is_empty(given: object) -> bool:
    return given is None or given is False or given in ("", [], {})


_READERS: dict[str, Callable[[object, str], Prompt | None]] = {
    "messages": _messages,
    "conversations": _conversation,
    "conversation": _conversation,
    "prompt": _plain,
    "instruction": _plain,
    "question": _plain,
    "text": _plain,
    "input": _plain,
}
"""Keys that hold a prompt, the first one first, and what reads each."""
