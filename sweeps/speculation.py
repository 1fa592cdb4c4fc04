"""What may be said of speculation where plain decode leads."""

from collections import Counter
from collections.abc import Sequence

from sweeps.phrases import counted, listed
from sweeps.results import Outcome, TrialResult


def speculation_beside_plain(results: Sequence[TrialResult]) -> str:
    """Say what became of speculation in a sweep that plain decode leads; empty where none was
    asked for.

    It did not pay where it was measured, or stopped as surely slower; nothing else shows that.
    """
    asked = [r for r in results if not r.config.is_plain and r.outcome is not Outcome.CANCELLED]
    shown = [r for r in asked if r.outcome.has_rate or r.bound is not None]
    if not asked:
        return ""
    if not shown:
        ends = Counter(r.outcome.value for r in asked)
        told = listed([f"{count} {end}" for end, count in ends.items()])
        return f"speculation was not measured: {told}"
    variants = len({r.config.variant for r in shown})
    text = f"speculation did not pay in {counted(variants, 'variant')} that had a measurement"
    unmeasured = len({r.config.algorithm for r in asked} - {r.config.algorithm for r in shown})
    if unmeasured:
        text += f"; {counted(unmeasured, 'algorithm')} had none"
    return text
