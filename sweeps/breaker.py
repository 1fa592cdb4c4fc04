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
        self, hosts: Sequence[str], retryable: AbstractSet[str], limits: Limits = LIMITS
    ) -> None:
        self._hosts, self._retryable, self._limits = hosts, retryable, limits
        self._trials: list[TrialResult] = []
        self._failed: list[TrialResult] = []
        self._baselines: list[TrialResult] = []
        self.quarantined: dict[str, str] = {}
        """Hosts that could not be proved clean after a trial, each with the first reason."""

    def take(self, result: TrialResult) -> None:
        """Take one more result in."""
        if result.dirty:
            self.quarantined.setdefault(result.host, result.dirty)
        if result.outcome is Outcome.CANCELLED:
            return
        self._trials.append(result)
        if result.outcome in _FAILURES:
            self._failed.append(result)
        if result.purpose == "baseline":
            self._baselines.append(result)

    def why(self, closed: Sequence[Closed] = ()) -> str | None:
        """Say why the sweep must end; None where it may go on.

        Failures that a closed value or a lack of memory explains do not count: their cause lies in
        the configuration, and they are not going to be repeated.
        """
        return self._dirty() or self._no_baseline() or self._too_many(closed)

    def _dirty(self) -> str | None:
        if not self._hosts or not self.quarantined.keys() >= set(self._hosts):
            return None
        whys = "; ".join(f"{host}: {why}" for host, why in self.quarantined.items())
        return f"no host is left that is proved clean ({whys})"

    def _no_baseline(self) -> str | None:
        """Without plain decode there is nothing to compare with, and likely nothing that runs."""
        tries = self._baselines
        if not tries or any(r.outcome not in _FAILURES for r in tries):
            return None
        if may_retry(tries[-1], len(tries), self._retryable):
            return None
        number = counted(len(tries), "try", "tries")
        return f"the baseline cannot run after {number}: {_why(tries[-1])}"

    def _too_many(self, closed: Sequence[Closed]) -> str | None:
        limits = self._limits
        unexplained = [
            r
            for r in self._failed
            if not (fault_of_memory(r) or is_closed(r.config, closed, r.host))
        ]
        counting = len(self._trials) - len(self._failed) + len(unexplained)
        if counting >= limits.in_a_row and self._ends_in_failures(unexplained):
            number = counted(limits.in_a_row, "trial")
            return f"{number} failed in a row, the last of them: {_why(unexplained[-1])}"
        if counting >= limits.share_after and len(unexplained) > limits.share * counting:
            last = _why(unexplained[-1])
            return f"{len(unexplained)} of {counting} trials failed, the last of them: {last}"
        return None

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
