"""Trials that gave no rate, grouped by what went wrong, each with what to do about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeps.closing import Fault, fault_of, kind_of_fault
from sweeps.results import Outcome, TrialResult

_WITHOUT_RATE = (Outcome.INFEASIBLE, Outcome.HUNG, Outcome.FAILED, Outcome.CANCELLED)


@dataclass(frozen=True, slots=True)
class Failure:
    """Trials that ended the same way."""

    signature: str
    """Name of the known fault, or the outcome where none is known."""
    outcome: Outcome
    phases: tuple[str, ...]
    reason: str
    """What the first of them said."""
    hint: str
    """What to do about it; empty where nobody knows."""
    trials: tuple[str, ...]
    gpu_hours: float


def failures_of(results: Sequence[TrialResult], hints: Mapping[str, str]) -> tuple[Failure, ...]:
    """Group what failed alike, the most frequent first. `hints` are by signature."""
    groups: dict[tuple[str, Outcome, Fault], list[TrialResult]] = {}
    for result in results:
        if result.outcome in _WITHOUT_RATE:
            name = result.signature or fault_of(result) or result.outcome.value
            groups.setdefault((name, result.outcome, kind_of_fault(result)), []).append(result)
    found = [_failure(name, group, hints.get(name, "")) for (name, *_), group in groups.items()]
    return tuple(sorted(found, key=lambda failure: -len(failure.trials)))


def _failure(name: str, group: Sequence[TrialResult], hint: str) -> Failure:
    return Failure(
        signature=name,
        outcome=group[0].outcome,
        phases=tuple(dict.fromkeys(r.phase.value for r in group)),
        reason=group[0].reason,
        hint=hint,
        trials=tuple(r.trial for r in group),
        gpu_hours=sum(r.gpu_hours for r in group),
    )
