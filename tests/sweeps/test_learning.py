"""Whether a pass shows that the cache of its drafter was still learning."""

import numpy as np

from sweeps.learning import learning_in
from sweeps.records import EndReason, PassRecord
from tests.sweeps import passes


def made(lengths: list[float], steps: int = 200) -> PassRecord:
    requests = [
        passes.request(
            [100.0 * i + 0.1 * n for n in range(steps + 1)],
            [1 + round(length * n) for n in range(steps + 1)],
            verify_steps=steps,
        )
        for i, length in enumerate(lengths)
    ]
    return passes.of(*requests)


def test_a_rise_is_told_and_a_fall_is_not() -> None:
    rise = learning_in(made([1.5, 1.52, 1.49, 1.7, 1.72, 1.69]))
    assert rise is not None
    assert rise.first < 1.55 < 1.65 < rise.last
    assert learning_in(made([1.7, 1.72, 1.69, 1.5, 1.52, 1.49])) is None
    assert learning_in(made([1.50, 1.51, 1.50, 1.51, 1.51, 1.52])) is None  # less than 2 %


def test_chance_alone_is_seldom_called_learning() -> None:
    rng = np.random.default_rng(3)
    told = sum(
        learning_in(made([float(x) for x in rng.normal(1.8, 0.15, 16)], 50)) is not None
        for _ in range(200)
    )
    assert told <= 14  # one side of 95 %


def test_what_did_not_finish_says_nothing() -> None:
    record = made([1.5, 1.5, 1.5, 1.5])
    cut = [passes.steady(end=EndReason.DEADLINE) for _ in record.requests]
    assert learning_in(passes.of(*cut)) is None
    assert learning_in(passes.of()) is None
