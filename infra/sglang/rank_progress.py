"""Which ranks of a starting server fell behind the others, by the lines that each of them wrote.

Every rank writes the lines of its own start; the first writes further ones for all (SGLang 0.5.2 to
0.5.23, srt/model_executor/model_runner.py and srt/managers/scheduler.py).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sweeps.phrases import listed

_RANK = r"(?:(?:DP|PP|TP|EP|CP)\d+ ?)+"
_LINE = re.compile(rf"^\[[^\]]*?(?P<rank>{_RANK})\]\s*(?P<text>\S.*)")
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")
_LONGEST_TEXT = 100
_KIND_LENGTH = 40
"""Further on in a line stand figures that differ between ranks."""
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Laggards:
    """Ranks that did not write what most others wrote."""

    ranks: tuple[str, ...]
    others: int
    reached: str
    """The newest line that most ranks wrote and these did not."""
    last: str
    """What the first of them wrote last; empty where it wrote nothing."""

    def __str__(self) -> str:
        more = len(self.ranks) - _MOST_NAMED
        named = [*self.ranks[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])]
        last = f"said last: {self.last}" if self.last else "said nothing"
        return (
            f"{listed(named)} fell silent while {self.others} other ranks came to"
            f" `{self.reached}`; {self.ranks[0]} {last}"
        )


def laggards(lines: Iterable[str], known: Sequence[str] = ()) -> Laggards | None:
    """Return the ranks that fell behind more than half of all; None where none can be told.

    `known` names ranks that need not have written anything, such as `TP3`.
    """
    last: dict[str, str] = dict.fromkeys(known, "")
    came_to: dict[str, int] = dict.fromkeys(known, -1)
    wrote: dict[str, dict[str, str]] = {}
    """By kind of line, in the order in which they first came, what each rank wrote."""
    for line in lines:
        if (match := _LINE.match(line)) is None:
            continue
        rank, text = match["rank"].strip(), match["text"].strip()[:_LONGEST_TEXT]
        kind = _NUMBERS.sub("#", text)[:_KIND_LENGTH]
        wrote.setdefault(kind, {})[rank] = last[rank] = text
        came_to[rank] = max(came_to.get(rank, -1), list(wrote).index(kind))
    for at, writers in reversed(list(enumerate(wrote.values()))):
        if len(writers) <= len(last) / 2:
            continue
        behind = sorted((rank for rank in last if came_to[rank] < at), key=_in_order)
        if not behind:
            return None
        reached = next(reversed(writers.values()))
        return Laggards(tuple(behind), len(last) - len(behind), reached, last[behind[0]])
    return None


def _in_order(rank: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", rank)))
