"""Accept lengths of replayed settings with their intervals: cold, warm, and over the tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeps.config import Config
from sweeps.drafting.ngram import NgramShape
from sweeps.intervals import cluster_ratio
from sweeps.prediction.source import PLAIN
from sweeps.replay.form import NgramForm
from sweeps.replay.replayer import Replayer
from sweeps.replay.streams import Steps, Stream
from sweeps.results import Estimate, Phase

COLD_TOKENS = 2048
"""What is written right after a flush: about a cold pass."""
LEAST_REQUESTS = 8
"""Fewer requests do not show how they differ; then blocks of their text stand for them."""
BLOCK_TOKENS = 256
FIRST_CURVE_TOKENS = 512
CORPUS = "speculative_ngram_external_corpus_path"

_SERVED = tuple(p.value for p in (Phase.COLD, Phase.WARMING, Phase.PROBING, Phase.MEASURING))

Chosen = NDArray[np.bool_]
"""Which steps are meant."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The accept length between two counts of tokens since the flush."""

    from_tokens: int
    to_tokens: int
    accept: Estimate


def accept_of(steps: Steps, chosen: Chosen) -> Estimate | None:
    """Return tokens per verify step over the steps that are chosen; None where there is none."""
    tokens, streams = steps.tokens[chosen], steps.stream[chosen]
    if not len(tokens):
        return None
    requests = len(np.unique(streams))
    parts = streams if requests >= LEAST_REQUESTS else _blocks(streams, tokens)
    _, part = np.unique(parts, return_inverse=True)
    written = np.bincount(part, weights=tokens)
    found = cluster_ratio(written.tolist(), np.bincount(part).tolist())
    if found is None:
        return None
    method = f"replay of {len(tokens)} verify steps of {requests} recorded requests"
    if len(written) > requests:
        method += f", by {len(written)} blocks"
    few = len(written) < LEAST_REQUESTS
    return Estimate(found.value, found.low, found.high, 0.0, method, provisional=few)


def since_flush(steps: Steps) -> NDArray[np.int64]:
    """Return how many tokens were committed before each step."""
    return np.cumsum(steps.tokens, dtype=np.int64) - steps.tokens


def curve(steps: Steps) -> list[CurvePoint]:
    """Return the accept length over tokens since the flush, in spans that double."""
    done, points = since_flush(steps), []
    low, high, end = 0, FIRST_CURVE_TOKENS, int(steps.tokens.sum())
    while low < end:
        if 2 * high > end:
            high = end
        found = accept_of(steps, (done >= low) & (done < high))
        if found is not None:
            points.append(CurvePoint(low, high, found))
        low, high = high, 2 * high
    return points


def cold_accept(steps: Steps) -> Estimate | None:
    """Return the accept length right after the flush."""
    return accept_of(steps, since_flush(steps) < COLD_TOKENS)


def warm_accept(steps: Steps) -> Estimate | None:
    """Return the accept length over the later half of the text."""
    return accept_of(steps, since_flush(steps) >= int(steps.tokens.sum()) // 2)


def as_a_trial_serves(streams: Sequence[Stream]) -> tuple[list[Stream], range | None]:
    """Order a trial's streams as a trial of drafts serves such text, and say which count.

    Plain decode makes no generated warm-up: its warm-up and its step probe stand for that. The
    streams of its measured pass count; None where it made none.
    """
    by_part = {part: [s for s in streams if s.part == part] for part in _SERVED}
    ordered = [stream for part in _SERVED for stream in by_part[part]]
    measured = len(by_part[Phase.MEASURING.value])
    if not measured:
        return list(streams), None
    return ordered, range(len(ordered) - measured, len(ordered))


def _blocks(streams: NDArray[np.int32], tokens: NDArray[np.int32]) -> NDArray[np.int64]:
    return streams.astype(np.int64) * 2**32 + np.cumsum(tokens, dtype=np.int64) // BLOCK_TOKENS


class RecordedAccepts:
    """Accept lengths from a recording: the `AcceptSource` of predictions.

    `counted` are the streams that stand for what will be measured; those before them teach.
    Without, the later half of the text counts.
    """

    def __init__(
        self, replayer: Replayer, form: NgramForm, counted: Sequence[int] | None = None
    ) -> None:
        self._replayer, self._form = replayer, form
        self._counted = None if counted is None else np.array(counted, dtype=np.int32)
        self._found: dict[NgramShape, Estimate | None] = {}

    def accept(self, config: Config) -> Estimate | None:
        """Return the accept length of a configuration; None where nothing can be replayed."""
        if config.is_plain:
            return PLAIN
        shape = self._shape(config)
        if shape is None:
            return None
        if shape not in self._found:
            self._found[shape] = self._accept(self._replayer.steps(shape))
        return self._found[shape]

    def prepare(self, configs: Sequence[Config]) -> None:
        """Replay at once what many configurations ask for, on all cores."""
        shapes = [self._shape(config) for config in configs]
        self._replayer.all_steps([shape for shape in shapes if shape is not None])

    def _shape(self, config: Config) -> NgramShape | None:
        shape = self._form.shape(config) if config.algorithm == "NGRAM" else None
        unread = config.get(CORPUS) is not None and not self._replayer.has_corpora
        return None if unread else shape

    def _accept(self, steps: Steps) -> Estimate | None:
        if self._counted is None:
            return warm_accept(steps)
        return accept_of(steps, np.isin(steps.stream, self._counted))
