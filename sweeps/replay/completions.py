"""A user's log of completions as streams: JSON lines of token ids, or of text and a tokenizer."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from sweeps.json_lines import BadEntryError, EntryKind, kind_of, read_entries, shown, text_of
from sweeps.problems import BadInputError, Problem
from sweeps.prompt_entries import main_key, read_prompt
from sweeps.replay.streams import Stream

Tokenize = Callable[[str], Sequence[int]]

OUTPUT_IDS = ("output_ids", "completion_ids", "token_ids", "ids")
PROMPT_IDS = ("prompt_ids", "input_ids", "prompt_token_ids")
OUTPUT_TEXT = ("output", "completion", "response", "text", "answer")
FIELD = "completions"

_NAMES = ", ".join((*OUTPUT_IDS, *OUTPUT_TEXT))
_MOST_ID = 2**31 - 1


def read_completions(path: Path, tokenize: Tokenize | None = None) -> list[Stream]:
    """Read one completion a line, in the order in which they were served.

    A line is a list of token ids, an object with ids under one of `OUTPUT_IDS`, or a text or an
    object with one under `OUTPUT_TEXT`, which needs a tokenizer; what was asked is read as the
    entries of a file of prompts are. Raises: BadInputError, which names each bad line.
    """
    streams = read_entries(path, COMPLETIONS, partial(_stream, tokenize=tokenize))
    if not any(len(stream.output) > 1 for stream in streams):
        why, mend = "no completion has two tokens", "Give a log of what the model wrote."
        raise BadInputError(str(path), [Problem(FIELD, str(path), why, mend)])
    return streams


def _stream(told: object, tokenize: Tokenize | None) -> Stream:
    """Return what a line holds. Raises BadEntryError."""
    if isinstance(told, list):
        return Stream((), _ids(told, "the list"))
    entry = told if isinstance(told, Mapping) else {"text": told}
    ids, text = _first(entry, OUTPUT_IDS), _first(entry, OUTPUT_TEXT)
    if ids is not None:
        asked = _first(entry, PROMPT_IDS)
        prompt = () if asked is None else _ids(entry[asked], f"`{asked}`")
        return Stream(prompt, _ids(entry[ids], f"`{ids}`"))
    if text is None or not isinstance(entry[text], str):
        why = "it holds neither token ids nor text"
        raise BadEntryError(why, f"Name the completion one of {_NAMES}.")
    output = text_of(entry[text], f"`{text}`" if entry is told else "it")
    asked_text = _asked({n: value for n, value in entry.items() if n not in OUTPUT_TEXT})
    if tokenize is None:
        why = "it is text, and token ids are replayed"
        raise BadEntryError(why, "Give --tokenizer or log token ids.")
    return Stream(tokenize(asked_text) if asked_text else (), tokenize(output))


def _asked(entry: Mapping[str, object]) -> str:
    """Return what was asked as one text, empty where that is not told. Raises BadEntryError."""
    if (key := main_key(entry)) is None or entry[key] in (None, ""):
        return ""
    prompt = read_prompt(entry).prompt
    return "" if prompt is None else prompt.text


def _first(entry: Mapping[str, object], names: Sequence[str]) -> str | None:
    return next((name for name in names if entry.get(name) is not None), None)


def _ids(value: object, what: str) -> list[int]:
    if not isinstance(value, list):
        raise BadEntryError(f"{what} is {kind_of(value)}, not a list of token ids")
    for number, token in enumerate(value, 1):
        if type(token) is not int or not 0 <= token <= _MOST_ID:
            why = f"item {number} of {what} is {shown(token)}, and no token id"
            raise BadEntryError(why, f"Write whole numbers from 0 to {_MOST_ID}.")
    return value


def _is_ids(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int for item in value)


COMPLETIONS = EntryKind(
    FIELD, 'Write {"output_ids": [1, 2]}, {"prompt": "...", "completion": "..."} or "...".', _is_ids
)
