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
from sweeps.values import digest

COLD_TOKENS = 2048
"""What is written right after a flush: about a cold pass."""
LEAST_REQUESTS = 8
"""Fewer requests do not show how they differ; then blocks of their text stand for them."""
BLOCK_TOKENS = 256
FIRST_CURVE_TOKENS = 512
CORPUS = "speculative_ngram_external_corpus_path"

FOLDS = 2
AT_ONCE = 32
"""Settings whose steps are kept at a time: those of thousands would fill the memory."""
_BEFORE = tuple(p.value for p in (Phase.COLD, Phase.WARMING, Phase.PROBING))

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


def as_a_trial_serves(streams: Sequence[Stream]) -> list[tuple[list[Stream], range | None]]:
    """Order a trial's streams as a trial of drafts serves such text, and say which count.

    Plain decode makes no generated warm-up. Its step probe and most of its measured pass stand for
    that: each fold of the pass is served after all the others, and counts there alone. Two
    settings on the founding host came to 0.1 and 1.0 % of what was measured, without folds to
    1.4 and 3.0 %. None counts where there was no measured pass.
    """
    before = [s for part in _BEFORE for s in streams if s.part == part]
    measured = [s for s in streams if s.part == Phase.MEASURING.value]
    if not measured:
        return [(list(streams), None)]
    folds = min(FOLDS, len(measured))
    parts: list[tuple[list[Stream], range | None]] = []
    for fold in range(folds):
        counted = measured[fold::folds]
        taught = [s for n, s in enumerate(measured) if n % folds != fold]
        ordered = [*before, *taught, *counted]
        parts.append((ordered, range(len(ordered) - len(counted), len(ordered))))
    return parts


def _blocks(streams: NDArray[np.int32], tokens: NDArray[np.int32]) -> NDArray[np.int64]:
    return streams.astype(np.int64) * 2**32 + np.cumsum(tokens, dtype=np.int64) // BLOCK_TOKENS


class RecordedAccepts:
    """Accept lengths from a recording: the `AcceptSource` of predictions.

    Each part is served after a flush. In it the streams `counted` stand for what will be
    measured, and those before them teach; without, the later half of the text counts.
    """

    def __init__(self, form: NgramForm, parts: Sequence[tuple[Replayer, range | None]]) -> None:
        self._form, self._parts = form, parts
        self._found: dict[NgramShape, Estimate | None] = {}

    @classmethod
    def of_trial(
        cls, streams: Sequence[Stream], form: NgramForm, concurrency: int = 1
    ) -> "RecordedAccepts":
        """Take what a plain decode trial wrote, as a trial of drafts would serve such text."""
        parts = as_a_trial_serves(streams)
        return cls(form, [(Replayer(s, concurrency=concurrency), counted) for s, counted in parts])

    @property
    def digest(self) -> str:
        """Return the hash of all that the accept lengths depend on, but for the settings."""
        parts = [[replayer.digest, counted] for replayer, counted in self._parts]
        return digest([repr(self._form), repr(parts)])

    def accept(self, config: Config) -> Estimate | None:
        """Return the accept length of a configuration; None where nothing can be replayed."""
        if config.is_plain:
            return PLAIN
        shape = self._shape(config)
        if shape is None:
            return None
        self.prepare([config])
        return self._found[shape]

    def accept_of_shape(self, shape: NgramShape) -> Estimate | None:
        """Return the accept length of a way of drafting."""
        if self._parts[0][1] is None:
            return warm_accept(self._parts[0][0].steps(shape))
        tokens, streams = [], []
        for number, (replayer, counted) in enumerate(self._parts):
            assert counted is not None, "all parts or none"
            steps = replayer.steps(shape)
            chosen = (steps.stream >= counted.start) & (steps.stream < counted.stop)
            tokens.append(steps.tokens[chosen])
            streams.append(steps.stream[chosen] + number * len(replayer.streams))
        joined = np.concatenate(tokens)
        together = Steps(np.concatenate(streams), joined, joined)
        return accept_of(together, np.ones(len(together), dtype=bool))

    def prepare(self, configs: Sequence[Config]) -> None:
        """Replay at once what many configurations ask for, on all cores."""
        shapes = dict.fromkeys(self._shape(config) for config in configs)
        wanted = [s for s in shapes if s is not None and s not in self._found]
        for first in range(0, len(wanted), AT_ONCE):
            batch = wanted[first : first + AT_ONCE]
            for replayer, _ in self._parts:
                replayer.all_steps(batch)
            self._found |= {shape: self.accept_of_shape(shape) for shape in batch}
            for replayer, _ in self._parts:
                replayer.forget()

    def _shape(self, config: Config) -> NgramShape | None:
        shape = self._form.shape(config) if config.algorithm == "NGRAM" else None
        unread = config.get(CORPUS) is not None and not self._parts[0][0].has_corpora
        return None if unread else shape
