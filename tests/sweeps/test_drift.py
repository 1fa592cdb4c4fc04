"""The alarm for a pass that was still warming up."""

import numpy as np
import pytest

from sweeps.drift import LEAST_BINS, drift, drift_of
from tests.sweeps import passes


def alarm_share(cold: float, runs: int = 100) -> float:
    """Return how often the alarm rings if a share of the rate is missing at first, for 30 s."""
    rng = np.random.default_rng(9)
    times, tokens = passes.speculative_steps(rng, runs, 7600)
    rang = 0
    for t, k in zip(times, tokens, strict=True):
        slower = t / (1 - cold * np.exp(-np.cumsum(t) / 30))
        found = drift_of(passes.one_stream(slower, k, 180.0))
        assert found is not None
        rang += found.is_alarming
    return rang / runs


@pytest.mark.slow
def test_the_alarm_is_seldom_false_and_hears_a_slow_warm_up() -> None:
    assert alarm_share(0.0) <= 0.06
    assert alarm_share(0.5) >= 0.7


def test_only_a_slow_start_alarms() -> None:
    slow, fast = [10.0, 11.0] * 10, [20.0, 21.0] * 40
    found = drift(slow + fast)
    assert found is not None
    assert found.is_alarming
    assert found.first_per_s == pytest.approx(10.5)
    assert found.last_per_s == pytest.approx(20.5)
    slows = drift(fast + slow)
    assert slows is not None
    assert not slows.is_alarming


def test_a_short_pass_tells_nothing() -> None:
    assert drift([1.0] * (LEAST_BINS - 1)) is None
    assert drift_of(passes.of(passes.steady(steps=LEAST_BINS))) is None
    assert drift_of(passes.of()) is None


def test_a_steady_pass_does_not_drift() -> None:
    found = drift_of(passes.of(passes.steady()))
    assert found is not None
    assert not found.is_alarming
