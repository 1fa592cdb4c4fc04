"""Where the GPU-hours went."""

from dataclasses import replace

import pytest

from sweeps.hosts import billed_hours, hours_unit
from sweeps.ledger import CONFIRMING, FAILED, IDLE, MEASURING, STARTING, ledger
from sweeps.results import Outcome, TrialResult
from tests.sweeps.makers import ngram, plain, result


def spent(number: int, hours: float, outcome: Outcome = Outcome.MEASURED,
          purpose: str = "search") -> TrialResult:  # fmt: skip
    made = result(number, ngram(4) if number else plain(), 50.0, outcome=outcome, purpose=purpose)
    return replace(made, gpu_hours=hours, phase_s={"starting": 60.0, "measuring": 20.0})


def test_every_hour_is_somewhere() -> None:
    trials = [
        spent(0, 0.8), spent(1, 0.4, Outcome.STOPPED), spent(2, 0.3, Outcome.FAILED),
        spent(3, 0.8, purpose="confirm"),
    ]  # fmt: skip
    book = ledger(trials, {})
    assert book.total == pytest.approx(0.8 + 0.4 + 0.3 + 0.8)
    assert book.spent[STARTING] == pytest.approx(0.75 * 1.2)
    assert book.spent[MEASURING] == pytest.approx(0.25 * 1.2)
    assert book.spent[FAILED] == 0.3
    assert book.spent[CONFIRMING] == 0.8


def at(second: int, number: int, host: str = "local") -> TrialResult:
    """Return a trial of 80 host seconds that began at some second of an hour."""
    stamp = f"2026-01-01T10:{second // 60:02d}:{second % 60:02d}+00:00"
    return replace(spent(number, 0.8), started_at=stamp, host=host)


def idle(trials: list[TrialResult], **scales: float | None) -> float:
    return ledger(trials, scales).spent.get(IDLE, 0.0)


def test_gpus_that_wait_between_trials_are_idle_by_the_clock_of_their_host() -> None:
    trials = [at(0, 0), at(100, 1), at(180, 2)]
    assert idle(trials, local=1.0) == pytest.approx(20 * 0.8 / 80)
    assert idle(trials, local=2.0) == pytest.approx((120 + 80) * 0.8 / 80)
    assert idle(trials, local=None) == 0.0
    assert idle(trials) == 0.0


def test_hosts_are_idle_each_by_itself_and_not_while_the_sweep_stood_still() -> None:
    trials = [at(0, 0), at(90, 1, "b"), at(100, 2), at(190, 3, "b")]
    assert idle(trials, local=1.0, b=1.0) == pytest.approx((20 + 20) * 0.8 / 80)
    assert idle([at(0, 0), at(3000, 1)], local=1.0) == 0.0


def test_savings_are_what_a_whole_trial_would_have_cost() -> None:
    trials = [
        spent(0, 0.8), spent(1, 0.8), spent(2, 0.5, Outcome.STOPPED), spent(3, 0.1, Outcome.FAILED)
    ]  # fmt: skip
    book = ledger(trials, {}, collapsed=10, closed=2)
    assert book.saved == pytest.approx(
        {"early stopping": 0.3, "inert settings": 8.0, "closed values": 0.2}
    )


def test_nothing_was_saved_where_nothing_was_measured() -> None:
    assert ledger([spent(0, 0.2, Outcome.FAILED)], {}, collapsed=3).saved == {}


def test_a_host_without_gpus_costs_its_own_hours() -> None:
    assert billed_hours(8, 1800) == 4.0
    assert billed_hours(0, 1800) == 0.5
    assert hours_unit([0, 0]) == ledger([], {}, unit=hours_unit([0])).unit == "host-hours"
    assert hours_unit([0, 8]) == "GPU-hours"
