"""When a sweep must end early: nothing but faults comes, or no host can be trusted any more."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sweeps.closing import Closed, is_closed
from sweeps.memory_borders import fault_of_memory
from sweeps.phrases import counted
from sweeps.results import Outcome, TrialResult

RETRIES = 2
"""Times that a trial which the infrastructure spoiled is tried again, on other ports."""

HOST_FAULTS = 3
"""Trials in a row that a fault of their host ended before it is set aside."""

_FAILURES = (Outcome.FAILED, Outcome.HUNG, Outcome.INFEASIBLE)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sweep bears."""

    in_a_row: int = 5
    share: float = 0.5
    share_after: int = 10
    """Trials before the share of failures says anything."""


LIMITS = Limits()


def may_retry(result: TrialResult, attempts: int, retryable: AbstractSet[str]) -> bool:
    """Tell whether a trial is tried again; `attempts` counts those so far, this one too.

    Only faults of the host or the platform are: those without a known signature, and those whose
    signature is marked as retried. Nothing is tried again on a host that is not clean.
    """
    spoiled = result.outcome is Outcome.FAILED and not result.dirty
    return spoiled and attempts <= RETRIES and result.signature in {"", *retryable}


def tripped(
    results: Sequence[TrialResult],
    hosts: Sequence[str],
    retryable: AbstractSet[str] = frozenset(),
    *,
    closed: Sequence[Closed] = (),
    limits: Limits = LIMITS,
) -> str | None:
    """Return why a sweep with these results must end; None where it may go on."""
    breaker = Breaker(hosts, retryable, limits)
    for result in results:
        breaker.take(result)
    return breaker.why(closed)


class Breaker:
    """Takes the results of this run of a sweep in one by one, and says when it must end.

    Whoever resumes a sweep has seen the earlier results. A look costs by the failures.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        retryable: AbstractSet[str],
        limits: Limits = LIMITS,
        of_host: AbstractSet[str] = frozenset(),
    ) -> None:
        """`of_host` are signatures of faults of a host, which say nothing of a configuration."""
        self._hosts, self._retryable, self._limits = hosts, retryable, limits
        self._trials: list[TrialResult] = []
        self._failed: list[TrialResult] = []
        self._baselines: list[TrialResult] = []
        self._of_host = of_host
        self._faults: dict[str, list[TrialResult]] = {}
        """The faults of each host since its last trial that ended otherwise."""
        self._healthy: set[str] = set()
        """Hosts on which a trial ended otherwise."""
        self.dirty: dict[str, str] = {}
        """Hosts that could not be proved clean after a trial, each with the first reason."""
        self.sick: dict[str, str] = {}
        """Hosts that kept failing by a fault of their own, each with the last one."""

    @property
    def quarantined(self) -> dict[str, str]:
        """Return the hosts that get no more trials, each with the reason."""
        return {**self.sick, **self.dirty}

    def take(self, result: TrialResult) -> None:
        """Take one more result in."""
        if result.dirty:
            self.dirty.setdefault(result.host, result.dirty)
        if result.outcome is Outcome.CANCELLED:
            return
        self._trials.append(result)
        self._examine(result)
        if result.outcome in _FAILURES:
            self._failed.append(result)
        if result.purpose == "baseline":
            self._baselines.append(result)

    def why(self, closed: Sequence[Closed] = ()) -> str | None:
        """Say why the sweep must end; None where it may go on.

        Failures that a closed value, a lack of memory or a host that was set aside explains do not
        count: they are not going to be repeated.
        """
        return self._no_host() or self._no_baseline() or self._too_many(closed)

    def is_left(self, result: TrialResult) -> bool:
        """Tell whether a host that was set aside failed the trial, and another one can have it."""
        return self._is_sick(result) and not self.quarantined.keys() >= set(self._hosts)

    def _is_sick(self, result: TrialResult) -> bool:
        return result.signature in self._of_host and result.host in self.sick

    def _examine(self, result: TrialResult) -> None:
        """Set a host aside that keeps failing.

        Where trials came to an end before, several configurations must fail: it may be one of them
        that cannot be had there.
        """
        host = result.host
        if result.outcome is not Outcome.FAILED or result.signature not in self._of_host:
            self._healthy.add(host)
            self._faults.pop(host, None)
            return
        row = self._faults.setdefault(host, [])
        row.append(result)
        various = len({fault.config.variant for fault in row}) > 1
        if len(row) >= HOST_FAULTS and (various or host not in self._healthy):
            number = counted(len(row), "trial")
            self.sick[host] = f"{number} in a row failed there: {result.reason}"

    def _no_host(self) -> str | None:
        if not self._hosts or not self.quarantined.keys() >= set(self._hosts):
            return None
        whys = "; ".join(f"{host}: {why}" for host, why in self.quarantined.items())
        what = "can be used" if self.sick else "is proved clean"
        return f"no host is left that {what} ({whys})"

    def _no_baseline(self) -> str | None:
        """Without plain decode there is nothing to compare with, and likely nothing that runs."""
        tries = self._baselines
        if not tries or any(r.outcome not in _FAILURES for r in tries):
            return None
        if self.is_left(tries[-1]) or may_retry(tries[-1], len(tries), self._retryable):
            return None
        number = counted(len(tries), "try", "tries")
        return f"the baseline cannot run after {number}: {_why(tries[-1])}"

    def _too_many(self, closed: Sequence[Closed]) -> str | None:
        limits = self._limits
        unexplained = [r for r in self._failed if not self._is_explained(r, closed)]
        counting = len(self._trials) - len(self._failed) + len(unexplained)
        if counting >= limits.in_a_row and self._ends_in_failures(unexplained):
            number = counted(limits.in_a_row, "trial")
            return f"{number} failed in a row, the last of them: {_why(unexplained[-1])}"
        if counting >= limits.share_after and len(unexplained) > limits.share * counting:
            last = _why(unexplained[-1])
            return f"{len(unexplained)} of {counting} trials failed, the last of them: {last}"
        return None

    def _is_explained(self, result: TrialResult, closed: Sequence[Closed]) -> bool:
        """Tell whether a failure is not going to be repeated: of a closed value, of an amount that
        finds no memory, or of a sick host."""
        if self._is_sick(result) or fault_of_memory(result):
            return True
        return is_closed(result.config, closed, result.host) is not None

    def _ends_in_failures(self, unexplained: Sequence[TrialResult]) -> bool:
        ours = {result.trial for result in unexplained}
        row = 0
        for result in reversed(self._trials):
            if result.outcome not in _FAILURES:
                return False
            row += result.trial in ours
            if row == self._limits.in_a_row:
                return True
        return False


def _why(result: TrialResult) -> str:
    return f"{result.outcome.value}: {result.reason} (see server.log of trial {result.trial})"
