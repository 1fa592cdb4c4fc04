"""The seam to whoever keeps what the trials brought: what it is told, and what it promises."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from orchestrator.tracking.review import SweepReview
from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.values import Value

DEFAULT_OBJECTIVE = "decode_tok_s"


@dataclass(frozen=True, slots=True)
class SweepCard:
    """A sweep as it starts, or as it is taken up again under the same `sweep` id."""

    sweep: str
    name: str
    emulated: bool
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    objective: str = DEFAULT_OBJECTIVE
    """The metric whose best value stands for the sweep."""
    higher_is_better: bool = field(default=True, kw_only=True)
    axes: Mapping[str, bool] = field(default_factory=dict, kw_only=True)
    """What varies, the most telling first, and of each whether its values are numbers."""
    plain: Mapping[str, Value] = field(default_factory=dict, kw_only=True)
    """Its plain decode, from which variants are named."""


@dataclass(frozen=True, slots=True)
class TrialCard:
    """A trial as it starts."""

    trial: str
    sweep: str
    number: int
    config: Config
    purpose: str
    emulated: bool
    name: str = ""
    """What its variant is called within the sweep."""
    absent: Mapping[str, Value] = field(default_factory=dict)
    """For each axis that its configuration has not, what stands for that."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The rate of a running trial, after `elapsed_s` of the host's seconds; None is not known."""

    elapsed_s: float
    tok_s: float | None = None
    low: float | None = None
    high: float | None = None
    accept_length: float | None = None
    steps_per_s: float | None = None
    tokens: float | None = None
    """Received so far, over all passes of the trial."""

    def as_data(self) -> dict[str, float | None]:
        """Return plain data, for JSON."""
        return asdict(self)


class Tracker(Protocol):
    """Keeps what it is told and decides nothing: a sweep ends the same with any tracker.

    No method raises, and all but `wait_open` and `close` return at once (in under a millisecond);
    what fails is logged and the sweep goes on. Any thread may call. A sweep or trial that is told
    of twice is the same one, brought up to date: that is how a sweep is taken up again.
    """

    def sweep_started(self, card: SweepCard) -> None:
        """Take note of a sweep; the last one named is the one that `sweep_ended` means."""
        ...

    def trial_started(self, card: TrialCard) -> None:
        """Take note of a trial."""
        ...

    def progress(self, trial: str, sample: Sample) -> None:
        """Take a sample of a started trial. Some may be thinned out when many come at once."""
        ...

    def trial_ended(self, result: TrialResult, folder: Path) -> None:
        """Take the end of a trial, started or not. `folder` must stay as it is until `close`."""
        ...

    def sweep_ended(self, status: str, review: SweepReview | None = None) -> None:
        """Take the end of the sweep: finished, failed, or a word for being stopped.

        `review` is what it came to.
        """
        ...

    def wait_open(self, deadline_s: float) -> bool:
        """Wait for a slow start-up that the first telling set off; False at the deadline.

        A measurement should not share its machine with imports and migrations.
        """
        ...

    def close(self, deadline_s: float) -> bool:
        """Write what is left within wall seconds; False if any of it is not written.

        Safe to call twice. What is told after it is not kept.
        """
        ...
