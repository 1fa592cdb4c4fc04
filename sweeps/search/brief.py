"""What a planner is told of its sweep: its objective, its limits, what is known before it."""

from collections.abc import Callable
from dataclasses import dataclass

from sweeps.config import Config
from sweeps.prediction.all_reduces import NOT_TIMED, AllReduces
from sweeps.prediction.profile import HostProfile
from sweeps.prediction.source import NOTHING_KNOWN, AcceptSource
from sweeps.search.steps import Taste

Canonical = Callable[[Config], Config]
Refusal = Callable[[Config], str]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sweep may cost. None: no limit of that kind."""

    trials: int | None = None
    gpu_hours: float | None = None


@dataclass(frozen=True, slots=True)
class Objective:
    """What is made as good as can be; decode tok/s is taken apart, other metrics are not."""

    name: str = "decode_tok_s"
    higher_is_better: bool = True


@dataclass(frozen=True, slots=True)
class Foresight:
    """What is known before it is measured: accept lengths by replay, a host by its profile, its
    all-reduces by a screening. `on` has step times taken apart; switched off, beliefs are smooth
    in all settings."""

    source: AcceptSource = NOTHING_KNOWN
    profile: HostProfile | None = None
    all_reduces: AllReduces = NOT_TIMED
    on: bool = True


DECODE, NO_FORESIGHT = Objective(), Foresight(on=False)
NO_LIMITS, USUAL = Limits(), Taste()


def same(config: Config) -> Config:
    """Return a configuration as it is: nothing is known to be inert."""
    return config


def never(config: Config) -> str:
    """Refuse nothing."""
    return ""
