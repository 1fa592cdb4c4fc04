"""What the failures of a sweep mean for the rest of it: closed values, dirty hosts, its end."""

from collections.abc import Mapping, Sequence

from infra.sglang.signatures import AMOUNTS, HOST_FAULTS, LOG_SIGNATURES
from orchestrator.starting import WORKER_LOST
from sweeps.breaker import Breaker, may_retry
from sweeps.closing import Closed, FaultRecord, is_closed
from sweeps.config import Config
from sweeps.memory_borders import MemoryBorder
from sweeps.results import TrialResult
from sweeps.sweep import Sweep

RETRYABLE = frozenset(row.name for row in LOG_SIGNATURES if row.retry) | {WORKER_LOST}
"""Faults of the host or the platform, after which a trial is started once more."""


class SweepHealth:
    """Looks at all results after each trial. `known` of them are from an earlier run.

    A look costs by what is new and by the failures, not by the number of trials or hosts.
    """

    def __init__(self, sweep: Sweep, known: int = 0) -> None:
        self._hosts = [host.name for host in sweep.hosts]
        self._known = known
        self._seen = 0
        self._baseline: Config | None = None
        self._by_host: dict[str, FaultRecord] = {}
        self._closed: dict[str, tuple[Closed, ...]] = {}
        self._borders: dict[str, MemoryBorder] = {}
        self._breaker = Breaker(self._hosts, RETRYABLE, of_host=HOST_FAULTS)
        self.trouble: str | None = None
        """Why the sweep must end; None where it may go on."""

    @property
    def closed(self) -> tuple[Closed, ...]:
        """Return the values that a host is not asked for again."""
        return tuple(closed for held in self._closed.values() for closed in held)

    @property
    def no_room(self) -> tuple[str, ...]:
        """Say what found no memory on a host: it is not asked for as much again."""
        found = [(host, line) for host, held in self._borders.items() for line in held.lines()]
        return tuple(f"{line}: no room on host {host}" for host, line in found)

    @property
    def quarantined(self) -> Mapping[str, str]:
        """Return the hosts that get no more trials, each with the reason."""
        return self._breaker.quarantined

    @property
    def dirty(self) -> Mapping[str, str]:
        """Return those of them that could not be proved clean."""
        return self._breaker.dirty

    def look(self, results: Sequence[TrialResult]) -> None:
        """Judge all results so far, which only grow."""
        touched: dict[str, None] = {}
        for number in range(self._seen, len(results)):
            touched |= self._take(results[number])
            if number >= self._known:
                self._breaker.take(results[number])
        for host in touched:
            self._closed[host] = tuple(self._by_host[host].closed(self._baseline))
        self._seen = len(results)
        self.trouble = self._breaker.why(self.closed)

    def _take(self, result: TrialResult) -> dict[str, None]:
        """Take one more result; return the hosts that it says something of."""
        record = self._by_host.setdefault(result.host, FaultRecord(RETRYABLE | AMOUNTS))
        record.take(result)
        self._borders.setdefault(result.host, MemoryBorder()).take(result)
        if result.purpose != "baseline" or self._baseline is not None:
            return {result.host: None}
        self._baseline = result.config
        return dict.fromkeys(self._by_host)

    def why_closed(self, config: Config) -> str:
        """Say why a configuration is not tried on any host; empty where it may be."""
        found = [self._why_closed_on(host, config) for host in self._hosts]
        return found[0] if found and all(found) else ""

    def _why_closed_on(self, host: str, config: Config) -> str:
        if closed := is_closed(config, self._closed.get(host, ())):
            return str(closed)
        border = self._borders.get(host)
        return border.refusal(config) if border else ""

    def may_retry(self, result: TrialResult, attempts: int) -> bool:
        """Tell whether a trial is started once more; `attempts` counts this one.

        What a host spoiled that was set aside since is not held against the trial.
        """
        return self._breaker.is_left(result) or may_retry(result, attempts, RETRYABLE)
