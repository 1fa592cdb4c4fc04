"""How the writer's thread meets failures."""

from collections.abc import Callable

import pytest

from orchestrator.tracking.outbox import Event, Outbox, SweepEnded, SweepStarted, TrialStarted
from orchestrator.tracking.writer_loop import WriterLoop
from tests.orchestrator.tracking import stores

CLOSE_S = 30.0
EVENTS: list[Event] = [
    SweepStarted(stores.SWEEP, 1),
    TrialStarted(stores.card(1), 2),
    TrialStarted(stores.card(2), 3),
    SweepEnded("s1", "finished", 4),
]


class Shelf:
    """A store that fails as often as it is told to, for the events that it is told of."""

    def __init__(self, fails: Callable[[Event, int], Exception | None]) -> None:
        self.fails = fails
        self.kept: list[Event] = []
        self.tries = 0

    def write(self, event: Event) -> None:
        """Keep an event, or fail."""
        self.tries += 1
        if error := self.fails(event, self.tries):
            raise error
        self.kept.append(event)


def _run(shelf: Shelf) -> tuple[WriterLoop, bool, int]:
    outbox = Outbox()
    forgotten: list[int] = []
    for event in EVENTS:
        outbox.put(event)
    loop = WriterLoop(outbox, shelf.write, lambda: forgotten.append(1), (0.0, 0.0))
    return loop, loop.close(CLOSE_S), len(forgotten)


def test_a_failure_that_passes_leaves_no_trace() -> None:
    shelf = Shelf(lambda event, tries: OSError("busy") if tries < 3 else None)
    loop, complete, forgotten = _run(shelf)
    assert complete
    assert shelf.kept == EVENTS
    assert loop.failures == forgotten == 2


def test_one_bad_event_does_not_hold_up_the_rest() -> None:
    shelf = Shelf(lambda event, tries: RuntimeError("no") if event is EVENTS[1] else None)
    loop, complete, _ = _run(shelf)
    assert not complete
    assert shelf.kept == [EVENTS[0], EVENTS[2], EVENTS[3]]
    assert loop.unwritten == [EVENTS[1]]


def test_what_was_set_aside_is_written_before_the_sweep_ends() -> None:
    shelf = Shelf(
        lambda event, tries: OSError("busy") if event is EVENTS[1] and tries < 5 else None
    )
    _, complete, _ = _run(shelf)
    assert complete
    assert shelf.kept == [EVENTS[0], EVENTS[2], EVENTS[1], EVENTS[3]]


@pytest.mark.parametrize("error", [ImportError("mlflow"), ModuleNotFoundError("mlflow")])
def test_a_missing_library_is_tried_once(error: ImportError) -> None:
    shelf = Shelf(lambda event, tries: error)
    loop, complete, _ = _run(shelf)
    assert not complete
    assert shelf.tries == 1
    assert loop.unwritten == EVENTS
