"""N-gram drafts that are drafted once: equal requests in equal order match equal drafts.

What a drafter matches depends on its shape and on what was inserted before, in that order. Both
repeat: every start of a drafting setting serves the same prompts after a flush. A request is
therefore known by what was served since the flush, and its matches are taken from a table. The
real drafter catches up only where the table ends.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.code_digest import code_digest
from infra.emulated import text, writing
from infra.whole_file import write_whole
from sweeps import drafting
from sweeps.drafting.ngram import NgramDrafter, NgramRequest, NgramShape
from sweeps.values import digest

_KEY_BYTES, _LENGTH_BYTES = 16, 4
_MOST_DRAFTS = 255
"""Matches are kept as bytes; a wider drafter is not remembered."""

Matches = dict[bytes, bytearray]
"""By the key of a request: how many drafts each of its verify steps matched, as far as known."""


class KnownDrafts:
    """Matches by drafting shape. With a folder they outlive the process."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._tables: dict[str, Matches] = {}
        self._saved: dict[str, int] = {}

    def of(self, shape: NgramShape) -> Matches:
        """Return the table of a shape; callers add to it."""
        name = digest([code_digest(text, writing, drafting), repr(shape)])
        if name not in self._tables:
            self._tables[name] = table = self._read(name)
            self._saved[name] = _size(table)
        return self._tables[name]

    def save(self) -> None:
        """Write what is new. Raises OSError."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        for name, table in self._tables.items():
            if _size(table) == self._saved[name]:
                continue
            packed = b"".join(_packed(key, row) for key, row in table.items())
            write_whole(self._folder / name, packed)
            self._saved[name] = _size(table)

    def _read(self, name: str) -> Matches:
        try:
            data = b"" if self._folder is None else (self._folder / name).read_bytes()
        except OSError:
            return {}
        return _unpacked(data)


class RememberedDrafter:
    """A `Drafter` that asks the real one only for what no table holds. One thread.

    Requests that run beside each other insert in turns; from then on the real drafter serves all
    until the next reset.
    """

    def __init__(self, inner: NgramDrafter, known: Matches) -> None:
        self._inner, self._known = inner, known
        self._chain = b""
        self._behind: list[RememberedRequest] = []
        self._current: RememberedRequest | None = None
        self._interleaved = False

    @classmethod
    def of(cls, inner: NgramDrafter, known: KnownDrafts) -> "RememberedDrafter | NgramDrafter":
        """Remember a drafter, if its matches fit a byte."""
        wide = inner.shape.draft_tokens > _MOST_DRAFTS
        return inner if wide else cls(inner, known.of(inner.shape))

    def open(self, prompt: Sequence[int], key: int) -> "RememberedRequest":
        """Start a request; the one before it is over, unless it is used again."""
        self._close()
        self._current = request = RememberedRequest(self, tuple(prompt), key)
        self._behind.append(request)
        return request

    def reset(self) -> None:
        """Forget what was learnt."""
        self._inner.reset()
        self._chain, self._behind, self._current = b"", [], None
        self._interleaved = False

    def rows(self, request: "RememberedRequest") -> bytearray:
        """Return what is known of a request that begins to draft."""
        told = f"{request.key}|{request.prompt[-self._inner.shape.depth :]}|{request.head}"
        request.name = _digest(self._chain, told)
        return self._known.setdefault(request.name, bytearray())

    def may_learn(self, request: "RememberedRequest") -> bool:
        """Tell whether a request is served alone, so that its matches hold for others like it."""
        if self._current is not request and not self._interleaved:
            self._interleaved = True
            self.catch_up()
        return not self._interleaved

    def catch_up(self) -> None:
        """Let the real drafter serve what it has not seen."""
        for request in self._behind:
            request.serve(self._inner)
        self._behind = []

    def _close(self) -> None:
        ended, self._current = self._current, None
        if ended is None or self._interleaved:
            return
        self._chain = _digest(self._chain, f"{ended.name!r}{ended.steps_done}{ended.shape_of_end}")


@dataclass(eq=False, slots=True)
class RememberedRequest:
    """The drafts of one request."""

    drafter: RememberedDrafter
    prompt: tuple[int, ...]
    key: int
    head: list[int] = field(default_factory=list)
    """Committed before the first draft."""
    name: bytes = b""
    steps_done: int = 0
    _rows: bytearray | None = None
    _steps: list[tuple[Sequence[int], list[int] | None]] = field(default_factory=list)
    """What each step was to match and what it committed, for the real drafter."""
    _tokens: int = 0
    _unseen: tuple[int, ...] | None = None
    _real: NgramRequest | None = None

    @property
    def shape_of_end(self) -> str:
        """Return what tells two ends after equally many steps apart."""
        return f"|{self._tokens}|{self._unseen}"

    def correct_drafts(self, upcoming: Sequence[int]) -> int:
        """Return how many drafts of this verify match what the target will write."""
        learns = self.drafter.may_learn(self)
        if self._rows is None:
            self._rows = self.drafter.rows(self) if learns else bytearray()
        place = self.steps_done
        self.steps_done += 1
        if self._real is None:
            if learns and place < len(self._rows):
                self._steps.append((upcoming, None))
                return self._rows[place]
            self.drafter.catch_up()
        assert self._real is not None, "caught up"
        matched = self._real.correct_drafts(upcoming)
        if learns and place == len(self._rows):
            self._rows.append(matched)
        return matched

    def commit(self, tokens: Sequence[int]) -> None:
        """Take in tokens that are now part of the output."""
        self.drafter.may_learn(self)
        self._tokens += len(tokens)
        if self._real is not None:
            self._real.commit(tokens)
        elif self._steps:
            self._steps[-1] = self._steps[-1][0], list(tokens)
        else:
            self.head += tokens

    def end(self, unseen: Sequence[int]) -> None:
        """Take in what overlap scheduling computes after the last commit."""
        self.drafter.may_learn(self)
        self._unseen = tuple(unseen)
        if self._real is not None:
            self._real.end(unseen)

    def serve(self, inner: NgramDrafter) -> None:
        """Do with the real drafter all that was done so far."""
        self._real = real = inner.open(self.prompt, self.key)
        if self.head:
            real.commit(self.head)
        for upcoming, tokens in self._steps:
            real.correct_drafts(upcoming)
            if tokens is not None:
                real.commit(tokens)
        if self._unseen is not None:
            real.end(self._unseen)
        self._steps = []


def _digest(chain: bytes, told: str) -> bytes:
    return hashlib.blake2b(chain + told.encode(), digest_size=_KEY_BYTES).digest()


def _size(table: Mapping[bytes, bytearray]) -> int:
    return sum(map(len, table.values()))


def _packed(key: bytes, row: bytearray) -> bytes:
    return key + len(row).to_bytes(_LENGTH_BYTES, "little") + row


def _unpacked(data: bytes) -> Matches:
    """Read rows as far as they are whole: a torn file loses its last one."""
    table: Matches = {}
    at, head = 0, _KEY_BYTES + _LENGTH_BYTES
    while at + head <= len(data):
        length = int.from_bytes(data[at + _KEY_BYTES : at + head], "little")
        row = data[at + head : at + head + length]
        if len(row) == length:
            table[data[at : at + _KEY_BYTES]] = bytearray(row)
        at += head + length
    return table
