"""The text that the emulated model writes: an endless stream of tokens, fixed by the prompt."""

import hashlib
import math
import random
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

from infra.emulated.writing.code import CodeWriter
from infra.emulated.writing.prose import ProseWriter
from infra.emulated.writing.think import ThinkWriter
from infra.emulated.writing.vocabulary import EOS_ID, PAD_ID, render, render_all, tokenize

__all__ = [
    "BUILT_IN", "EOS_ID", "PAD_ID", "BuiltInSource", "Kind", "TargetStream", "TextSource",
    "TokenStream", "draw_natural_tokens", "kind_of", "render", "render_all", "seed_of", "tokenize",
]  # fmt: skip


class Kind(StrEnum):
    """How a text reads."""

    THINK = "think"
    CODE = "code"
    PROSE = "prose"


class TokenStream(Protocol):
    """What the model writes for one prompt. Not thread safe."""

    @property
    def natural_tokens(self) -> int:
        """Return where EOS_ID stands: the length of the answer of a request that heeds it."""
        ...

    def window(self, start: int, tokens: int) -> list[int]:
        """Return `tokens` ids from a position on; the stream goes on without end after EOS_ID."""
        ...


class TextSource(Protocol):
    """Where answers come from. Equal keys give equal streams, in every process."""

    def stream(self, prompt_key: int, kind: Kind) -> TokenStream:
        """Start the answer to a prompt; see `seed_of` for its key."""
        ...


class _Writer(Protocol):
    def more(self) -> list[int]: ...


_WRITERS: dict[Kind, Callable[[random.Random], _Writer]] = {
    Kind.THINK: ThinkWriter,
    Kind.CODE: CodeWriter,
    Kind.PROSE: ProseWriter,
}
_MEAN_TOKENS = {Kind.THINK: 2500, Kind.CODE: 900, Kind.PROSE: 700}
_SIGMA = 0.45
_SHORTEST_TOKENS = 16
_KEPT_STREAMS = 1024


class TargetStream:
    """A built-in text, made as far as it is asked for; its answer ends at the end of a sentence."""

    def __init__(self, seed: int, kind: Kind = Kind.THINK) -> None:
        rng = random.Random(seed)
        self.ids: list[int] = []
        self._wanted_tokens = draw_natural_tokens(rng, kind)
        self._natural_tokens: int | None = None
        self._writer = _WRITERS[kind](rng)

    @property
    def natural_tokens(self) -> int:
        """Return where EOS_ID stands; this makes the text up to there."""
        while self._natural_tokens is None:
            self.ensure(len(self.ids) + 1)
        return self._natural_tokens

    def ensure(self, tokens: int) -> None:
        """Make at least this many tokens available in `ids`."""
        ids, more = self.ids, self._writer.more
        while len(ids) < tokens:
            ids += more()
            if self._natural_tokens is None and len(ids) >= self._wanted_tokens:
                self._natural_tokens = len(ids)
                ids.append(EOS_ID)

    def window(self, start: int, tokens: int) -> list[int]:
        """Return `tokens` ids from a position on."""
        if len(self.ids) < start + tokens:
            self.ensure(start + tokens)
        return self.ids[start : start + tokens]


class BuiltInSource:
    """The project's own texts. Answers are kept: every start serves the same prompts."""

    def stream(self, prompt_key: int, kind: Kind) -> TargetStream:
        """Return the answer to a prompt."""
        return _kept_stream(prompt_key, kind)


@lru_cache(maxsize=_KEPT_STREAMS)
def _kept_stream(prompt_key: int, kind: Kind) -> TargetStream:
    return TargetStream(prompt_key, kind)


BUILT_IN: TextSource = BuiltInSource()


def draw_natural_tokens(rng: random.Random, kind: Kind) -> int:
    """Draw how long an answer is meant to be: lognormal around the kind's mean."""
    drawn = _MEAN_TOKENS[kind] * math.exp(rng.gauss(-_SIGMA * _SIGMA / 2, _SIGMA))
    return max(_SHORTEST_TOKENS, round(drawn))


def _look(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b({words})\b", re.IGNORECASE)


_LOOKS = {
    Kind.CODE: _look("code|function|python|class|def|script|program|implement|refactor|bug|sql"),
    Kind.THINK: _look(
        "think|prove|reason|solve|derive|deduce|compare|calculate|explain|work out|why|how many"
        "|step by step"
    ),
    Kind.PROSE: _look(
        "what|who|when|where|name|list|describe|tell|define|introduce|summari[sz]e|example"
        "|sentences|paragraph|essay|article|story|letter|translate"
    ),
}


def kind_of(prompt: str) -> Kind:
    """Tell what answers a prompt: CODE (or a backtick), THINK, PROSE, the first that it names."""
    if "`" in prompt:
        return Kind.CODE
    return next((kind for kind, look in _LOOKS.items() if look.search(prompt)), Kind.THINK)


def seed_of(prompt: str | Sequence[int]) -> int:
    """Return the number that a prompt fixes; two prompts that differ give unrelated texts."""
    raw = prompt if isinstance(prompt, str) else ",".join(map(str, prompt))
    return int.from_bytes(hashlib.sha256(raw.encode(errors="surrogatepass")).digest()[:8])
