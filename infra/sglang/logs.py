"""What SGLang's log says: why a server died, and which accept length it counted itself."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from infra.sglang.signature import Moment, Signature
from infra.sglang.signatures import CONSEQUENCE, LOG_SIGNATURES
from infra.sglang.tracebacks import Raised, exceptions_in
from sweeps.results import Outcome

_MOST_TOLD = 500
_LONGEST_LINE = 4000
"""Of a line. Longer ones are dumps, and patterns are not to pore over them."""
_ACCEPT_LENGTH = re.compile(r"Decode batch.*accept len: ([\d.]+)")
_THROUGHPUT = re.compile(r"Decode batch.*gen throughput \(token/s\): ([\d.]+)")
_DATA_PARALLEL = re.compile(r"^\[[^\]]*\bDP\d")
# All settings in one line: it holds every word and says nothing of a fault.
_SETTINGS = re.compile(r"^.*server_args=.*$", re.MULTILINE)
# A warning at import about a model that nobody asked for.
_NOISE = re.compile(r"^.*Ignore import error when loading .*$", re.MULTILINE)
# A child that says so itself is the one that ended the server.
_CULPRIT = re.compile(r"hit an exception: $")
_SERVED = re.compile(r"fired up and ready to roll|\b(?:Decode|Prefill) batch\b")
_CAPTURE_FAILED = re.compile(r"Capture .{0,80} failed: ")
_CAPTURE_BEGAN = re.compile(r"Capture .{0,80}\bbegin\b")
_CAPTURE_ENDED = re.compile(r"Capture .{0,80}\bend\b|max_total_num_tokens=\d")


@dataclass(frozen=True, slots=True)
class ExitReason:
    """Why a server is gone."""

    outcome: Outcome
    reason: str
    signature: str = ""
    """Name of the row that says so; empty where none does."""
    retry: bool = False
    """The configuration is not to blame: the trial may be started once more."""


def explain_exit(code: int | None, tail: Sequence[str], moment: Moment | None = None) -> ExitReason:
    """Tell why a server died from its exit code (negative for a signal) and its last lines.

    `code` None: it lives, but its log tells of its end. `moment` None: as the lines tell.
    """
    lines = (line[:_LONGEST_LINE] for piece in tail for line in piece.splitlines() or [""])
    text = _NOISE.sub("", _SETTINGS.sub("", "\n".join(lines)))
    now, raised = _moment(text, moment), _culprit(text)
    for row in LOG_SIGNATURES:
        where = raised if row.raised else text
        if row.counts_in(now) and (match := row.pattern.search(where)):
            return _explained(row, next(filter(None, match.groupdict().values()), ""))
    last = next((line.strip() for line in reversed(tail) if line.strip()), "no output")
    for row in LOG_SIGNATURES:
        if code in row.codes:
            return _explained(row, f"exit code {code}, last line: {last}")
    return ExitReason(Outcome.FAILED, f"the server ended with {code}: {last[:_MOST_TOLD]}")


def _culprit(text: str) -> str:
    """Return the exception that ended the server, `Type: text`; empty where none is told.

    What is raised because another process is gone does not count, and the first other one does.
    """
    found = [raised for raised in exceptions_in(text.splitlines()) if not _follows(raised)]
    found.sort(key=lambda raised: not _CULPRIT.search(raised.heading))
    return str(found[0]) if found else ""


def _follows(raised: Raised) -> bool:
    is_cancelled = raised.kind.endswith("CancelledError")  # by what ended the process
    return is_cancelled or bool(CONSEQUENCE.search(str(raised)))


def _explained(row: Signature, what: str) -> ExitReason:
    parts = [row.reason, " ".join(what.split())[:_MOST_TOLD], row.hint]
    return ExitReason(
        row.outcome, ": ".join(part for part in parts if part), row.name, retry=row.retry
    )


def _moment(text: str, told: Moment | None) -> Moment:
    """Return when it happened; a capture that failed says so itself."""
    if _CAPTURE_FAILED.search(text):
        return Moment.CAPTURE
    if told is not None:
        return told
    if _SERVED.search(text):
        return Moment.LOAD
    began = max((m.start() for m in _CAPTURE_BEGAN.finditer(text)), default=-1)
    ended = max((m.start() for m in _CAPTURE_ENDED.finditer(text)), default=-1)
    return Moment.CAPTURE if began > ended else Moment.START


def accept_lengths(lines: Iterable[str]) -> list[float]:
    """Return the accept length of each decode line, as the server counted it."""
    return [float(m.group(1)) for line in lines if (m := _ACCEPT_LENGTH.search(line))]


def decode_rates(lines: Iterable[str]) -> list[float]:
    """Return tok/s of each decode line; none of several data-parallel ranks, each with its own."""
    found = [(line, m) for line in lines if (m := _THROUGHPUT.search(line))]
    several = any(_DATA_PARALLEL.match(line) for line, _ in found)
    return [] if several else [float(m.group(1)) for _, m in found]
