"""Accept lengths of recorded text: cold, warm, over the tokens, and by configuration."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from sweeps.config import Config
from sweeps.drafting.ngram import NgramShape
from sweeps.replay.accepts import (
    CORPUS,
    FOLDS,
    RecordedAccepts,
    accept_of,
    as_a_trial_serves,
    cold_accept,
    curve,
    warm_accept,
)
from sweeps.replay.form import NgramForm
from sweeps.replay.replayer import Replayer
from sweeps.replay.streams import Steps, Stream, steps_of
from sweeps.results import Phase

FORM = NgramForm(
    {"speculative_num_draft_tokens": None, "speculative_ngram_max_trie_depth": 18,
     "speculative_ngram_external_sam_budget": 0},
    {"ngram_match_depth": "speculative_ngram_max_trie_depth"},
)  # fmt: skip
PHRASES = [[100 * n + word for word in range(1, 8)] for n in range(200)]


def text(seed: int, tokens: int) -> list[int]:
    """Write known phrases with new words between them: what was written helps later."""
    rng, written = random.Random(seed), list[int]()
    while len(written) < tokens:
        written += [*rng.choice(PHRASES), rng.randrange(30_000, 90_000)]
    return written[:tokens]


def streams(requests: int = 10, tokens: int = 400) -> list[Stream]:
    return [Stream([1, 2], text(n, tokens)) for n in range(requests)]


def ngram(**settings: int | str) -> Config:
    return Config.of({"speculative_algorithm": "NGRAM", **settings})


def chosen(steps: Steps, numbers: Sequence[int]) -> float:
    keep = np.isin(steps.stream, numbers)
    return float(steps.tokens[keep].sum() / keep.sum())


def test_plain_decode_accepts_one_and_other_drafters_cannot_be_replayed() -> None:
    source = RecordedAccepts(FORM, [(Replayer(streams(2)), None)])
    plain = source.accept(Config.of({}))
    assert plain is not None
    assert plain.value == 1
    assert source.accept(Config.of({"speculative_algorithm": "EAGLE3"})) is None
    assert source.accept(ngram(**{CORPUS: "corpus.jsonl"})) is None


def test_the_streams_that_count_are_taught_by_those_before() -> None:
    replayer = Replayer(streams())
    source = RecordedAccepts(FORM, [(replayer, range(5, 10))])
    told = source.accept(ngram(speculative_num_draft_tokens=8))
    assert told is not None
    assert told.low is not None
    assert told.high is not None
    expected = chosen(replayer.steps(NgramShape(8)), range(5, 10))
    assert told.value == pytest.approx(expected)
    assert told.low < expected < told.high
    assert told.value > chosen(replayer.steps(NgramShape(8)), [0])


def test_each_stream_of_a_trial_s_measured_pass_counts_once_after_all_others() -> None:
    parts = {Phase.MEASURING: 6, Phase.COLD: 2, Phase.PROBING: 1, Phase.LOADED: 1}
    names = [phase.value for phase, count in parts.items() for _ in range(count)]
    written = [Stream((), [n, n + 1], part=part) for n, part in enumerate(names)]
    folds = as_a_trial_serves(written)
    assert len(folds) == FOLDS
    counting = []
    for ordered, counted in folds:
        assert counted is not None
        assert [s.part for s in ordered[:3]] == ["cold pass", "cold pass", "step probe"]
        assert len(ordered) == 9, "other loads stay out"
        counting += [stream.output[0] for stream in ordered[counted.start : counted.stop]]
    assert sorted(counting) == list(range(6))
    [(ordered, none)] = as_a_trial_serves(written[6:])
    assert none is None
    assert ordered == written[6:]


def test_what_a_trial_wrote_is_taught_before_it_counts() -> None:
    written = [replace(s, part=Phase.MEASURING.value) for s in streams()]
    folded = RecordedAccepts.of_trial(written, FORM).accept(ngram(speculative_num_draft_tokens=8))
    steps = Replayer(written).steps(NgramShape(8))
    assert folded is not None
    assert "10 recorded requests" in folded.method
    assert folded.value > steps.tokens.sum() / len(steps)


def test_a_neutral_name_is_the_flag_of_the_version() -> None:
    source = RecordedAccepts(FORM, [(Replayer(streams()), None)])
    assert source.accept(ngram(ngram_match_depth=3)) == source.accept(
        ngram(speculative_ngram_max_trie_depth=3)
    )


def test_what_is_prepared_is_what_is_asked_one_by_one_and_its_steps_are_dropped() -> None:
    replayer = Replayer(streams())
    prepared = RecordedAccepts(FORM, [(replayer, None)])
    asked = [ngram(), ngram(ngram_match_depth=3), Config.of({"speculative_algorithm": None})]
    prepared.prepare(asked)
    alone = RecordedAccepts(FORM, [(Replayer(streams()), None)])
    assert [prepared.accept(c) for c in asked] == [alone.accept(c) for c in asked]
    assert not replayer.kept


def test_text_that_repeats_itself_is_accepted_better_when_warm() -> None:
    steps = Replayer(streams()).steps(NgramShape(8))
    cold, warm, points = cold_accept(steps), warm_accept(steps), curve(steps)
    assert cold is not None
    assert warm is not None
    assert warm.value > cold.value
    assert points[-1].accept.value > points[0].accept.value
    assert [p.from_tokens for p in points[1:]] == [p.to_tokens for p in points[:-1]]
    assert points[-1].to_tokens == steps.tokens.sum() == 10 * 399


def test_one_long_request_has_an_interval_by_its_blocks() -> None:
    steps = Replayer([Stream([1], text(3, 4000))]).steps(NgramShape(4))
    whole = accept_of(steps, np.ones(len(steps), dtype=bool))
    assert whole is not None
    assert whole.low is not None
    assert "blocks" in whole.method
    assert accept_of(steps_of([]), np.zeros(0, dtype=bool)) is None


def test_an_external_corpus_is_replayed_by_the_reference() -> None:
    taught = Replayer(streams(3), corpora=[PHRASES])
    shape = NgramShape(8, sam_budget=4)
    assert len(taught.steps(shape)) < len(Replayer(streams(3)).steps(shape))
