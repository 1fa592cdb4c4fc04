"""Follows the log of a starting server: its phase, whether it gets on, and whether it is doomed.

Read in SGLang 0.5.2 to 0.5.23: srt/model_executor, srt/distributed, srt/managers/scheduler.py and
srt/entrypoints.
"""

import os
import re
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class StartPhase(StrEnum):
    """What a start goes through, in this order; with a draft model some of it twice."""

    SPAWN = "spawn"
    DISTRIBUTED_INIT = "distributed init"
    WEIGHTS = "weights"
    MEMORY_POOL = "memory pool"
    GRAPHS = "graph capture"
    """With the kernels that are compiled and tuned for it."""
    WARM_UP = "warm-up"
    FIRST_TOKEN = "first token"
    """It says that it is ready; our own request is the proof."""


MOST_BYTES = 1 << 20
"""What one look reads. Of a log that grows faster, only the end is read."""

_LONGEST_LINE_BYTES = 64 << 10
_REMEMBERED_LINES = 4096
_LINES_BEFORE_DOOM = 60
_MOST_LAST_WORDS = 500

_MARKS: tuple[tuple[re.Pattern[str], StartPhase], ...] = (
    (re.compile(r"Init (?:torch distributed|parallel) begin\b"), StartPhase.DISTRIBUTED_INIT),
    (re.compile(r"Load weight begin\b"), StartPhase.WEIGHTS),
    (
        re.compile(r"Load weight end\b|KV Cache is allocated\b|Memory pool (?:begin|end)\b"),
        StartPhase.MEMORY_POOL,
    ),
    (
        re.compile(
            r"Capture .{1,80}\bbegin\b|Capturing (?:batches|num tokens)"
            r"|DeepGEMM (?:JIT Pre-Compile|warmup)|(?<![-_])\b(?i:autotun(?:e|ing))\b"
        ),
        StartPhase.GRAPHS,
    ),
    (
        re.compile(
            r"max_total_num_tokens=\d+, chunked_prefill_size=|Uvicorn running on"
            r"|Application startup complete|Started server process"
        ),
        StartPhase.WARM_UP,
    ),
    (re.compile(r"The server is fired up and ready to roll"), StartPhase.FIRST_TOKEN),
)
"""The first line of each phase; the newest line of the first rank counts."""

_DOOM = re.compile(
    r"\b(?:Scheduler|\w+(?:Manager|Controller|Router|Client)) hit an exception"
    r"|Rank \d+ scheduler (?:is dead|died during)|DataParallelController \d+ terminated with"
    r"|error while attempting to bind on address|[Rr]eceived sigquit from a child"
    r"|SIGQUIT received\.|Initialization failed\. (?:warmup|Please see)"
)
_SERVING = (StartPhase.WARM_UP, StartPhase.FIRST_TOKEN)
_HEAD = re.compile(r"^\[[^\]]*\]\s*")
_OTHER_RANK = re.compile(r"\b(?:DP|PP|TP|EP)[1-9]\d*\b")
_SETTINGS = "server_args="
# Our own polls leave such lines, and a server that waits repeats itself with other numbers.
_SAYS_NOTHING = re.compile(r'HTTP/\d\.\d"|HEALTH_CHECK|Health check failed|^\s*$')
_WAITS = re.compile(
    r"(?i)\b(?:wait(?:s|ed|ing)?|retr(?:y|ies|ying)|time[d ]?\s?out|still|sleep\w*)\b"
)
_CLOCKS = re.compile(r"\[[\d:]+<[^\]]*\]|\d{4}-\d\d-\d\d[T ][\d:.,]+Z?")
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at the log brought."""

    says_new: bool
    """It says something that it had not said before in this phase."""
    entered: tuple[StartPhase, ...]
    """The phases that began, in their order."""


class StartLog:
    """Reads a growing log forwards. One thread uses it."""

    def __init__(self, path: Path) -> None:
        self.phase = StartPhase.SPAWN
        self.doom = ""
        """The line that says that this server will not come up, once there is one."""
        self.read_bytes = 0
        """How far the log was read."""
        self._path = path
        self._part = b""
        self._recent: deque[str] = deque(maxlen=_LINES_BEFORE_DOOM)
        self._last_words: list[str] = []
        self._entered: list[StartPhase] = []
        self._said: set[int] = set()
        self._order: deque[int] = deque()

    @property
    def last_words(self) -> tuple[str, ...]:
        """Return the lines around the doom: what follows them may be thousands of stack frames."""
        return tuple(self._last_words)

    def look(self) -> Look:
        """Read what is new, a megabyte at most. A log that is not there yet says nothing."""
        self._entered = []
        lines, part = self._cut(self._read())
        news = [self._is_news(line) for line in lines]
        # A progress bar may stand in the last line, which has no end yet.
        news.append(bool(part) and self._is_news(part))
        return Look(any(news), tuple(self._entered))

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                size_bytes = os.fstat(file.fileno()).st_size
                if size_bytes < self.read_bytes:
                    self.read_bytes, self._part = 0, b""
                if size_bytes - self.read_bytes > MOST_BYTES:
                    self.read_bytes, self._part = size_bytes - MOST_BYTES, b""
                if size_bytes == self.read_bytes:
                    return b""
                data = os.pread(file.fileno(), MOST_BYTES, self.read_bytes)
        except OSError:
            return b""
        self.read_bytes += len(data)
        return data

    def _cut(self, data: bytes) -> tuple[list[str], str]:
        """Return the whole lines and the part after them; a progress bar ends lines with \\r."""
        if not data:
            return [], ""
        pieces = (self._part + data).replace(b"\r", b"\n").split(b"\n")
        self._part = pieces.pop()[-_LONGEST_LINE_BYTES:]
        lines = [piece[:_LONGEST_LINE_BYTES].decode(errors="replace") for piece in pieces]
        for line in lines:
            self._mark(line)
        return lines, self._part.decode(errors="replace")

    def _mark(self, line: str) -> None:
        if _SETTINGS in line:
            return
        self._keep(line)
        head = _HEAD.match(line)
        if head and _OTHER_RANK.search(head.group()):
            return
        for pattern, phase in _MARKS:
            if pattern.search(line):
                self._enter(phase)
                return

    def _keep(self, line: str) -> None:
        if self.doom:
            if len(self._last_words) < _MOST_LAST_WORDS:
                self._last_words.append(line)
            return
        self._recent.append(line)
        if _DOOM.search(line):
            self.doom = line.strip()
            self._last_words = [*self._recent]

    def _enter(self, phase: StartPhase) -> None:
        # A draft model is loaded after the target's graphs; what is compiled for the first request
        # is no capture any more.
        late = self.phase in _SERVING and phase not in _SERVING
        if late or phase is self.phase:
            return
        self.phase = phase
        self._entered.append(phase)
        self._said.clear()
        self._order.clear()

    def _is_news(self, line: str) -> bool:
        if _SAYS_NOTHING.search(line):
            return False
        said = _CLOCKS.sub("", line)
        if _WAITS.search(said):
            said = _NUMBERS.sub("", said)
        key = hash(said)
        if key in self._said:
            return False
        self._said.add(key)
        self._order.append(key)
        if len(self._order) > _REMEMBERED_LINES:
            self._said.discard(self._order.popleft())
        return True
