"""What a planner tells of its beliefs: of one start, and of the whole space."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeps.config import Config
from sweeps.intervals import Interval, from_log
from sweeps.prediction.cost_fit import CostFit
from sweeps.search.beliefs import TRIAL_ACCEPT_VARIANCE, TRIAL_CYCLE_VARIANCE, Models, Outlook
from sweeps.search.evidence import Evidence
from sweeps.search.gaussian import Floats


@dataclass(frozen=True, slots=True)
class Foretold:
    """What one start is expected to measure, its own luck included."""

    tok_s: Interval
    accept: Interval
    cycle_ms: Interval

    @classmethod
    def by(cls, models: Models, config: Config, launch_variance: float) -> "Foretold":
        """Return what some models expect."""
        cycle, accept = models.cycle.at([config]), models.accepts([config])
        of_cycle = float(cycle.variance[0]) + launch_variance + TRIAL_CYCLE_VARIANCE
        of_accept = float(accept.variance[0]) + TRIAL_ACCEPT_VARIANCE * (not config.is_plain)
        rate = float(accept.mean[0] - cycle.mean[0])
        return cls(
            from_log(rate, of_cycle + of_accept),
            from_log(float(accept.mean[0]), of_accept),
            from_log(float(cycle.mean[0]) + math.log(1000), of_cycle),
        )


@dataclass(frozen=True, slots=True)
class Look:
    """What is believed of every pair of a draft and a serving, as tables of drafts by servings."""

    outlook: Outlook
    default: Config
    """Settings of communication with nothing changed."""
    gain_per_gpu_hour: Floats
    """By what fraction one start of each is expected to lift the best rate."""
    dominated: NDArray[np.bool_]
    evidence: Evidence
    fit: CostFit | None
    """None where step times are not taken apart."""
    join: Callable[[Config, Config], Config | None]
    """Puts a draft and a serving together; None where the space does not allow it."""
