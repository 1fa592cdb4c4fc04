"""A search that finds nothing: its trials are given, in their order."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.search.seam import Proposal
from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.search.planner import Planner
from sweeps.search.steps import Purpose


@dataclass(frozen=True, slots=True)
class GivenTrial:
    """A trial to make, and for which side it counts."""

    side: str
    config: Config
    purpose: Purpose = Purpose.CONFIRM


class GivenSearch:
    """Proposes each trial once, and once more after a fault that may be retried."""

    planner: Planner | None = None
    ends_itself = True
    collapsed = 0

    def __init__(self, trials: Sequence[GivenTrial], first_number: int = 0) -> None:
        self._first_number = first_number
        self._left = list(trials)
        self._given: list[GivenTrial] = []

    @property
    def proposed(self) -> int:
        """Return how many proposals were made."""
        return len(self._given)

    def ask(self) -> Proposal | None:
        """Return the next trial; None when all were made."""
        return self._propose(self._left.pop(0)) if self._left else None

    def tell(self, proposal: Proposal, result: TrialResult, *, retry: bool) -> None:
        """Put a trial that met a fault in front again."""
        if retry:
            self._left.insert(0, self._given[proposal.number - self._first_number])

    def repeat(self, config: Config, purpose: Purpose) -> Proposal:
        """Propose a configuration of the caller's choice, for no side."""
        return self._propose(GivenTrial("", config, purpose))

    def close(self) -> None:
        """Do nothing: there is no file."""

    def side(self, number: int) -> str:
        """Return for which side a trial counts."""
        return self._given[number - self._first_number].side

    def _propose(self, trial: GivenTrial) -> Proposal:
        self._given.append(trial)
        number = self._first_number + len(self._given) - 1
        return Proposal(number, trial.config, trial.purpose, trial.side)
