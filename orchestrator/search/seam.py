"""The seam to a search: it proposes configurations and is told how they ended."""

from dataclasses import dataclass
from typing import Protocol

from orchestrator.job import Purpose
from sweeps.config import Config
from sweeps.results import TrialResult


@dataclass(frozen=True, slots=True)
class Proposal:
    """A configuration to measure, with its number in the sweep."""

    number: int
    config: Config
    purpose: Purpose


class Search(Protocol):
    """Proposes and learns. Used by one thread at a time; the same seed gives the same sweep."""

    def ask(self) -> Proposal | None:
        """Return the next proposal; None when nothing is left to try now."""
        ...

    def tell(self, proposal: Proposal, result: TrialResult) -> None:
        """Learn how a proposal ended; exactly once for each."""
        ...

    def close(self) -> None:
        """Wait until all that was told is kept. Safe to call twice."""
        ...
