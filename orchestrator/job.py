"""One trial as it is handed out, what it tells while it runs, and how it is asked to stop."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from sweeps.config import Config
from sweeps.hosts import HostSpec
from sweeps.records import Baseline
from sweeps.results import Phase
from sweeps.search.steps import Purpose
from sweeps.sweep import Sweep
from sweeps.values import Value

__all__ = ["Purpose", "StopKind", "StopOrder", "TrialJob", "TrialProgress"]

OUTPUTS_FILE = "outputs.json"


@dataclass(frozen=True, slots=True)
class TrialJob:
    """Everything that a trial needs, as a value that can travel to another process."""

    trial: str
    sweep_id: str
    number: int
    sweep: Sweep
    config: Config
    host: HostSpec
    folder: Path
    purpose: Purpose = Purpose.SEARCH
    baseline: Baseline | None = None
    """The step of the best plain decode that the sweep knows of on this host."""
    pins: Mapping[str, Value] = field(default_factory=dict)
    """Capacity settings that all trials on this host have in common."""
    fingerprint: str = ""
    """Of the host as it was probed."""
    why: str = ""
    """In words, where the search gives a reason."""
    retry_of: int | None = None
    """Number of the trial that this one tries again."""
    state: str = ""
    """Which state folder it is of, where it runs in another process."""

    @property
    def log_path(self) -> Path:
        """Return where the server writes."""
        return self.folder / "server.log"

    @property
    def result_path(self) -> Path:
        """Return where the end of the trial is written, whole or not at all."""
        return self.folder / "result.json"

    @property
    def plan_path(self) -> Path:
        """Return where the launch plan is written."""
        return self.folder / "plan.json"

    @property
    def spool_path(self) -> Path:
        """Return where every sample and request is appended."""
        return self.folder / "spool.jsonl"

    @property
    def outputs_path(self) -> Path:
        """Return where the texts of the cold pass are written, to be compared."""
        return self.folder / OUTPUTS_FILE

    @property
    def recording_path(self) -> Path:
        """Return where the token ids of plain decode are written, to be replayed."""
        return self.folder / "output.recording"

    @property
    def stop_path(self) -> Path:
        """Return where an order to stop is left for a trial in another process."""
        return self.folder / "stop.json"


@dataclass(frozen=True, slots=True)
class TrialProgress:
    """A sign of life: the phase and the rate so far, in the host's seconds."""

    trial: str
    phase: Phase
    elapsed_s: float
    tok_s: float | None = None
    low: float | None = None
    high: float | None = None
    accept_length: float | None = None
    steps_per_s: float | None = None
    blocks: tuple[float, ...] = field(default=())
    """Decode tok/s of each whole 5-s block of the measured pass so far."""
    step_blocks: tuple[float, ...] = field(default=())
    """Steps/s of a stream in each such block of the step probe under the same load."""
    detail: str = ""
    """What a start is at."""
    tokens: int | None = None
    """Received so far, over all passes; None in a report that tells of no pass."""

    @property
    def tells_numbers(self) -> bool:
        """Tell whether it says more than that the trial lives."""
        return self.tokens is not None


class StopKind(StrEnum):
    """Why somebody wants a trial to end."""

    BOUND = "bound"
    """It is confidently worse than the incumbent."""
    INTERRUPT = "interrupt"


@dataclass(frozen=True, slots=True)
class StopOrder:
    """An order to end a trial, with the reason that its result will carry."""

    kind: StopKind
    reason: str
    bound: float | None = None
