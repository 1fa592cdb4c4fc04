"""What a mutation run says: which changes were noticed, and which need not be."""

import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACCEPTED = Path(__file__).with_name("accepted.toml")


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A change that no test should notice: the line before and after, and why."""

    module: str
    was: str
    now: str
    reason: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what it is found by."""
        return self.module, self.was, self.now


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change, and what became of it: None where it was not tried yet."""

    module: str
    line: int
    definition: str
    outcome: str | None
    was: str
    now: str

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> "Mutant":
        """Read what the session tells."""
        was, now = _changed(data["diff"] or "")
        return cls(
            data["module"], data["line"], data["definition"] or "", data["outcome"], was, now
        )

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what it is accepted by."""
        return self.module, self.was, self.now


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of one subject."""

    drawn: int
    tried: int
    noticed: int
    accepted: int
    survivors: tuple[Mutant, ...]
    """Those that are not accepted."""

    @property
    def share(self) -> float:
        """Return the noticed part of what was tried and is not accepted; 0 where nothing was."""
        counted = self.tried - self.accepted
        return self.noticed / counted if counted else 0.0


def accepted_in(path: Path) -> list[Acceptance]:
    """Read the accepted survivors. Raises KeyError or TypeError for what is no such list."""
    rows = tomllib.loads(path.read_text()).get("accepted", [])
    return [Acceptance(row["module"], row["was"], row["is"], row["reason"]) for row in rows]


def judge(mutants: Sequence[Mutant], accepted: Collection[Acceptance]) -> Verdict:
    """Count. A change that timed out or broke the program was noticed."""
    keys = {one.key for one in accepted}
    tried = [mutant for mutant in mutants if mutant.outcome is not None]
    survived = [mutant for mutant in tried if mutant.outcome == "survived"]
    left = tuple(mutant for mutant in survived if mutant.key not in keys)
    return Verdict(
        len(mutants), len(tried), len(tried) - len(survived), len(survived) - len(left), left
    )


def _changed(diff: str) -> tuple[str, str]:
    """Return the changed lines of a diff, before and after."""
    lines = [line for line in diff.splitlines() if line[:3] not in ("---", "+++")]
    sides = ([one[1:].strip() for one in lines if one.startswith(mark)] for mark in "-+")
    was, now = map(" / ".join, sides)
    return was, now
