"""Where a sweep stands, kept up to date trial by trial: what is asked for at every sign of life."""

from collections import Counter
from collections.abc import Iterable, Sequence

from orchestrator.events import Tally
from sweeps.config import Config
from sweeps.hosts import GPU_HOURS
from sweeps.limits import broken_limits
from sweeps.results import UNCOUNTED, Outcome, TrialResult
from sweeps.sweep import Objective


class Standing:
    """Sums over all results so far; an added result costs the same however many there are."""

    def __init__(
        self, objective: Objective, results: Iterable[TrialResult], hours_unit: str = GPU_HOURS
    ) -> None:
        self._objective, self._hours_unit = objective, hours_unit
        self.counted = 0
        """Trials that the budget pays for: not those that a fault or we cut off."""
        self.gpu_hours = 0.0
        self.leader: TrialResult | None = None
        self.plain_leader: TrialResult | None = None
        self._faults: Counter[Config] = Counter()
        self._plain: dict[str, list[TrialResult]] = {}
        for result in results:
            self.add(result)

    def add(self, result: TrialResult) -> None:
        """Take one more result."""
        self.counted += result.outcome not in UNCOUNTED
        self.gpu_hours += result.gpu_hours
        if result.outcome is Outcome.FAILED:
            self._faults[result.config] += 1
        self.leader = self._better(result, self.leader)
        if result.config.is_plain:
            self._plain.setdefault(result.host, []).append(result)
            self.plain_leader = self._better(result, self.plain_leader)

    def tally(
        self, planned: int, resumed: int, elapsed_s: float, aside_gpu_hours: float = 0.0
    ) -> Tally:
        """Sum up; `resumed` of the counted trials are older than the run that took `elapsed_s`.

        `aside_gpu_hours` went into trials that count no longer.
        """
        here = self.counted - resumed
        left = max(0, planned - self.counted)
        return Tally(
            self.counted, planned, aside_gpu_hours + self.gpu_hours, self.leader,
            self.plain_leader, elapsed_s / here * left if here > 0 else None, self._hours_unit,
        )  # fmt: skip

    def faults_of(self, config: Config) -> int:
        """Return how often a fault of the infrastructure spoiled a configuration."""
        return self._faults[config]

    def plain_on(self, host: str) -> Sequence[TrialResult]:
        """Return the plain decodes of a host."""
        return self._plain.get(host, ())

    def _better(self, result: TrialResult, leader: TrialResult | None) -> TrialResult | None:
        value = result.value(self._objective.metric) if result.may_lead else None
        if value is None or broken_limits(result, self._objective.limits):
            return leader
        best = None if leader is None else leader.value(self._objective.metric)
        sign = 1 if self._objective.higher_is_better else -1
        return result if best is None or sign * value > sign * best else leader
