"""Where the GPU-hours went."""

from dataclasses import replace

import pytest

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
    book = ledger(trials, idle_gpu_hours=0.1)
    assert book.total == pytest.approx(0.8 + 0.4 + 0.3 + 0.8 + 0.1)
    assert book.spent[STARTING] == pytest.approx(0.75 * 1.2)
    assert book.spent[MEASURING] == pytest.approx(0.25 * 1.2)
    assert book.spent[FAILED] == 0.3
    assert book.spent[CONFIRMING] == 0.8
    assert book.spent[IDLE] == 0.1


def test_savings_are_what_a_whole_trial_would_have_cost() -> None:
    trials = [spent(0, 0.8), spent(1, 0.8), spent(2, 0.5, Outcome.STOPPED)]
    book = ledger(trials, collapsed=10, closed=2)
    assert book.saved == pytest.approx(
        {"early stopping": 0.3, "inert settings": 8.0, "closed values": 1.6}
    )


def test_nothing_was_saved_where_nothing_was_measured() -> None:
    assert ledger([spent(0, 0.2, Outcome.FAILED)], collapsed=3).saved == {}
