"""When a sweep must end early: nothing but faults comes, or no host can be trusted any more."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sweeps.closing import Closed, is_closed
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


def quarantined(results: Sequence[TrialResult]) -> dict[str, str]:
    """Return the hosts that could not be proved clean after a trial, each with the reason."""
    return {result.host: result.dirty for result in reversed(results) if result.dirty}


def tripped(
    results: Sequence[TrialResult],
    hosts: Sequence[str],
    retryable: AbstractSet[str] = frozenset(),
    *,
    closed: Sequence[Closed] = (),
    limits: Limits = LIMITS,
) -> str | None:
    """Return why the sweep must end; None where it may go on.

    `results` are those of this run of the sweep: whoever resumes it has seen the earlier ones.
    Failures that a closed value explains do not count: they are not going to be repeated.
    """
    return (
        _dirty(results, hosts)
        or _baseline(results, retryable)
        or _failures(_counted(results, closed), limits)
    )


def _dirty(results: Sequence[TrialResult], hosts: Sequence[str]) -> str | None:
    left = quarantined(results)
    if not hosts or not left.keys() >= set(hosts):
        return None
    whys = "; ".join(f"{host}: {why}" for host, why in left.items())
    return f"no host is left that is proved clean ({whys})"


def _baseline(results: Sequence[TrialResult], retryable: AbstractSet[str]) -> str | None:
    """Without plain decode there is nothing to compare with, and likely nothing that runs."""
    tries = [r for r in results if r.purpose == "baseline" and r.outcome is not Outcome.CANCELLED]
    if not tries or any(r.outcome not in _FAILURES for r in tries):
        return None
    last = tries[-1]
    if may_retry(last, len(tries), retryable):
        return None
    return f"the baseline cannot run after {counted(len(tries), 'try', 'tries')}: {_why(last)}"


def _failures(results: Sequence[TrialResult], limits: Limits) -> str | None:
    failed = [r.outcome in _FAILURES for r in results]
    if len(failed) >= limits.in_a_row and all(failed[-limits.in_a_row :]):
        number = counted(limits.in_a_row, "trial")
        return f"{number} failed in a row, the last of them: {_why(results[-1])}"
    if len(failed) >= limits.share_after and sum(failed) > limits.share * len(failed):
        last = next(r for r in reversed(results) if r.outcome in _FAILURES)
        return f"{sum(failed)} of {len(failed)} trials failed, the last of them: {_why(last)}"
    return None


def _counted(results: Sequence[TrialResult], closed: Sequence[Closed]) -> list[TrialResult]:
    return [
        r
        for r in results
        if r.outcome is not Outcome.CANCELLED
        and not (r.outcome in _FAILURES and is_closed(r.config, closed, r.host))
    ]


def _why(result: TrialResult) -> str:
    return f"{result.outcome.value}: {result.reason} (see server.log of trial {result.trial})"
