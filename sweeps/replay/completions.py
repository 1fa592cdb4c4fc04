"""A user's log of completions as streams: JSON lines of token ids, or of text and a tokenizer."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from sweeps.problems import BadInputError, Problem
from sweeps.replay.streams import Stream

Tokenize = Callable[[str], Sequence[int]]

OUTPUT_IDS = ("output_ids", "completion_ids", "token_ids", "ids")
PROMPT_IDS = ("prompt_ids", "input_ids", "prompt_token_ids")
OUTPUT_TEXT = ("output", "completion", "response", "text", "answer")
PROMPT_TEXT = ("prompt", "question", "input")
_SHOWN_CHARS = 60


def read_completions(path: Path, tokenize: Tokenize | None = None) -> list[Stream]:
    """Read one completion a line, in the order in which they were served.

    A line is a list of token ids, an object with ids under one of `OUTPUT_IDS`, or a text or an
    object with one under `OUTPUT_TEXT`, which needs a tokenizer. Raises BadInputError.
    """
    problems: list[Problem] = []
    streams = []
    for number, line in enumerate(_lines(path), 1):
        found = _stream(line, tokenize)
        if isinstance(found, Stream):
            streams.append(found)
        else:
            shown = line[:_SHOWN_CHARS]
            problems.append(Problem(f"line {number}", shown, *found))
        if len(problems) >= 5:
            break
    if not problems and not any(len(stream.output) > 1 for stream in streams):
        why, mend = "no completion has two tokens", "Give a log of what the model wrote."
        problems.append(Problem("completions", path.name, why, mend))
    if problems:
        raise BadInputError(str(path), problems)
    return streams


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from (line.strip() for line in file if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        problem = Problem("completions", path.name, str(why), "Name a file of JSON lines.")
        raise BadInputError(str(path), [problem]) from error


def _stream(line: str, tokenize: Tokenize | None) -> Stream | tuple[str, str]:
    """Return what a line holds, or why it holds nothing and how that is mended."""
    try:
        told = json.loads(line)
    except ValueError:
        return "it is no JSON", "Write one JSON value a line."
    if _are_ids(told):
        return Stream((), told)
    entry: Mapping[str, object] = told if isinstance(told, dict) else {"text": told}
    prompt, output = _first(entry, PROMPT_IDS), _first(entry, OUTPUT_IDS)
    if _are_ids(output):
        return Stream(prompt if _are_ids(prompt) else (), output)  # type: ignore[arg-type]
    text, asked = _first(entry, OUTPUT_TEXT), _first(entry, PROMPT_TEXT)
    if not isinstance(text, str):
        names = ", ".join((*OUTPUT_IDS, *OUTPUT_TEXT))
        return "it holds neither token ids nor text", f"Name the completion one of {names}."
    if tokenize is None:
        return "it is text, and token ids are replayed", "Give --tokenizer or log token ids."
    return Stream(tokenize(asked) if isinstance(asked, str) else (), tokenize(text))


def _first(entry: Mapping[str, object], names: Sequence[str]) -> object:
    return next((entry[name] for name in names if name in entry), None)


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and all(type(token) is int and token >= 0 for token in value)
