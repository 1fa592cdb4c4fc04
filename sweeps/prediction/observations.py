"""Step times at hand: what was verified, under which settings, and how long it took."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sweeps.config import Config
from sweeps.metrics import load_of, loaded_name
from sweeps.results import TrialResult
from sweeps.search.evidence import CUT, LAUNCH_SPREAD, Evidence, read_log
from sweeps.search.roles import serving_of, width_of

_CYCLE = "cycle_ms"


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of step: who drafts, how many tokens each of some requests verifies, and where."""

    algorithm: str | None
    width: int
    serving: Config
    batch: int = 1

    @property
    def tokens(self) -> int:
        """Return the tokens of one forward."""
        return self.width * self.batch

    @classmethod
    def of(cls, config: Config, batch: int = 1) -> "Work":
        """Return the step of a configuration."""
        return cls(config.algorithm, width_of(config), serving_of(config), batch)


@dataclass(frozen=True, slots=True)
class Observation:
    """A step time, its spread as a fraction: of the start and of the measuring."""

    work: Work
    cycle_ms: float
    spread_fraction: float


def pooled(evidence: Evidence, *, streams: int = 1) -> list[Observation]:
    """List the step times of variants, each over all of its starts. `streams` is how many requests
    the measured pass had at a time."""
    return [
        Observation(
            Work.of(variant.config, streams),
            1000 * math.exp(variant.cycle.value),
            math.sqrt(variant.cycle.variance),
        )
        for variant in evidence.variants.values()
    ]


def loaded(
    results: Sequence[TrialResult], canonical: Callable[[Config], Config]
) -> Iterator[Observation]:
    """Yield the step times of passes at more streams."""
    for result in results:
        for name, estimate in result.estimates.items():
            streams = load_of(name)
            reading = read_log(estimate)
            if result.outcome in CUT or not streams or name != loaded_name(_CYCLE, streams):
                continue
            if reading is not None:
                spread = math.sqrt(reading.variance + LAUNCH_SPREAD**2)
                work = Work.of(canonical(result.config), streams)
                yield Observation(work, estimate.value, spread)
