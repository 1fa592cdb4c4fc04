"""A control loop that stands still is noticed once, and the stacks say where."""

import logging
import threading
from pathlib import Path

import pytest

from infra.clock import SimulatedClock
from orchestrator import watchdog
from orchestrator.hooks import Hooks
from orchestrator.watchdog import Watchdog, watched, write_stacks


def test_each_stall_is_told_once() -> None:
    clock, turns = SimulatedClock(), [0]
    dog = Watchdog(clock, lambda: turns[0], limit_s=60.0)
    told = []
    for second in range(0, 600, 5):
        clock.sleep_s(5.0)
        if not 100 <= second < 300 and not 400 <= second < 500:
            turns[0] += 1
        if (stood_s := dog.look()) is not None:
            told.append((second, stood_s))
    assert told == [(155, 60.0), (455, 60.0)]


def test_a_process_that_was_stopped_itself_is_no_stall() -> None:
    clock = SimulatedClock()
    dog = Watchdog(clock, lambda: 0, limit_s=60.0)
    clock.sleep_s(3600.0)
    assert dog.look() is None
    clock.sleep_s(20.0)
    assert dog.look() is None
    for _ in range(2):
        clock.sleep_s(20.0)
        told = dog.look()
    assert told == 60.0


def test_the_stacks_of_all_threads_are_written(tmp_path: Path) -> None:
    stuck = threading.Event()

    def the_loop_that_waits() -> None:
        stuck.wait(30)

    thread = threading.Thread(target=the_loop_that_waits)
    thread.start()
    log = tmp_path / "driver.log"
    log.write_text("before\n")
    write_stacks(log)
    stuck.set()
    thread.join()
    assert log.read_text().startswith("before\n")
    assert "the_loop_that_waits" in log.read_text()


def test_a_watched_loop_that_stalls_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watchdog, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(watchdog.Watchdog.__init__, "__defaults__", (0.05,))
    warned = threading.Event()

    class Noticed(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warned.set()

    handler = Noticed()
    logging.getLogger("orchestrator.watchdog").addHandler(handler)
    threads = threading.active_count()
    with watched(lambda: 0, tmp_path / "driver.log"):
        assert warned.wait(30)
    logging.getLogger("orchestrator.watchdog").removeHandler(handler)
    assert threading.active_count() == threads
    assert "stands still" in (tmp_path / "driver.log").read_text()


def test_a_hook_that_fails_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def broken(word: str) -> None:
        raise RuntimeError(word)

    def interrupted() -> None:
        raise KeyboardInterrupt

    hooks = Hooks()
    heard: list[str] = []
    with caplog.at_level(logging.ERROR, logger="orchestrator"):
        for _ in range(3):
            hooks.call(broken, "a broken display")
        hooks.call(heard.append, "fine")
    ((name, count),) = hooks.faults.items()
    assert name.endswith("broken")
    assert count == 3
    assert heard == ["fine"]
    assert len(caplog.records) == 1
    with pytest.raises(KeyboardInterrupt):
        hooks.call(interrupted)
