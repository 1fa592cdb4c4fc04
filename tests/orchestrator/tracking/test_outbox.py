"""The queue on disk between those who tell and the one who writes."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.journal import VERSION, DiskError, seal
from orchestrator.tracking.events import (
    Event,
    Progress,
    SweepEnded,
    SweepsDied,
    SweepStarted,
    TrialEnded,
    TrialFiles,
    TrialStarted,
    event_data,
    event_from,
)
from orchestrator.tracking.outbox import COMPACT_BYTES, MAX_SAMPLES, Entry, Outbox
from orchestrator.tracking.seam import Sample
from sweeps.problems import BadInputError
from tests.orchestrator.disks import read_only_disk, small_disk
from tests.orchestrator.tracking import stores

STARTED = [TrialStarted(stores.card(number), number) for number in range(5)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where an outbox may lie."""
    return tmp_path / "outbox.jsonl"


def _filled(path: Path) -> Outbox:
    outbox = Outbox(path)
    for event in STARTED:
        outbox.put(event, event.at_ms)
    return outbox


def _sent(outbox: Outbox, count: int = 1_000_000) -> Iterator[Event]:
    while count and (entry := outbox.take()) is not None:
        yield from entry.events
        outbox.done(entry)
        count -= 1


def _rest(path: Path) -> list[Event]:
    """Return what the next process sends."""
    outbox = Outbox(path)
    outbox.close()
    return list(_sent(outbox))


@pytest.mark.parametrize(
    "event",
    [
        SweepStarted(replace(stores.SWEEP, higher_is_better=False), 1),
        TrialStarted(stores.card(1), 2),
        Progress("t1", {3: (Sample(3.5, math.inf, None, 1.0), 4)}),
        TrialEnded(stores.result(1, effective={"a": None, "b": 0.1}), Path("/x"), 5),
        TrialFiles("t1", "s1", Path("/x")),
        SweepEnded("s1", "finished", 6),
        SweepEnded("s1", "finished", 6, stores.REVIEW),
        TrialStarted(replace(stores.card(1), name="plain", absent={"n": 0}), 2),
        SweepsDied(("s1", "s2"), 7),
    ],
)
def test_events_go_to_disk_and_back(event: Event) -> None:
    assert event_from(json.loads(json.dumps(event_data(event), allow_nan=False))) == event


def test_what_is_no_event_is_none() -> None:
    assert event_from({"kind": "Guess", "event": {}}) is None


def test_events_keep_their_order_and_samples_precede_the_end(path: Path) -> None:
    outbox = Outbox(path)
    outbox.put(SweepStarted(stores.SWEEP, 1))
    outbox.put(TrialStarted(stores.card(1), 2))
    outbox.put_sample("t1", Sample(0.0, 5.0), 3)
    outbox.put(TrialEnded(stores.result(1), Path("/"), 4))
    outbox.close()
    kinds = [type(event) for event in _sent(outbox)]
    assert kinds == [SweepStarted, TrialStarted, Progress, TrialEnded]


def test_samples_of_one_second_become_one(path: Path) -> None:
    outbox = Outbox(path)
    for tok_s in (1.0, 2.0, 3.0):
        outbox.put_sample("t1", Sample(7.0 + tok_s / 10, tok_s), 1)
    outbox.close()
    (progress,) = _sent(outbox)
    assert isinstance(progress, Progress)
    assert {step: sample.tok_s for step, (sample, _) in progress.samples.items()} == {7: 3.0}


def test_too_many_samples_are_thinned_and_the_last_stays(path: Path) -> None:
    outbox = Outbox(path, linger_s=1e6)
    count = 10 * MAX_SAMPLES
    for second in range(count):
        outbox.put_sample("t1", Sample(float(second), 1.0), 1)
    outbox.close()
    (progress,) = _sent(outbox)
    assert isinstance(progress, Progress)
    assert len(progress.samples) <= MAX_SAMPLES
    assert max(progress.samples) == count - 1
    assert min(progress.samples) < count / 2


def test_samples_come_out_by_themselves_after_a_while(path: Path) -> None:
    outbox = Outbox(path, linger_s=0.01)
    taken: list[Entry | None] = []
    reader = Thread(target=lambda: taken.append(outbox.take()))
    reader.start()
    outbox.put_sample("t1", Sample(1.0, 1.0), 1)
    reader.join(30)
    outbox.close()
    assert [entry.events for entry in taken if entry] == [
        (Progress("t1", {1: (Sample(1.0, 1.0), 1)}),)
    ]


def test_samples_that_pile_up_are_sent_together_by_trial(path: Path) -> None:
    outbox = Outbox(path, linger_s=0.0)
    for second in range(20):
        for trial in ("t1", "t2"):
            outbox.put_sample(trial, Sample(float(second), 1.0), second)
    outbox.close()
    entry = outbox.take()
    assert entry is not None
    sizes = {e.trial: len(e.samples) for e in entry.events if isinstance(e, Progress)}
    assert sizes == {"t1": 20, "t2": 20}


def test_a_closed_outbox_takes_nothing(path: Path) -> None:
    outbox = Outbox(path)
    outbox.close()
    assert not outbox.put(STARTED[0])
    assert not outbox.put_sample("t1", Sample(1.0, 1.0), 1)
    assert outbox.take() is None


@pytest.mark.parametrize("sent", range(6))
def test_what_a_killed_driver_did_not_send_the_next_one_does(path: Path, sent: int) -> None:
    killed = _filled(path)  # never closed
    assert list(_sent(killed, sent)) == STARTED[:sent]
    assert _rest(path) == STARTED[sent:]


def test_taking_is_not_sending(path: Path) -> None:
    killed = _filled(path)
    killed.take()
    assert _rest(path) == STARTED


@given(cut=st.integers(0, 2_000), garbage=st.binary(max_size=40))
def test_a_damaged_end_costs_only_itself(
    tmp_path_factory: pytest.TempPathFactory, cut: int, garbage: bytes
) -> None:
    path = tmp_path_factory.mktemp("outbox") / "outbox.jsonl"
    _filled(path)
    content = path.read_bytes()[:cut]
    path.write_bytes(content + garbage)
    whole = max(0, content.count(b"\n") - 1)
    assert _rest(path)[:whole] == STARTED[:whole]


@pytest.mark.parametrize("mark", ["", "[]", '{"sent_bytes": 7, "aside": [], "stamp_ms": 9}', "{"])
def test_a_mark_that_does_not_fit_sends_all_again(path: Path, mark: str) -> None:
    list(_sent(_filled(path), 3))
    path.with_suffix(".mark").write_text(mark)
    assert _rest(path) == STARTED


def test_what_is_set_aside_is_kept_over_a_restart(path: Path) -> None:
    first = _filled(path)
    entry = first.take()
    assert entry is not None
    first.set_aside(entry)
    list(_sent(first, 4))
    again = Outbox(path)
    again.close()
    assert again.take() is None
    (aside,) = again.asides()
    assert aside.events == (STARTED[0],)
    again.settle(aside)
    again.release()
    assert not path.exists()


def test_time_never_goes_back_over_a_restart(path: Path) -> None:
    first = Outbox(path)
    first.put(STARTED[0], 5_000)
    first.close()
    list(_sent(first))
    first.release()
    assert Outbox(path).stamp_ms == 5_000


def test_a_file_of_which_all_is_sent_does_not_grow(path: Path) -> None:
    outbox = Outbox(path)
    long = replace(stores.card(1), purpose="x" * 10_000)
    longest = 0
    for at_ms in range(3 * COMPACT_BYTES // 10_000):
        outbox.put(TrialStarted(long, at_ms))
        assert len(list(_sent(outbox, 1))) == 1
        longest = max(longest, path.stat().st_size)
    assert longest < 1.1 * COMPACT_BYTES
    outbox.put(STARTED[0])
    assert _rest(path) == [STARTED[0]]


def test_a_file_that_somebody_removed_is_still_sent(path: Path) -> None:
    outbox = _filled(path)
    path.unlink()
    outbox.put(SweepEnded("s1", "finished", 9))
    outbox.close()
    assert list(_sent(outbox)) == [*STARTED, SweepEnded("s1", "finished", 9)]
    outbox.release()


def test_what_cannot_be_said_in_json_is_counted_as_lost(path: Path) -> None:
    outbox = Outbox(path)
    outbox.put(SweepStarted(replace(stores.SWEEP, params={"a": object()}), 1))  # type: ignore[dict-item] # wrong on purpose
    outbox.put(STARTED[0])
    assert outbox.lost == 1
    assert _rest(path) == [STARTED[0]]


def test_a_full_disk_is_counted_and_raises_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as folder:
        outbox = Outbox(folder / "outbox.jsonl")
        long = replace(stores.card(1), purpose="x" * 5_000)
        kept = [outbox.put(TrialStarted(long, at_ms), at_ms) for at_ms in range(30)]
        assert kept.count(False) == outbox.lost > 0
        assert 0 < outbox.lost < 30
        outbox.close()
        assert len(list(_sent(outbox))) == 30 - outbox.lost
        outbox.release()


@pytest.mark.parametrize("name", ["outbox.jsonl", "below/outbox.jsonl"])
def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path, name: str) -> None:
    with (
        read_only_disk(tmp_path / "disk") as folder,
        pytest.raises(DiskError, match=r"outbox\.jsonl cannot be written: "),
    ):
        Outbox(folder / name)


def test_an_outbox_of_a_newer_version_is_refused(path: Path) -> None:
    path.write_bytes(seal({"kind": "outbox", "version": VERSION + 1}))
    with pytest.raises(BadInputError, match="a newer release wrote"):
        Outbox(path)
