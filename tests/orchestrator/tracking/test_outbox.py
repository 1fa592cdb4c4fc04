"""The queue between those who tell and the one who writes."""

from pathlib import Path
from threading import Thread

from orchestrator.tracking.outbox import (
    MAX_SAMPLES,
    Event,
    Outbox,
    Progress,
    SweepStarted,
    TrialEnded,
    TrialStarted,
)
from orchestrator.tracking.seam import Sample
from tests.orchestrator.tracking import stores


def _drain(outbox: Outbox) -> list[Event]:
    outbox.close()
    return list(iter(outbox.take, None))


def test_events_keep_their_order_and_samples_precede_the_end() -> None:
    outbox = Outbox()
    outbox.put(SweepStarted(stores.SWEEP, 1))
    outbox.put(TrialStarted(stores.card(1), 2))
    outbox.put_sample("t1", Sample(0.0, 5.0), 3)
    outbox.put(TrialEnded(stores.result(1), Path(), 4))
    kinds = [type(event) for event in _drain(outbox)]
    assert kinds == [SweepStarted, TrialStarted, Progress, TrialEnded]


def test_samples_of_one_second_become_one() -> None:
    outbox = Outbox()
    for tok_s in (1.0, 2.0, 3.0):
        outbox.put_sample("t1", Sample(7.0 + tok_s / 10, tok_s), 1)
    (progress,) = _drain(outbox)
    assert isinstance(progress, Progress)
    assert {step: sample.tok_s for step, (sample, _) in progress.samples.items()} == {7: 3.0}


def test_too_many_samples_are_thinned_and_the_last_stays() -> None:
    outbox = Outbox()
    count = 10 * MAX_SAMPLES
    for second in range(count):
        outbox.put_sample("t1", Sample(float(second), 1.0), 1)
    (progress,) = _drain(outbox)
    assert isinstance(progress, Progress)
    assert len(progress.samples) <= MAX_SAMPLES
    assert max(progress.samples) == count - 1
    assert min(progress.samples) < count / 2


def test_samples_come_out_by_themselves_after_a_while() -> None:
    outbox = Outbox(linger_s=0.01)
    taken: list[Event | None] = []
    reader = Thread(target=lambda: taken.append(outbox.take()))
    reader.start()
    outbox.put_sample("t1", Sample(1.0, 1.0), 1)
    reader.join(30)
    outbox.close()
    assert taken == [Progress("t1", {1: (Sample(1.0, 1.0), 1)})]


def test_a_closed_outbox_takes_nothing() -> None:
    outbox = Outbox()
    outbox.close()
    assert not outbox.put(SweepStarted(stores.SWEEP, 1))
    assert not outbox.put_sample("t1", Sample(1.0, 1.0), 1)
    assert outbox.take() is None
