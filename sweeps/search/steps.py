"""What the planner proposes, and the few numbers by which a user steers it."""

from dataclasses import dataclass
from enum import StrEnum

from sweeps.config import Config


class Purpose(StrEnum):
    """Why a configuration is measured; kept with its result, it tells the planner where it is."""

    BASELINE = "baseline"
    """Plain decode with nothing changed: first, and on a schedule, to see drift."""
    CONTRAST = "contrast"
    """Tells explanations of the cost apart: draft length against communication."""
    SEED = "seed"
    """The first draft of an algorithm."""
    SEARCH = "search"
    """The start that promises most, by the model."""
    NEIGHBOUR = "neighbour"
    """Checks the leader against what differs from it in one respect."""
    ABLATION = "ablation"
    """The leader with one change undone."""
    CONFIRM = "confirm"
    """A fresh start made after the choice; gains are reported from these alone."""


@dataclass(frozen=True, slots=True)
class Step:
    """The next trial, and why it."""

    config: Config
    purpose: Purpose
    why: str
    gain_fraction: float | None = None
    """By how much of its rate the leader is expected to be beaten; None where that is not why."""
    gain_per_gpu_hour: float | None = None


@dataclass(frozen=True, slots=True)
class Taste:
    """How a user weighs certainty, ties and GPU-hours."""

    indifference_fraction: float = 0.01
    """Variants closer than this are a tie."""
    least_gain_per_gpu_hour: float = 0.0015
    """The search ends where no start promises more, as a fraction of the leader's rate; what is
    gained within half the indifference counts for nothing."""
    drift_every_trials: int = 16
    """Plain decode again after so many trials; 0: never."""
    confirm_rounds: int = 2
    """Starts of the choice and of what it is compared with, at the least."""
    most_confirm_rounds: int = 7
    """Starts of each, at the most: they end as soon as the answer is decided."""
    rivals: int = 2
    """Configurations beside the choice that are confirmed with it, at the most."""
