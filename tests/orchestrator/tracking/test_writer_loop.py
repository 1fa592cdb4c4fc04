"""How the writer's thread meets failures."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.tracking.events import (
    Event,
    Progress,
    SweepEnded,
    SweepStarted,
    TrialEnded,
    TrialStarted,
)
from orchestrator.tracking.outbox import Outbox
from orchestrator.tracking.seam import Sample
from orchestrator.tracking.writer_loop import CLOSING_FAILURES, STRIKES, Backoff, WriterLoop
from tests.orchestrator.tracking import stores
from tests.patience import GIVE_UP_S

CLOSE_S = GIVE_UP_S
EVENTS: list[Event] = [
    SweepStarted(stores.SWEEP, 1),
    TrialStarted(stores.card(1), 2),
    TrialStarted(stores.card(2), 3),
    SweepEnded("s1", "finished", 4),
]


class Shelf:
    """A store that fails as often as it is told to, for the events that it is told of."""

    def __init__(
        self, fails: Callable[[Event, int], Exception | None], *, answers: bool = False
    ) -> None:
        self.fails = fails
        self.answers = answers
        self.kept: list[Event] = []
        self.refusals: list[Event] = []
        self.tries = self.forgotten = 0

    def write(self, event: Event) -> None:
        """Keep an event, or fail."""
        self.tries += 1
        if error := self.fails(event, self.tries):
            raise error
        self.kept.append(event)

    def probe(self) -> None:
        """Fail if this store is away when it fails."""
        if not self.answers:
            raise OSError("away")

    def is_passing(self, error: Exception) -> bool:
        """Tell a lock from the rest."""
        return "locked" in str(error)

    def forget(self) -> None:
        """Count."""
        self.forgotten += 1

    def refused(self, event: Event, reason: str) -> None:
        """Note it."""
        self.refusals.append(event)


def _run(shelf: Shelf, folder: Path) -> tuple[WriterLoop, Outbox]:
    outbox = Outbox(folder / "outbox.jsonl")
    for event in EVENTS:
        outbox.put(event)
    return WriterLoop(outbox, shelf, Backoff(0.0, 0.0)), outbox


def _wait(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + CLOSE_S
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert condition()


def test_an_outage_of_any_length_leaves_no_trace(tmp_path: Path) -> None:
    shelf = Shelf(lambda event, tries: OSError("away") if tries < 500 else None)
    loop, _ = _run(shelf, tmp_path)
    _wait(lambda: len(shelf.kept) == len(EVENTS))
    assert loop.close(CLOSE_S)
    assert shelf.kept == EVENTS
    assert loop.failures == shelf.forgotten == 499
    assert not (tmp_path / "outbox.jsonl").exists()


def test_a_lock_that_is_held_for_long_is_no_refusal(tmp_path: Path) -> None:
    shelf = Shelf(
        lambda event, tries: OSError("database is locked") if tries < 50 else None, answers=True
    )
    loop, _ = _run(shelf, tmp_path)
    _wait(lambda: len(shelf.kept) == len(EVENTS))
    assert loop.close(CLOSE_S)
    assert (shelf.kept, shelf.refusals) == (EVENTS, [])


def test_one_bad_event_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    shelf = Shelf(
        lambda event, tries: RuntimeError("no") if event == EVENTS[1] else None, answers=True
    )
    loop, outbox = _run(shelf, tmp_path)
    assert not loop.close(CLOSE_S)
    assert shelf.kept == [EVENTS[0], EVENTS[2], EVENTS[3]]
    assert shelf.refusals == [EVENTS[1]]
    assert [entry.events for entry in Outbox(outbox.path).asides()] == [(EVENTS[1],)]


def test_what_was_set_aside_is_written_before_the_sweep_ends(tmp_path: Path) -> None:
    shelf = Shelf(
        lambda event, tries: OSError("no") if event == EVENTS[1] and tries < 2 + STRIKES else None,
        answers=True,
    )
    loop, _ = _run(shelf, tmp_path)
    assert loop.close(CLOSE_S)
    assert shelf.kept == [EVENTS[0], EVENTS[2], EVENTS[1], EVENTS[3]]


def test_closing_does_not_wait_for_a_store_that_is_away(tmp_path: Path) -> None:
    shelf = Shelf(lambda event, tries: OSError("away"))
    loop, _ = _run(shelf, tmp_path)
    assert not loop.close(CLOSE_S)
    before = shelf.tries
    assert not loop.close(CLOSE_S)
    assert shelf.tries == before
    assert not loop.is_running


def test_the_next_loop_sends_what_an_earlier_one_could_not(tmp_path: Path) -> None:
    away = Shelf(lambda event, tries: OSError("away"))
    earlier, _ = _run(away, tmp_path / "a")
    assert not earlier.close(CLOSE_S)
    shelf = Shelf(lambda event, tries: None)
    own = Outbox(tmp_path / "b" / "outbox.jsonl")
    own.put(TrialStarted(stores.card(9), 9))
    paths = [tmp_path / "a" / "outbox.jsonl"]
    loop = WriterLoop(own, shelf, Backoff(0.0, 0.0), paths)
    assert loop.close(CLOSE_S)
    assert shelf.kept == [*EVENTS, TrialStarted(stores.card(9), 9)]
    assert not paths[0].exists()


@pytest.mark.parametrize("error", [ImportError("mlflow"), ModuleNotFoundError("mlflow")])
def test_a_missing_library_is_tried_once(error: ImportError, tmp_path: Path) -> None:
    shelf = Shelf(lambda event, tries: error)
    loop, outbox = _run(shelf, tmp_path)
    assert not loop.close(CLOSE_S)
    assert shelf.tries == 1
    assert outbox.waiting == len(EVENTS)


def test_closing_gives_up_after_a_few_failures(tmp_path: Path) -> None:
    shelf = Shelf(lambda event, tries: OSError("away"))
    loop, _ = _run(shelf, tmp_path)
    _wait(lambda: loop.failures > 3)
    at_close = loop.failures
    loop.close(CLOSE_S)
    assert loop.failures - at_close <= 10 * CLOSING_FAILURES


def test_waits_double_up_to_a_limit_and_are_not_all_the_same() -> None:
    backoff = Backoff(1.0, 30.0)
    for failures, full_s in [(1, 1.0), (2, 2.0), (4, 8.0), (6, 30.0), (10_000, 30.0)]:
        waits = [backoff.wait_s(failures) for _ in range(50)]
        assert all(full_s / 2 <= wait_s <= full_s for wait_s in waits)
        assert len(set(waits)) > 1


@pytest.mark.slow
def test_a_thousand_trials_leave_neither_threads_nor_memory_nor_disk(tmp_path: Path) -> None:
    shelf = Shelf(lambda event, tries: OSError("away") if tries % 7 == 0 else None)
    outbox = Outbox(tmp_path / "outbox.jsonl", linger_s=0.0)
    loop = WriterLoop(outbox, shelf, Backoff(0.0, 0.0))
    threads, waiting, longest = set(), 0, 0
    for number in range(1_000):
        outbox.put(TrialStarted(stores.card(number), number))
        for second in range(3):
            outbox.put_sample(f"t{number}", Sample(float(second), 1.0), number)
        outbox.put(TrialEnded(replace(stores.result(number), reason="x" * 3_000), tmp_path, number))
        if number % 50 == 49:
            _wait(lambda: outbox.waiting == 0)
            threads.add(threading.active_count())
            waiting = max(waiting, sum(map(len, outbox._samples.values())))
            longest = max(longest, outbox.path.stat().st_size)
            shelf.kept.clear()
    assert loop.close(CLOSE_S)
    assert len(threads) == 1
    assert waiting == 0
    assert longest < 2_000_000


def test_samples_are_told_in_memory_bounds_while_the_store_is_away(tmp_path: Path) -> None:
    shelf = Shelf(lambda event, tries: OSError("away"))
    outbox = Outbox(tmp_path / "outbox.jsonl", linger_s=0.0)
    loop = WriterLoop(outbox, shelf, Backoff(0.0, 0.001))
    most = 0
    for second in range(2_000):
        outbox.put_sample("t1", Sample(float(second), 1.0), second)
        most = max(most, sum(map(len, outbox._samples.values())))
    assert most <= 1
    shelf.fails = lambda event, tries: None
    assert loop.close(CLOSE_S)
    steps = [step for event in shelf.kept if isinstance(event, Progress) for step in event.samples]
    assert sorted(steps) == list(range(2_000))
