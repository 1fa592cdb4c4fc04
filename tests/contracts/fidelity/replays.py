"""What a replay says of recorded requests, in the form in which the server counts."""

from collections import Counter

from infra.sglang.ngram_form import ngram_form
from sweeps.replay.replayer import Replayer
from sweeps.replay.streams import Stream
from sweeps.values import Value

VERSION = "0.5.23"
COMMON: dict[str, Value] = {
    "speculative_algorithm": "NGRAM",
    "speculative_ngram_capacity": 100_000,
    "disable_overlap_schedule": True,
}


def histograms(streams: list[Stream], settings: dict[str, Value]) -> list[list[int]]:
    """Return each request's verify steps by their correct drafts."""
    shape = ngram_form(VERSION, COMMON).shape(settings)
    assert shape is not None
    steps = Replayer(streams).steps(shape)
    found = [Counter(steps.correct[steps.stream == n].tolist()) for n in range(len(streams))]
    return [[counts[drafts] for drafts in range(shape.draft_tokens)] for counts in found]
