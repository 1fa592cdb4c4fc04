"""When the GPUs of a sweep were reserved and did nothing: between the trials of a host."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sweeps.results import TrialResult

STAMP_S = 2.0
"""How far a gap between stamps of whole seconds may be from the truth."""
STOOD_STILL_S = 900.0
"""Host seconds. After a longer gap the sweep had been stopped, and its GPUs were anyone's."""

ClockScales = Mapping[str, float | None]
"""How fast the clock of each host runs against the stamps of its trials; None where the two have
nothing to do with each other, as on a simulated clock: then nothing is known of idleness."""


def gaps_s(results: Sequence[TrialResult], clock_scale: float | None) -> dict[int, float]:
    """Return the host seconds in which one host had no trial, by the trial that came after."""
    found: dict[int, float] = {}
    now_s, first = 0.0, None
    for result in sorted(results, key=lambda r: r.number):
        stamp = _stamp(result)
        if stamp is not None and clock_scale is not None:
            first = stamp if first is None else first
            due_s = (stamp - first) * clock_scale
            if due_s - now_s > STAMP_S * clock_scale:
                found[result.number] = due_s - now_s
                now_s = due_s
        now_s += sum(result.phase_s.values())
    return found


def idle_gpu_hours(results: Sequence[TrialResult], clock_scales: ClockScales) -> float:
    """Add up the gaps of all hosts, but for those in which the sweep stood still."""
    total = 0.0
    by_number = {result.number: result for result in results}
    for host, scale in clock_scales.items():
        gaps = gaps_s([r for r in results if r.host == host], scale)
        for number, gap_s in gaps.items():
            took_s = sum(by_number[number].phase_s.values())
            if took_s > 0 and gap_s <= STOOD_STILL_S:
                total += gap_s * by_number[number].gpu_hours / took_s
    return total


def _stamp(result: TrialResult) -> float | None:
    try:
        return datetime.fromisoformat(result.started_at).timestamp()
    except ValueError:
        return None
