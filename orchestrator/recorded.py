"""Reads a user's log of completions, and makes accept lengths of it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from infra.sglang.flags import NEWEST
from infra.sglang.ngram_form import ngram_form
from sweeps.hosts import HostSpec
from sweeps.prediction.source import AcceptSource
from sweeps.problems import BadInputError, Problem
from sweeps.replay.accepts import RecordedAccepts
from sweeps.replay.replayer import Replayer
from sweeps.replay.streams import Stream
from sweeps.sweep import Sweep

OUTPUT_IDS, PROMPT_IDS = ("output_ids", "token_ids", "ids"), ("prompt_ids", "input_ids")
OUTPUT_TEXTS, PROMPT_TEXTS = ("completion", "output", "text", "response"), ("prompt", "input")
_PIECES = re.compile(r" ?[^\W\d_]{1,6}|\d{1,3}|\s+|[^\w\s]|_")
"""Text in pieces of about the size of a model's tokens; ids are better."""


def recorded_accepts(path: Path, sweep: Sweep, host: HostSpec) -> AcceptSource:
    """Replay a log, one JSON object a line, as a sweep's host would draft. Raises BadInputError.

    A line has token ids (`output_ids`) or a text (`completion`), and may have what was asked.
    """
    if not path.is_file():
        raise _bad(str(path), "there is no such file", "Check the path.")
    pieces: dict[str, int] = {}
    streams = [
        stream for line in _lines(path) if len((stream := _stream(*line, pieces)).output) > 1
    ]
    if not streams:
        raise _bad(str(path), "it holds no completion", "Write one JSON object a line.")
    replayer = Replayer(streams, concurrency=sweep.workload.concurrency)
    form = ngram_form(host.version or NEWEST, sweep.fixed)
    return RecordedAccepts(form, [(replayer, None)])


def _lines(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError as error:
            raise _bad(f"line {number}", f"it is no JSON: {error}", "Mend the line.") from error
        if not isinstance(found, dict):
            raise _bad(f"line {number}", "it is no JSON object", "Write {...} on each line.")
        yield number, found


def _stream(number: int, line: dict[str, object], pieces: dict[str, int]) -> Stream:
    output = _tokens(line, OUTPUT_IDS, OUTPUT_TEXTS, pieces)
    if output is None:
        names = f"{OUTPUT_IDS[0]} or {OUTPUT_TEXTS[0]}"
        raise _bad(f"line {number}", f"it has neither {names}", "Give one of them.")
    return Stream(_tokens(line, PROMPT_IDS, PROMPT_TEXTS, pieces) or [], output)


def _tokens(
    line: dict[str, object], ids: tuple[str, ...], texts: tuple[str, ...], pieces: dict[str, int]
) -> list[int] | None:
    for name in ids:
        value = line.get(name)
        if isinstance(value, list) and all(type(token) is int for token in value):
            return value
    for name in texts:
        value = line.get(name)
        if isinstance(value, str):
            # From 1: a padded draft is token 0.
            return [pieces.setdefault(p, len(pieces) + 1) for p in _PIECES.findall(value)]
    return None


def _bad(value: str, why: str, mend: str) -> BadInputError:
    return BadInputError("--recording", [Problem("recording", value, why, mend)])
