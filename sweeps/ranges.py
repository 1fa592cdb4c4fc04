"""What a number may be, and how that is said."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the most of a number, both allowed unless `above`, and what lies below."""

    least: float
    why: str = "it makes no sense"
    most: float = math.inf
    whole: bool = True
    above: bool = False

    def holds(self, value: object) -> bool:
        """Tell whether a value is one of these; what is no finite number is none."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        if not is_finite(value):
            return False
        low = value > self.least if self.above else value >= self.least
        return low and value <= self.most

    @property
    def wanted(self) -> str:
        """Say what to give."""
        kind = "a whole number" if self.whole else "a number"
        low = f"{'above' if self.above else 'of at least'} {self.least:g}"
        return f"Give {kind} {low}{'' if math.isinf(self.most) else f', at most {self.most:g}'}."


def is_finite(number: float) -> bool:
    """Tell whether a number can be reckoned with: whole ones may be too large for that."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False
