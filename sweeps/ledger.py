"""Where the GPU-hours of a sweep went, and which were saved."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sweeps.hosts import GPU_HOURS
from sweeps.idling import ClockScales, idle_gpu_hours
from sweeps.results import Outcome, Phase, TrialResult

STARTING, WARMING, MEASURING, STOPPING = "starting", "warming up", "measuring", "stopping"
CONFIRMING, FAILED, IDLE = "confirming", "failed", "idle"

_OF_PHASE = {
    Phase.ADMITTED: STARTING, Phase.STARTING: STARTING,
    Phase.WARMING: WARMING, Phase.PROBING: MEASURING, Phase.COLD: MEASURING,
    Phase.SETTLING: WARMING, Phase.MEASURING: MEASURING, Phase.LOADED: MEASURING,
    Phase.OPEN_LOOP: MEASURING, Phase.STOPPING: STOPPING, Phase.CLEAN: STOPPING,
}  # fmt: skip
_CONFIRMS = ("confirm", "ablation")
_WASTED = (Outcome.FAILED, Outcome.HUNG, Outcome.CANCELLED)


@dataclass(frozen=True, slots=True)
class Ledger:
    """GPU-hours by what they were spent on. `saved` is an estimate: what was not run."""

    spent: dict[str, float]
    saved: dict[str, float]
    unit: str = GPU_HOURS

    @property
    def total(self) -> float:
        """Return all GPU-hours spent."""
        return sum(self.spent.values())

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {"total_gpu_hours": self.total, "spent": self.spent, "saved": self.saved}


def ledger(
    results: Sequence[TrialResult], clock_scales: ClockScales, *, collapsed: int = 0,
    closed: int = 0, unit: str = GPU_HOURS,
) -> Ledger:  # fmt: skip
    """Add up the trials of a sweep, and what lay between them.

    `collapsed` counts configurations that were asked for and never started, as equal to one known
    by SGLang's own rules; `closed` values that always fail, each of which would have failed at
    least once more.
    """
    spent: dict[str, float] = {}
    for result in results:
        for name, hours in _parts(result):
            spent[name] = spent.get(name, 0.0) + hours
    idle = idle_gpu_hours(results, clock_scales)
    if idle > 0:
        spent[IDLE] = idle
    whole = _typical(results, Outcome.MEASURED)
    saved = {
        "early stopping": sum(
            max(0.0, whole - r.gpu_hours) for r in results if r.outcome is Outcome.STOPPED
        ),
        "inert settings": collapsed * whole,
        "closed values": closed * _typical(results, Outcome.FAILED, Outcome.INFEASIBLE),
    }
    return Ledger(spent, {name: hours for name, hours in saved.items() if hours > 0}, unit)


def activity(phase: str) -> str:
    """Return what a host does in a phase of a trial."""
    return _OF_PHASE[Phase(phase)]


def _parts(result: TrialResult) -> list[tuple[str, float]]:
    """Split the hours of a trial by its phases; a trial that taught nothing is lost as a whole."""
    if result.outcome in _WASTED:
        return [(FAILED, result.gpu_hours)]
    if result.purpose in _CONFIRMS:
        return [(CONFIRMING, result.gpu_hours)]
    total_s = sum(result.phase_s.values())
    if total_s <= 0:
        return [(MEASURING, result.gpu_hours)]
    return [
        (activity(name), result.gpu_hours * spent_s / total_s)
        for name, spent_s in result.phase_s.items()
    ]


def _typical(results: Sequence[TrialResult], *outcomes: Outcome) -> float:
    """Return the GPU-hours of a trial that ended so: the median; 0 where none did."""
    hours = [result.gpu_hours for result in results if result.outcome in outcomes]
    return median(hours) if hours else 0.0
