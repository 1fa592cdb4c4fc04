"""Makes accept lengths of a log that a user names: a recording of ours, or completions."""

import re
from pathlib import Path

from infra.sglang.flags import NEWEST
from infra.sglang.ngram_form import ngram_form
from sweeps.hosts import HostSpec
from sweeps.prediction.source import AcceptSource
from sweeps.replay.accepts import RecordedAccepts
from sweeps.replay.completions import read_completions
from sweeps.replay.recording import is_recording, read_recording
from sweeps.replay.replayer import Replayer
from sweeps.sweep import Sweep

_PIECES = re.compile(r" ?[^\W\d_]{1,6}|\d{1,3}|\s+|[^\w\s]|_")
"""Text in pieces of about the size of a model's tokens; ids are better."""


def recorded_accepts(path: Path, sweep: Sweep, host: HostSpec) -> AcceptSource:
    """Replay a log as a sweep's host would draft on it. Raises BadInputError."""
    form = ngram_form(host.version or NEWEST, sweep.fixed)
    streams = sweep.workload.concurrency
    if path.is_file() and is_recording(path):
        return RecordedAccepts.of_trial(read_recording(path).streams, form, streams)
    pieces: dict[str, int] = {}

    def tokenize(text: str) -> list[int]:
        # From 1: a padded draft is token 0.
        return [pieces.setdefault(piece, len(pieces) + 1) for piece in _PIECES.findall(text)]

    replayer = Replayer(read_completions(path, tokenize), concurrency=streams)
    return RecordedAccepts(form, [(replayer, None)])
