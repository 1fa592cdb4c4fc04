"""What a person sees of a running sweep, on a terminal and in a log."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator import display
from orchestrator.display import LiveTable, PlainLines, follower_for
from orchestrator.events import Follower, SweepStart, Tally
from orchestrator.job import TrialJob, TrialProgress
from sweeps.hosts import EngineName, HostSpec
from sweeps.results import Outcome, Phase
from tests.sweeps.makers import SMALL, estimate, ngram, result

HOST = HostSpec(engine=EngineName.EMULATED)
JOB = TrialJob("t-0003", "t", 3, SMALL, ngram(4), HOST, Path("/nowhere"))
PROGRESS = TrialProgress("t-0003", Phase.MEASURING, 214.0, 81.5, 80.0, 83.0, 1.43)
MEASURED = result(3, ngram(4), 84.0)
TALLY = Tally(4, 24, 1.25, MEASURED, None, 90.0)


def _shown(*, terminal: bool, told: int = 4) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=150)
    follower: Follower = follower_for(console)
    assert isinstance(follower, LiveTable if terminal else PlainLines)
    done = replace(MEASURED, estimates={**MEASURED.estimates, "accept_length": estimate(1.4)})
    steps: list[Callable[[], None]] = [
        lambda: follower.sweep_started(SweepStart("t", replace(SMALL, hosts=[HOST]), True, 2)),
        lambda: follower.trial_started(JOB),
        lambda: follower.progress(PROGRESS, TALLY),
        lambda: follower.trial_ended(done, TALLY),
    ]
    for step in steps[:told]:
        step()
    follower.sweep_ended("finished")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_says_emulated_first_and_shows_rate_interval_leader_and_cost(terminal: bool) -> None:
    shown = _shown(terminal=terminal)
    assert "EMULATED" in shown.splitlines()[0] or terminal
    for words in ("EMULATED", "2 of them done", "84.0 tok/s ±1.0", "1.40",
                  "ngram n4" if terminal else "NGRAM num_draft_tokens=4",
                  "leader 84.0", "1.25 GPU-hours", "about 90 s left"):  # fmt: skip
        assert words in shown


def test_a_running_trial_shows_its_phase_its_rate_and_its_accept_length_so_far() -> None:
    shown = _shown(terminal=True, told=3)
    for words in ("measuring", "81.5 tok/s ±1.5", "1.43"):
        assert words in shown


def test_plain_lines_give_a_sign_of_life_only_after_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "214 s" not in _shown(terminal=False)
    monkeypatch.setattr(display, "QUIET_WALL_S", 0.0)
    assert "trial   3 measuring, 214 s  81.5 tok/s ±1.5" in _shown(terminal=False)


def test_a_stopped_trial_shows_the_bound_that_stopped_it() -> None:
    stopped = replace(MEASURED, outcome=Outcome.STOPPED, bound=88.8, reason="worse")
    console = Console(file=io.StringIO(), width=150)
    PlainLines(console).trial_ended(stopped, TALLY)
    assert isinstance(console.file, io.StringIO)
    assert "84.0 tok/s, at most 88.8" in console.file.getvalue()
