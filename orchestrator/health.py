"""What the failures of a sweep mean for the rest of it: closed values, dirty hosts, its end."""

from collections.abc import Sequence

from infra.sglang.signatures import LOG_SIGNATURES
from orchestrator.starting import WORKER_LOST
from sweeps.breaker import may_retry, tripped
from sweeps.closing import Closed, closed_on, is_closed
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
    """Looks at all results after each trial. `known` of them are from an earlier run.

    A look costs by what is new and by the results of its host, not by the number of hosts.
    """

    def __init__(self, sweep: Sweep, known: int = 0) -> None:
        self._hosts = [host.name for host in sweep.hosts]
        self._known = known
        self._seen = 0
        self._baseline: Config | None = None
        self._by_host: dict[str, list[TrialResult]] = {}
        self._closed: dict[str, tuple[Closed, ...]] = {}
        self.quarantined: dict[str, str] = {}
        """Hosts that could not be proved clean, each with the reason."""
        self.trouble: str | None = None
        """Why the sweep must end; None where it may go on."""

    @property
    def closed(self) -> tuple[Closed, ...]:
        """Return the values that a host is not asked for again."""
        return tuple(closed for held in self._closed.values() for closed in held)

    def look(self, results: Sequence[TrialResult]) -> None:
        """Judge all results so far, which only grow."""
        new = range(self._seen, len(results))
        touched = {results[number].host: None for number in new}
        for number in new:
            touched |= self._take(results[number], fresh=number >= self._known)
        for host in touched:
            self._close(host)
        self._seen = len(results)
        fresh = results[self._known :]
        self.trouble = tripped(fresh, self._hosts, RETRYABLE, closed=self.closed)

    def _take(self, result: TrialResult, *, fresh: bool) -> dict[str, None]:
        """Take one more result; return the hosts that it says something of."""
        self._by_host.setdefault(result.host, []).append(result)
        if result.dirty and fresh:
            self.quarantined.setdefault(result.host, result.dirty)
        if result.purpose != "baseline" or self._baseline is not None:
            return {}
        self._baseline = result.config
        return dict.fromkeys(self._by_host)

    def _close(self, host: str) -> None:
        found = closed_on(self._by_host[host], self._baseline, not_blamed=RETRYABLE | AMOUNTS)
        self._closed[host] = tuple(found)

    def why_closed(self, config: Config) -> str:
        """Say why a configuration is not tried on any host; empty where it may be."""
        found = [is_closed(config, self.closed, host) for host in self._hosts]
        return str(found[0]) if found and all(found) else ""

    @staticmethod
    def may_retry(result: TrialResult, attempts: int) -> bool:
        """Tell whether a trial is started once more; `attempts` counts this one."""
        return may_retry(result, attempts, RETRYABLE)
