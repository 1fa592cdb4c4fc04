"""One trial of a world, drawn at once: a start, then blocks of 5 s until the end or a stop."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from search_worlds.world import World
from sweeps.config import Config
from sweeps.intervals import student_quantile
from sweeps.results import Estimate, Outcome, Phase, TrialResult

START_S, START_SIGMA = 240.0, 0.12
LAUNCH_SIGMA = 0.015
STEPS_SIGMA = 0.045
ACCEPT_SIGMA = 0.07
"""Of a block of 5 s: the upper end of what recorded streams show (1.3 to 3 % per 2,048 tokens).
Independent between trials, which is pessimistic: equal prompts give equal texts."""
BLOCK_S, BLOCKS = 5.0, 30
GPUS = 8

Stop = Callable[[Sequence[float], Sequence[float]], bool]
"""Given blocks of tok/s and of steps/s so far, tell whether the trial ends here."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a trial came to."""

    result: TrialResult
    tok_s: tuple[float, ...]


def draw(
    world: World, config: Config, number: int, rng: np.random.Generator, *,
    purpose: str = "search", stop: Stop | None = None,
) -> Drawn:  # fmt: skip
    """Draw a trial; it is stopped where `stop` says so."""
    start_s = START_S * math.exp(rng.normal(0, START_SIGMA))
    launch = math.exp(rng.normal(0, LAUNCH_SIGMA))
    steps = (1 + STEPS_SIGMA * rng.standard_normal(BLOCKS)) / (world.cycle_s(config) * launch)
    spread = 0.0 if config.is_plain else ACCEPT_SIGMA
    accepts = world.accept(config) * (1 + spread * rng.standard_normal(BLOCKS))
    rates = steps * accepts
    blocks = BLOCKS if stop is None else _stopped_at(rates.tolist(), steps.tolist(), stop)
    stopped = blocks < BLOCKS
    estimates = {
        "decode_tok_s": estimate(rates[:blocks].tolist()),
        "steps_per_s": estimate(steps[:blocks].tolist()),
    }
    if not config.is_plain:
        estimates["accept_length"] = estimate(accepts[:blocks].tolist())
    outcome = Outcome.STOPPED if stopped else Outcome.MEASURED
    hours = GPUS * (start_s + blocks * BLOCK_S) / 3600
    result = TrialResult(
        f"t{number}", "bench", number, config, outcome, "", Phase.CLEAN, True, "host", "0", hours,
        "", estimates=estimates, purpose=purpose,
    )  # fmt: skip
    return Drawn(result, tuple(rates[:blocks].tolist()))


def estimate(blocks: Sequence[float]) -> Estimate:
    """Return the mean of blocks with its interval."""
    n, mean = len(blocks), sum(blocks) / len(blocks)
    spread = math.sqrt(sum((b - mean) ** 2 for b in blocks) / (n - 1))
    half = student_quantile(0.975, n - 1) * spread / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n * BLOCK_S, "blocks", n * BLOCK_S < 30)


def _stopped_at(rates: list[float], steps: list[float], stop: Stop) -> int:
    for blocks in range(3, BLOCKS):
        if stop(rates[:blocks], steps[:blocks]):
            return blocks
    return BLOCKS
