"""What the failures of a sweep mean for the rest of it: closed values, dirty hosts, its end."""

from collections.abc import Sequence

from infra.sglang.signatures import LOG_SIGNATURES
from orchestrator.starting import WORKER_LOST
from sweeps.breaker import may_retry, quarantined, tripped
from sweeps.closing import Closed, closed_values, is_closed
from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.sweep import Sweep

RETRYABLE = frozenset(row.name for row in LOG_SIGNATURES if row.retry) | {WORKER_LOST}
"""Faults of the host or the platform, after which a trial is started once more."""

AMOUNTS = frozenset(
    {"oom_load", "oom_capture", "oom_serving", "nccl_memory", "no_kv_room", "kv_exhausted"}
)
"""Lack of memory depends on amounts: no single value is to blame, the search learns the border."""


class SweepHealth:
    """Looks at all results after each trial. `known` of them are from an earlier run."""

    def __init__(self, sweep: Sweep, known: int = 0) -> None:
        self._hosts = [host.name for host in sweep.hosts]
        self._known = known
        self.closed: tuple[Closed, ...] = ()
        self.quarantined: dict[str, str] = {}
        """Hosts that could not be proved clean, each with the reason."""
        self.trouble: str | None = None
        """Why the sweep must end; None where it may go on."""

    def look(self, results: Sequence[TrialResult]) -> None:
        """Judge all results so far."""
        fresh = results[self._known :]
        self.closed = closed_values(results, not_blamed=RETRYABLE | AMOUNTS)
        self.quarantined = quarantined(fresh)
        self.trouble = tripped(fresh, self._hosts, RETRYABLE, closed=self.closed)

    def why_closed(self, config: Config) -> str:
        """Say why a configuration is not tried on any host; empty where it may be."""
        found = [is_closed(config, self.closed, host) for host in self._hosts]
        return str(found[0]) if found and all(found) else ""

    @staticmethod
    def may_retry(result: TrialResult, attempts: int) -> bool:
        """Tell whether a trial is started once more; `attempts` counts this one."""
        return may_retry(result, attempts, RETRYABLE)
