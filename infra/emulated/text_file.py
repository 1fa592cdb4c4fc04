"""A user's own text file as what the emulated model writes."""

import random
from bisect import bisect_left
from functools import lru_cache
from pathlib import Path

from infra.emulated.text import BUILT_IN, EOS_ID, Kind, TextSource, draw_natural_tokens
from infra.emulated.writing.vocabulary import render, tokenize

SHORTEST_TOKENS = 1000


class TextFileError(Exception):
    """A file cannot serve as text; the message names it and says why."""


class FileSource:
    """Answers from a file: each starts at a line that its prompt decides, and wraps at the end.

    Answers to different prompts may overlap. Raises TextFileError: unreadable, not UTF-8, or
    below 1,000 tokens.
    """

    def __init__(self, path: Path) -> None:
        self._ids, self._line_starts = _load(path)

    def stream(self, prompt_key: int, kind: Kind) -> "FileStream":
        """Start the answer to a prompt; the kind decides no more than how long it is."""
        rng = random.Random(prompt_key)
        start = self._line_starts[int(rng.random() * len(self._line_starts))]
        wanted = start + draw_natural_tokens(rng, kind)
        rounds, place = divmod(wanted, len(self._ids))
        at = bisect_left(self._line_starts, place)
        end = self._line_starts[at] if at < len(self._line_starts) else len(self._ids)
        return FileStream(self._ids, start, rounds * len(self._ids) + end - start)


def source_of(path: str) -> TextSource:
    """Return the built-in texts for an empty path, else a file's. Raises TextFileError."""
    return FileSource(Path(path)) if path else BUILT_IN


class FileStream:
    """A file from one of its lines on, with EOS_ID put in at the end of a line."""

    def __init__(self, ids: list[int], start: int, natural_tokens: int) -> None:
        self._ids = ids
        self._start = start
        self._natural_tokens = natural_tokens

    @property
    def natural_tokens(self) -> int:
        """Return where EOS_ID stands."""
        return self._natural_tokens

    def window(self, start: int, tokens: int) -> list[int]:
        """Return `tokens` ids from a position on."""
        end = self._natural_tokens
        if start > end:
            return self._text(start - 1, tokens)
        if start + tokens <= end:
            return self._text(start, tokens)
        before = self._text(start, end - start)
        return [*before, EOS_ID, *self._text(end, start + tokens - end - 1)]

    def _text(self, start: int, tokens: int) -> list[int]:
        first = (self._start + start) % len(self._ids)
        out = self._ids[first : first + tokens]
        while len(out) < tokens:
            out += self._ids[: tokens - len(out)]
        return out


def _load(path: Path) -> tuple[list[int], list[int]]:
    try:
        state = path.stat()
        return _tokenized(path, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise TextFileError(f"{path}: cannot be read: {error.strerror}") from error


@lru_cache(maxsize=4)
def _tokenized(path: Path, _modified_ns: int, _size_bytes: int) -> tuple[list[int], list[int]]:
    """Return a file's ids and where its unindented lines start; once per process and state."""
    try:
        ids = tokenize(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise TextFileError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    if len(ids) < SHORTEST_TOKENS:
        raise TextFileError(
            f"{path}: has {len(ids)} tokens; at least {SHORTEST_TOKENS:,} are needed"
        )
    starts = [place for place, token in enumerate(ids, 1) if render(token).endswith("\n")]
    return ids, [0, *(place for place in starts if place < len(ids))]
