"""Two passes over the same prompts: paired, they differ more surely."""

from dataclasses import replace

import numpy as np
import pytest

from sweeps.pairing import PairedRatio, is_settled, paired_log_ratio
from sweeps.records import EndReason, PassRecord
from tests.sweeps import passes


def of_steps(steps_s: dict[str, float]) -> PassRecord:
    """Make a pass in which each prompt has its own step time."""
    return passes.of(
        *[
            replace(passes.steady(start_s=100.0 * i, step_s=step_s, steps=50), prompt_key=key)
            for i, (key, step_s) in enumerate(steps_s.items())
        ]
    )


def gain(record: PassRecord, other: PassRecord) -> PairedRatio:
    found = paired_log_ratio(record, other)
    assert found is not None
    return found


def test_a_gain_that_all_prompts_share_is_sure_however_they_differ() -> None:
    slow = {f"p{i}": 0.05 * 1.5**i for i in range(8)}
    fast = {key: step_s / 1.1 for key, step_s in reversed(slow.items())}
    found = gain(of_steps(fast), of_steps(slow))
    assert found.ratio.value == pytest.approx(1.1)
    assert found.ratio.low == pytest.approx(1.1)
    assert found.pairs == 8
    assert gain(of_steps(slow), of_steps(fast)).ratio.value == pytest.approx(1 / 1.1)


def test_only_prompts_of_both_are_compared() -> None:
    a = of_steps({"p1": 0.1, "p2": 0.1, "only a": 9.0})
    b = of_steps({"p1": 0.2, "p2": 0.2, "only b": 0.01})
    found = gain(a, b)
    assert found.pairs == 2
    assert found.ratio.value == pytest.approx(2)
    broken = replace(a, requests=tuple(replace(r, end=EndReason.BROKEN) for r in a.requests))
    assert paired_log_ratio(broken, b) is None
    assert paired_log_ratio(passes.of(passes.steady()), passes.of(passes.steady())) is None


def test_one_pair_has_no_interval() -> None:
    found = gain(of_steps({"p": 0.1}), of_steps({"p": 0.2}))
    assert (found.ratio.low, found.ratio.high, found.below) == (None, None, None)


def test_a_paired_interval_holds() -> None:
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(200):
        prompts = np.exp(rng.normal(0, 0.5, 16))
        a, b = (
            of_steps({f"p{i}": float(0.1 * x) for i, x in enumerate(prompts * noise)})
            for noise in np.exp(rng.normal(0, 0.1, (2, 16)))
        )
        ratio = gain(a, b).ratio
        assert ratio.low is not None
        assert ratio.high is not None
        held += ratio.low <= 1 <= ratio.high
    assert 0.9 <= held / 200 <= 0.99


def test_a_warm_up_is_over_once_it_gains_little_for_sure() -> None:
    keys = [f"p{i}" for i in range(12)]
    cold = of_steps(dict.fromkeys(keys, 0.12))
    warm = of_steps(dict.fromkeys(keys, 0.1))
    again = of_steps({key: 0.1 + 0.001 * (i % 2) for i, key in enumerate(keys)})
    unsure = of_steps({key: 0.05 + 0.1 * (i % 2) for i, key in enumerate(keys)})
    assert not is_settled(warm, cold)
    assert is_settled(again, warm)
    assert not is_settled(unsure, warm)
    assert not is_settled(of_steps({"other": 0.1}), warm)
