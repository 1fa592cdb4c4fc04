"""Replayed accept lengths outlive the process, and are of one text and one code."""

from pathlib import Path

import pytest

from orchestrator.kept_accepts import KeptAccepts
from sweeps.config import Config
from sweeps.replay.accepts import RecordedAccepts
from sweeps.replay.replayer import Replayer
from tests.sweeps.replay.test_accepts import FORM, ngram, streams

PLAIN = Config.of({"speculative_algorithm": None})


def source(concurrency: int = 1) -> RecordedAccepts:
    return RecordedAccepts(FORM, [(Replayer(streams(), concurrency=concurrency), None)])


def test_what_was_replayed_is_read_by_the_next_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [ngram(), ngram(ngram_match_depth=3), PLAIN]
    first = KeptAccepts(source(), tmp_path)
    first.prepare(asked)
    found = [first.accept(config) for config in asked]
    assert found == [source().accept(config) for config in asked]
    monkeypatch.setattr(Replayer, "all_steps", lambda *_: pytest.fail("replayed again"))
    again = KeptAccepts(source(), tmp_path)
    assert [again.accept(config) for config in asked] == found


def test_another_text_is_replayed_anew_and_a_spoilt_file_is_none(tmp_path: Path) -> None:
    first = KeptAccepts(source(), tmp_path)
    alone = first.accept(ngram())
    together = KeptAccepts(source(concurrency=2), tmp_path).accept(ngram())
    assert together == source(concurrency=2).accept(ngram())
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 2
    for path in kept:
        path.write_text('{"x": [1]}')
    assert KeptAccepts(source(), tmp_path).accept(ngram()) == alone
