"""The few lines of a server's log that a reason quotes, so that nobody must open the log first."""

import re
from collections.abc import Iterable, Sequence

MOST_LINES = 3
LONGEST_LINE = 200

_RANK = re.compile(r"^(?:(?:DP|PP|TP|EP|CP)\d+ ?)+: ")
_HEAD = re.compile(r"^\[\d{4}-\d\d-\d\d[ T][\d:.,]+\s*(?P<rank>(?:(?:DP|PP|TP|EP|CP)\d+ ?)*)\]\s*")
_SAYS_NOTHING = re.compile(
    r'HTTP/\d\.\d"|HEALTH_CHECK|kill_process_tree|^\s{4}|^\s*File "|server_args='
    r"|Ignore import error when loading|Received sigquit from a child|SIGQUIT received"
)
_TRACEBACK = re.compile(r":?\s*Traceback \(most recent call last\):\s*$")
_TYPE = re.compile(r"^(?:\[[^\]]*\]:? ?)*[\w.]+: ")
"""What stands before the text of an exception."""
_TELLS = re.compile(
    r"(?:Error|Exception|Interrupt|OutOfResources)\b|\b(?i:failed|failure|fatal|killed|crashed"
    r"|abort(?:ed)?|watchdog|timed? ?out|out of memory|illegal|refused|cannot|unable"
    r"|died|is dead|hit an exception)\b"
)


def last_lines(lines: Iterable[str], most: int = MOST_LINES) -> list[str]:
    """Return the last lines that say something, in their order, each once."""
    return _distinct(_readable(lines))[-most:]


def telling_lines(lines: Sequence[str], said: str = "", most: int = MOST_LINES) -> list[str]:
    """Return the lines that tell best of an end, in their order, without those in `said`.

    Lines that speak of faults come before others; of them the first ones, since an end is told
    where it begins, and the last one.
    """
    kept = [line for line in _distinct(_readable(lines)) if not _is_in(line, said)]
    faults = [line for line in kept if _TELLS.search(line)]
    if len(faults) > most:
        return [*faults[: most - 1], faults[-1]]
    return faults or kept[-most:]


def quoted(lines: Sequence[str]) -> str:
    """Join lines to one text."""
    return " | ".join(lines)


def with_quotes(reason: str, lines: Sequence[str]) -> str:
    """Add to a reason what the log tells beside it."""
    more = telling_lines(lines, reason)
    return f"{reason}; its log: {quoted(more)}" if more else reason


def _readable(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        if _SAYS_NOTHING.search(line):
            continue
        head = _HEAD.match(line)
        text = _TRACEBACK.sub("", line[head.end() :] if head else line)
        text = "".join(c if c.isprintable() else " " for c in text).strip()
        rank = head["rank"].strip() if head else ""
        if text:
            yield f"{rank}: {text}"[:LONGEST_LINE] if rank else text[:LONGEST_LINE]


def _distinct(lines: Iterable[str]) -> list[str]:
    """Keep the newest of equal lines."""
    return list(dict.fromkeys(reversed(list(lines))))[::-1]


def _is_in(line: str, said: str) -> bool:
    """Tell whether a line without its rank, or without the type of its exception, was said."""
    bare = _RANK.sub("", line)
    return bare in said or _TYPE.sub("", bare) in said
