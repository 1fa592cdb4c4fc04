"""The seam to a search: it proposes configurations and is told how they ended."""

from dataclasses import dataclass
from typing import Protocol

from orchestrator.job import Purpose
from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.search.brief import Foresight


@dataclass(frozen=True, slots=True)
class Proposal:
    """A configuration to measure, with its number in the sweep, and why."""

    number: int
    config: Config
    purpose: Purpose
    why: str = ""
    retry_of: int | None = None
    """Number of the trial that this one tries again."""
    promised_gain: float | None = None
    """By what fraction a start of it is expected to lift the best rate; None where that is not
    why."""


class Guide(Protocol):
    """What is known of configurations without measuring them."""

    @property
    def foresight(self) -> Foresight:
        """Return what is known of accept lengths and step times."""
        ...

    def canonical(self, config: Config) -> Config:
        """Return the configuration that acts alike and changes the fewest settings."""
        ...

    def refusal(self, config: Config) -> str:
        """Say why a configuration must not be started; empty where it may."""
        ...


class NoGuide:
    """Knows nothing."""

    foresight = Foresight()

    def canonical(self, config: Config) -> Config:
        """Return it as it is."""
        return config

    def refusal(self, config: Config) -> str:
        """Refuse nothing."""
        return ""


class Search(Protocol):
    """Proposes and learns. Used by one thread at a time; the same seed gives the same sweep."""

    def ask(self) -> Proposal | None:
        """Return the next proposal; None when nothing is left to try now."""
        ...

    def tell(self, proposal: Proposal, result: TrialResult, *, retry: bool) -> None:
        """Learn how a proposal ended; exactly once for each. `retry`: a fault is tried again."""
        ...

    def close(self) -> None:
        """Wait until all that was told is kept. Safe to call twice."""
        ...
