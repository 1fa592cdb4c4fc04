"""Which trials that ended without a verdict are to be tried again when a sweep is taken up."""

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from sweeps.breaker import may_retry
from sweeps.results import Outcome, TrialResult


def to_try_again(
    results: Sequence[TrialResult], retryable: AbstractSet[str]
) -> tuple[TrialResult, ...]:
    """Return what was cut off, and what a fault spoiled, if nobody has tried it again yet.

    Faults are tried again within their cap only; what was cut off by a person or a kill is free.
    """
    tried = {result.retry_of for result in results}
    faults = Counter(r.config for r in results if r.outcome is Outcome.FAILED)
    return tuple(
        result
        for result in results
        if result.number not in tried
        and (
            result.outcome is Outcome.CANCELLED
            or may_retry(result, faults[result.config], retryable)
        )
    )
