"""Which differences are known, each with its reason, and whether they still exist."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.contracts.fidelity.shapes import Facts

LIST_PATH = Path(__file__).with_name("differences.toml")
ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Difference:
    """One place of one request where the servers differ."""

    request: str
    place: str
    real: str
    emulated: str

    def __str__(self) -> str:
        return f"{self.request} | {self.place} | real: {self.real} | emulated: {self.emulated}"


@dataclass(frozen=True, slots=True)
class Known:
    """A row of the list: regular expressions of whole texts, and why it may stay."""

    request: str
    place: str
    reason: str
    real: str = ".*"
    emulated: str = ".*"

    def covers(self, difference: Difference) -> bool:
        """Tell whether a difference is this one."""
        pairs = (
            (difference.request, self.request),
            (difference.place, self.place),
            (difference.real, self.real),
            (difference.emulated, self.emulated),
        )
        return all(re.fullmatch(pattern, seen, re.DOTALL) for seen, pattern in pairs)


def known_differences() -> list[Known]:
    """Read the list. Raises TypeError for a row with a field too many or too few."""
    return [Known(**row) for row in tomllib.loads(LIST_PATH.read_text())["difference"]]


def compare(request: str, real: Facts, emulated: Facts, *, part: bool = False) -> list[Difference]:
    """List the differences; of a part, only where the emulated server has something."""
    places: Iterable[str] = emulated if part else {**real, **emulated}
    return [
        Difference(request, place, real.get(place, ABSENT), emulated.get(place, ABSENT))
        for place in places
        if real.get(place, ABSENT) != emulated.get(place, ABSENT)
    ]
