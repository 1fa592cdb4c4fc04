"""A recording: what a model wrote, as token ids, and under which circumstances.

The file is a line of JSON and the compressed ids. It holds the users' text: whoever has the
tokenizer can read it.
"""

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np

from sweeps.json_lines import BadEntryError, parse
from sweeps.problems import BadInputError, Problem
from sweeps.replay.streams import Stream

FORMAT = 1
SUFFIX = ".recording"
PROMPT_TOKENS = 64
"""Of each prompt the last ones are kept: a drafter sees no more of it than its depth."""

MOST_TOKENS = 1 << 26
"""Of a recording, 256 MiB: a sweep records some 100 thousand. Few bytes may unpack to many more."""
MOST_BYTES = 1 << 28

_HEAD_KEY_CHARS = 16
_ID_BYTES = 4
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a recording must have in common with a sweep to speak for it."""

    model: str
    tokenizer: str = ""
    """A hash of it; empty where nobody looked."""
    temperature: float = 0.0
    workload: str = ""
    """The key of the workload; empty for a user's own log."""
    text: str = ""
    """What was asked: a built-in set of prompts, or a file."""
    engine_version: str = ""
    host: str = ""
    emulated: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """Streams in the order in which they were served."""

    circumstances: Circumstances
    streams: tuple[Stream, ...] = field(repr=False)

    @property
    def output_tokens(self) -> int:
        """Return how many tokens were written in all."""
        return sum(len(stream.output) for stream in self.streams)

    @property
    def key(self) -> str:
        """Return the hash of all of it."""
        return hashlib.sha256(self.as_bytes()).hexdigest()[:_HEAD_KEY_CHARS]

    def as_bytes(self) -> bytes:
        """Return the contents of its file."""
        parts = [p for s in self.streams for p in (s.prompt[-PROMPT_TOKENS:], s.output)]
        ids = np.array([token for part in parts for token in part], dtype="<i4")
        head = {
            "format": FORMAT,
            **asdict(self.circumstances),
            "lengths": [len(part) for part in parts],
            "parts": [stream.part for stream in self.streams],
        }
        return json.dumps(head).encode() + b"\n" + zlib.compress(ids.tobytes(), 6)


def read_recording(path: Path) -> Recording:
    """Read a file that `Recording.as_bytes` filled. Raises BadInputError."""
    try:
        if not path.is_file():
            why = "it is no file" if path.exists() else "No such file"
            raise _bad(path, why, "Check the path.")
        if path.stat().st_size > MOST_BYTES:
            raise _bad(path, f"it has more than {MOST_BYTES} bytes", "Record it anew.")
        return _parsed(path.read_bytes())
    except OSError as error:
        raise _bad(path, error.strerror or str(error), "Name a file that can be read.") from error
    except (ValueError, KeyError, TypeError, BadEntryError, zlib.error) as error:
        why = "it is no recording, or was cut off"
        raise _bad(path, why, "Record it anew: a plain decode trial does.") from error


def is_recording(path: Path) -> bool:
    """Tell a recording from a log of completions by its name."""
    return path.suffix == SUFFIX


def _parsed(data: bytes) -> Recording:
    line, _, packed = data.partition(b"\n")
    head = parse(line)
    if not isinstance(head, dict) or head.pop("format") != FORMAT:
        raise ValueError("another format")
    lengths, parts = _list_of(int, head.pop("lengths")), _list_of(str, head.pop("parts"))
    ids = _unpacked(packed, sum(lengths))
    if min(lengths, default=0) < 0 or len(lengths) != 2 * len(parts):
        raise ValueError("lengths and parts differ")
    cut = [ids[a:b] for a, b in pairwise([0, *accumulate(lengths)])]
    return Recording(_circumstances(head), _streams(cut, parts))


def _unpacked(packed: bytes, count: int) -> list[int]:
    """Return just so many ids, whatever the bytes unpack to. Raises ValueError."""
    if not 0 <= count <= MOST_TOKENS:
        raise ValueError(f"{count} tokens")
    packer = zlib.decompressobj()
    raw = packer.decompress(packed, _ID_BYTES * count + 1)
    if len(raw) != _ID_BYTES * count or not packer.eof:
        raise ValueError("lengths and ids differ")
    ids: list[int] = np.frombuffer(raw, dtype="<i4").tolist()
    return ids


def _list_of(kind: type[_T], given: object) -> list[_T]:
    if not isinstance(given, list) or not all(isinstance(item, kind) for item in given):
        raise ValueError(f"no list of {kind.__name__}")
    return given


def _circumstances(given: dict[str, object]) -> Circumstances:
    """Check what a file tells: it is compared with what a sweep knows. Raises ValueError."""
    here = Circumstances(**given)  # type: ignore[arg-type] # checked below
    for each in fields(here):
        value = getattr(here, each.name)
        kind = type(each.default) if each.default is not MISSING else str
        if not isinstance(value, (float, int) if kind is float else kind):
            raise ValueError(f"{each.name} is {value!r}")
    return here


def _streams(cut: Sequence[list[int]], parts: Sequence[str]) -> tuple[Stream, ...]:
    return tuple(Stream(cut[2 * n], cut[2 * n + 1], part=part) for n, part in enumerate(parts))


def _bad(path: Path, why: str, mend: str) -> BadInputError:
    return BadInputError(str(path), [Problem("recording", path.name, why, mend)])
