"""What SGLang's log says: why a server died, and which accept length it counted itself."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sweeps.results import Outcome


@dataclass(frozen=True, slots=True)
class Signature:
    """A text in the log and what it means for the trial."""

    pattern: re.Pattern[str]
    outcome: Outcome
    reason: str
    hint: str = ""


def _row(pattern: str, outcome: Outcome, reason: str, hint: str = "") -> Signature:
    return Signature(re.compile(pattern, re.MULTILINE), outcome, reason, hint)


LOG_SIGNATURES: tuple[Signature, ...] = (
    _row(r"^guard: (?P<what>.*)", Outcome.FAILED, "ended by its guard"),
    _row(r"error: unrecognized arguments: (?P<what>.*)", Outcome.INFEASIBLE, "refused flags"),
    _row(r"error: ambiguous option: (?P<what>.*)", Outcome.INFEASIBLE, "ambiguous flag"),
    _row(r"error: argument (?P<what>.*)", Outcome.INFEASIBLE, "refused value"),
    _row(
        r"address already in use", Outcome.FAILED, "port in use",
        "another process took the port between the check and the start",
    ),
    _row(
        r"(?P<what>(CUDA|HIP) out of memory|Not enough memory|OutOfMemoryError.*)",
        Outcome.INFEASIBLE, "out of memory", "lower mem_fraction_static or the draft width",
    ),
    _row(
        r"Failed to CUDA calloc (?P<what>\d+ bytes)", Outcome.INFEASIBLE,
        "NCCL ran out of GPU memory", "lower mem_fraction_static or the number of channels",
    ),
    _row(r"NCCL error.*?(?P<what>invalid usage|unhandled .*)", Outcome.INFEASIBLE, "NCCL refused"),
    _row(
        r"(?P<what>Ngram speculative decoding only supports .*)", Outcome.INFEASIBLE,
        "this version has no n-gram speculation on this device",
    ),
    _row(r"(?P<what>.*(trie_depth|bfs_breadth|match_window).*must.*)", Outcome.INFEASIBLE,
         "n-gram settings out of range"),
    _row(r"(?P<what>OSError: .*(Repo id must|couldn't connect|is not a local folder).*)",
         Outcome.FAILED, "the model could not be read"),
    _row(r"ValueError: (?P<what>.*)", Outcome.INFEASIBLE, "settings refused"),
    _row(r"AssertionError:? ?(?P<what>.*)", Outcome.INFEASIBLE, "settings refused"),
    _row(r"(?P<what>(RuntimeError|AttributeError|ImportError|NotImplementedError): .*)",
         Outcome.INFEASIBLE, "the server crashed"),
)  # fmt: skip
"""Searched in this order; the first that occurs anywhere in the tail decides."""

_ACCEPT_LENGTH = re.compile(r"Decode batch.*accept len: ([\d.]+)")


@dataclass(frozen=True, slots=True)
class ExitReason:
    """Why a server is gone."""

    outcome: Outcome
    reason: str


def explain_exit(code: int, tail: Sequence[str]) -> ExitReason:
    """Tell why a server died from its exit code (negative for a signal) and its last lines."""
    text = "\n".join(tail)
    for signature in LOG_SIGNATURES:
        if match := signature.pattern.search(text):
            what = match.groupdict().get("what") or ""
            parts = [signature.reason, what.strip()[:300], signature.hint]
            return ExitReason(signature.outcome, ": ".join(part for part in parts if part))
    last = next((line.strip() for line in reversed(tail) if line.strip()), "no output")
    if code == 2:
        return ExitReason(Outcome.INFEASIBLE, f"refused flags: {last[:300]}")
    return ExitReason(Outcome.FAILED, f"the server ended with {code}: {last[:300]}")


def accept_lengths(lines: Iterable[str]) -> list[float]:
    """Return the accept length of each decode line, as the server counted it."""
    return [float(m.group(1)) for line in lines if (m := _ACCEPT_LENGTH.search(line))]
