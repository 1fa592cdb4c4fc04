"""Which values keep a server from running, as far as trials have shown."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeps.closing import Fault
from sweeps.search.evidence import Evidence
from sweeps.values import Value

CLOSED_AFTER = 2
"""Failures of a value that never ran: it is not tried again."""
Setting = tuple[str, Value]


@dataclass(frozen=True)
class Feasibility:
    """How often each setting that never ran has failed in the same way, at the most."""

    failures: Mapping[Setting, int]

    @classmethod
    def learn(cls, evidence: Evidence) -> "Feasibility":
        """Blame what no running server had."""
        ran = {setting for v in evidence.variants.values() for setting in v.config.items()}
        counts: Counter[tuple[Setting, Fault]] = Counter(
            (setting, fault)
            for config, fault in zip(evidence.bad, evidence.faults, strict=True)
            for setting in config.items()
            if setting not in ran
        )
        failures: dict[Setting, int] = {}
        for (setting, _), count in counts.items():
            failures[setting] = max(count, failures.get(setting, 0))
        return cls(failures)

    def odds(self, config: Mapping[str, Value]) -> float:
        """Return the chance that a configuration runs; 0 where a value of it is closed.

        A setting that failed once is blamed half.
        """
        chance = 1.0
        for setting in config.items() if self.failures else ():
            count = self.failures.get(setting, 0)
            chance *= 0.0 if count >= CLOSED_AFTER else 0.5**count
        return chance

    def closed(self) -> Sequence[Setting]:
        """List the settings that are not tried again."""
        return [setting for setting, count in self.failures.items() if count >= CLOSED_AFTER]
