"""Passes made up for the tests of what is computed from them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sweeps.records import EndReason, PassRecord, RequestRecord
from sweeps.results import Estimate

Floats = NDArray[np.float64]


def known(estimate: Estimate | None) -> Estimate:
    """Return an estimate that must be there."""
    assert estimate is not None
    return estimate


def ends(estimate: Estimate | None) -> tuple[float, float]:
    """Return the ends of an interval that must be there."""
    found = known(estimate)
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def request(
    times_s: Sequence[float],
    tokens: Sequence[int],
    *,
    sent_s: float | None = None,
    end: EndReason = EndReason.FINISHED,
    ended_s: float | None = None,
    verify_steps: int | None = None,
) -> RequestRecord:
    """Make a request; by default sent 0.5 s before its first arrival and ended at its last."""
    return RequestRecord(
        sent_s=sent_s if sent_s is not None else times_s[0] - 0.5,
        times_s=tuple(times_s),
        tokens=tuple(tokens),
        end=end,
        ended_s=ended_s if ended_s is not None else times_s[-1],
        verify_steps=verify_steps,
    )


def steady(
    *,
    start_s: float = 0.5,
    steps: int = 400,
    step_s: float = 0.1,
    per_step: int = 2,
    end: EndReason = EndReason.FINISHED,
    verify: bool = True,
) -> RequestRecord:
    """Make a request with one token from prefill, then equal steps."""
    return request(
        [start_s + i * step_s for i in range(steps + 1)],
        [1 + i * per_step for i in range(steps + 1)],
        end=end,
        verify_steps=steps if verify and end is EndReason.FINISHED else None,
    )


def of(*requests: RequestRecord, concurrency: int = 1) -> PassRecord:
    """Make a pass of requests."""
    return PassRecord(
        requests,
        concurrency,
        min((r.sent_s for r in requests), default=0.0),
        max((r.ended_s for r in requests), default=0.0),
    )


def speculative_steps(rng: np.random.Generator, runs: int, steps: int) -> tuple[Floats, Floats]:
    """Draw step times in seconds and tokens per step, both correlated along each run.

    Stretches of easy and hard text (67 steps long on average), geometric acceptance in each,
    step times around 25 ms that drift.
    """
    easy = rng.random(runs) < 0.5
    noise = rng.standard_normal(runs)
    times, tokens = np.empty((runs, steps)), np.empty((runs, steps))
    for i in range(steps):
        easy ^= rng.random(runs) < 1 / 67
        accepted = rng.geometric(1 - np.where(easy, 0.75, 0.35), runs) - 1
        tokens[:, i] = 1 + np.minimum(accepted, 7)
        noise = 0.9 * noise + np.sqrt(1 - 0.9**2) * rng.standard_normal(runs)
        times[:, i] = 0.025 * (1 + 0.1 * noise)
    return times, tokens


def one_stream(times: Floats, tokens: Floats, duration_s: float) -> PassRecord:
    """Make a pass of one stream that met its deadline."""
    arrivals_s = np.concatenate([[0.0], np.cumsum(times)])
    counts = np.concatenate([[1.0], 1 + np.cumsum(tokens)])
    kept = int(np.searchsorted(arrivals_s, duration_s))
    return of(
        request(
            [float(x) for x in arrivals_s[:kept]],
            [int(x) for x in counts[:kept]],
            sent_s=-0.5,
            end=EndReason.DEADLINE,
            ended_s=duration_s,
        )
    )
