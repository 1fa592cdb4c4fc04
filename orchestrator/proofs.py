"""How a verification or a comparison ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.exit_codes import DIFFERS, DONE, INTERRUPTED, NO_TRIAL, UNDECIDED
from sweeps.equivalence import Comparison, Likeness

AS_EXPORTED = "as exported"
_CODES = {Likeness.ALIKE: DONE, Likeness.DIFFERENT: DIFFERS, Likeness.UNDECIDED: UNDECIDED}


@dataclass(frozen=True, slots=True)
class Proof:
    """How a verification or a comparison ended."""

    sweep_id: str
    emulated: bool
    zone_fraction: float
    comparison: Comparison | None
    """None where nothing can be compared: no start was measured on one of the sides."""
    likeness: Likeness | None
    above: str
    below: str
    rates: Mapping[str, tuple[float, ...]]
    """The figure of each start, by side."""
    unit: str
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    """Starts that brought no figure."""
    needed: int | None = None
    """Starts of each side that would probably decide it."""
    blamed: str = ""
    """The start that shows by itself that a plan does not do what it did."""
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """Return what scripts look at."""
        if self.interrupted:
            return INTERRUPTED
        return NO_TRIAL if self.likeness is None else _CODES[self.likeness]

    def as_data(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        made = self.comparison
        return {
            "sweep": self.sweep_id, "emulated": self.emulated, "exit_code": self.exit_code,
            "verdict": None if self.likeness is None else self.likeness.value,
            "ratio": made and made.ratio, "low": made and made.interval[0],
            "high": made and made.interval[1],
            "zone_fraction": self.zone_fraction, "above": self.above, "below": self.below,
            "launch_fraction": made and made.launch_fraction, "unit": self.unit,
            "rates": {side: list(rates) for side, rates in self.rates.items()},
            "notes": list(self.notes), "failures": list(self.failures), "needed": self.needed,
        }  # fmt: skip


def percent(fraction: float) -> str:
    """Write a fraction as a percentage."""
    return f"{100 * fraction:.3g} %"
