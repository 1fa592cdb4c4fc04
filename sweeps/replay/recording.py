"""A recording: what a model wrote, as token ids, and under which circumstances.

The file is a line of JSON and the compressed ids. It holds the users' text: whoever has the
tokenizer can read it.
"""

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from sweeps.problems import BadInputError, Problem
from sweeps.replay.streams import Stream

FORMAT = 1
SUFFIX = ".recording"
PROMPT_TOKENS = 64
"""Of each prompt the last ones are kept: a drafter sees no more of it than its depth."""

_HEAD_KEY_CHARS = 16


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
        return _parsed(path.read_bytes())
    except OSError as error:
        raise _bad(path, error.strerror or str(error), "Name a file that can be read.") from error
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        why = "it is no recording, or was cut off"
        raise _bad(path, why, "Record it anew: a plain decode trial does.") from error


def is_recording(path: Path) -> bool:
    """Tell a recording from a log of completions by its name."""
    return path.suffix == SUFFIX


def _parsed(data: bytes) -> Recording:
    line, _, packed = data.partition(b"\n")
    head = json.loads(line)
    if head.pop("format") != FORMAT:
        raise ValueError("another format")
    lengths, parts = head.pop("lengths"), head.pop("parts")
    ids = np.frombuffer(zlib.decompress(packed), dtype="<i4").tolist()
    if sum(lengths) != len(ids) or len(lengths) != 2 * len(parts):
        raise ValueError("lengths and ids differ")
    cut = [ids[a:b] for a, b in pairwise([0, *accumulate(lengths)])]
    return Recording(Circumstances(**head), _streams(cut, parts))


def _streams(cut: Sequence[list[int]], parts: Sequence[str]) -> tuple[Stream, ...]:
    return tuple(Stream(cut[2 * n], cut[2 * n + 1], part=part) for n, part in enumerate(parts))


def _bad(path: Path, why: str, mend: str) -> BadInputError:
    return BadInputError(str(path), [Problem("recording", path.name, why, mend)])
