"""When the requests of an open loop are due, whatever the server does."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from random import Random


class Gaps(StrEnum):
    """How the times between requests are spread around their mean."""

    CONSTANT = "constant"
    EXPONENTIAL = "exponential"
    """As of many users who do not know of each other: a Poisson process."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A rate of requests in the host's seconds. Equal ones are equal schedules.

    Raises: ValueError for a rate that is not positive and finite.
    """

    rate_per_s: float
    gaps: Gaps = Gaps.EXPONENTIAL
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.rate_per_s < inf:
            raise ValueError(f"requests cannot come at {self.rate_per_s:g} per second")

    def offsets_s(self) -> Iterator[float]:
        """Yield when each request is due, from the start of the pass on, without end."""
        draw = Random(self.seed)
        number, due_s = 0, 0.0
        while True:
            yield due_s if self.gaps is Gaps.EXPONENTIAL else number / self.rate_per_s
            number += 1
            due_s += draw.expovariate(self.rate_per_s)
