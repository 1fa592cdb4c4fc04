"""What a tracker is told, as values that go to a file and come back the same."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orchestrator.tracking.review import SweepReview
from orchestrator.tracking.seam import Sample, SweepCard, TrialCard
from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.values import Value


@dataclass(frozen=True, slots=True)
class SweepStarted:
    """A sweep, and when it was told of (milliseconds since 1970, as all `at_ms`)."""

    card: SweepCard
    at_ms: int


@dataclass(frozen=True, slots=True)
class TrialStarted:
    """A trial."""

    card: TrialCard
    at_ms: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The samples of a trial since the last time, by whole elapsed second."""

    trial: str
    samples: Mapping[int, tuple[Sample, int]]


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """A result, and the folder with its files."""

    result: TrialResult
    folder: Path
    at_ms: int


@dataclass(frozen=True, slots=True)
class TrialFiles:
    """The files of a trial that has ended; apart, since they may fail where numbers do not."""

    trial: str
    sweep: str
    folder: Path


@dataclass(frozen=True, slots=True)
class SweepEnded:
    """The end of a sweep."""

    sweep: str
    status: str
    at_ms: int
    review: SweepReview | None = None


@dataclass(frozen=True, slots=True)
class SweepsDied:
    """Sweeps whose driver is gone: nothing of them runs any more."""

    sweeps: tuple[str, ...]
    at_ms: int


Event = (
    SweepStarted | TrialStarted | Progress | TrialEnded | TrialFiles | SweepEnded | SweepsDied
)  # fmt: skip

_Data = Mapping[str, object]


def event_data(event: Event) -> dict[str, object]:
    """Return an event as plain data, for JSON: what is not finite is wrapped."""
    packed = _pack(_plain(event))
    return {"kind": type(event).__name__, "event": packed}


def event_from(data: _Data) -> Event | None:
    """Read back what `event_data` wrote; None for what is no event."""
    reader = _READERS.get(str(data.get("kind")))
    event = _unpack(data.get("event"))
    return reader(event) if reader and isinstance(event, dict) else None


def card_data(card: SweepCard) -> dict[str, object]:
    """Return a sweep's card as plain data."""
    return asdict(card)


def card_from(data: _Data) -> SweepCard:
    """Read back what `card_data` wrote."""
    return SweepCard(**data)  # type: ignore[arg-type] # written by card_data, field by field


def _plain(event: Event) -> dict[str, object]:
    match event:
        case SweepStarted(card, at_ms):
            return {"card": card_data(card), "at_ms": at_ms}
        case TrialStarted(trial_card, at_ms):
            plain = {name: getattr(trial_card, name) for name in TrialCard.__dataclass_fields__}
            plain = {**plain, "config": dict(trial_card.config), "absent": dict(trial_card.absent)}
            return {"card": plain, "at_ms": at_ms}
        case Progress(trial, samples):
            rows = [[step, at, list(s.as_data().values())] for step, (s, at) in samples.items()]
            return {"trial": trial, "samples": rows}
        case TrialEnded(result, folder, at_ms):
            return {"result": result.as_data(), "folder": str(folder), "at_ms": at_ms}
        case TrialFiles(trial, sweep, folder):
            return {"trial": trial, "sweep": sweep, "folder": str(folder)}
        case SweepEnded(sweep, status, at_ms, review):
            told = None if review is None else asdict(review)
            return {"sweep": sweep, "status": status, "at_ms": at_ms, "review": told}
        case SweepsDied(sweeps, at_ms):
            return {"sweeps": list(sweeps), "at_ms": at_ms}


def _trial_started(data: _Data) -> Event:
    card = _mapping(data["card"])
    config: Mapping[str, Value] = _mapping(card["config"])  # type: ignore[assignment] # as written
    made = TrialCard(**{**card, "config": Config.of(config)})  # type: ignore[arg-type] # as written
    return TrialStarted(made, _whole(data["at_ms"]))


def _progress(data: _Data) -> Event:
    samples: dict[int, tuple[Sample, int]] = {}
    rows: list[tuple[int, int, list[float]]] = data["samples"]  # type: ignore[assignment] # as written
    for step, at_ms, numbers in rows:
        samples[step] = (Sample(*numbers), at_ms)
    return Progress(str(data["trial"]), samples)


def _trial_ended(data: _Data) -> Event:
    result = TrialResult.from_data(dict(_mapping(data["result"])))
    return TrialEnded(result, Path(str(data["folder"])), _whole(data["at_ms"]))


_READERS: dict[str, Callable[[_Data], Event]] = {
    "SweepStarted": lambda d: SweepStarted(card_from(_mapping(d["card"])), _whole(d["at_ms"])),
    "TrialStarted": _trial_started,
    "Progress": _progress,
    "TrialEnded": _trial_ended,
    "TrialFiles": lambda d: TrialFiles(str(d["trial"]), str(d["sweep"]), Path(str(d["folder"]))),
    "SweepEnded": lambda d: SweepEnded(
        str(d["sweep"]), str(d["status"]), _whole(d["at_ms"]), _review(d.get("review"))
    ),
    "SweepsDied": lambda d: SweepsDied(tuple(d["sweeps"]), _whole(d["at_ms"])),  # type: ignore[arg-type] # as written
}


def _review(data: object) -> SweepReview | None:
    if data is None:
        return None
    told: dict[str, Any] = dict(_mapping(data))
    return SweepReview(**{**told, "starts": tuple(told.get("starts", ()))})


def _mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, Mapping), "written as a mapping"
    return value


def _whole(value: object) -> int:
    assert isinstance(value, int), "written as a whole number"
    return value


def _pack(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if isinstance(value, Mapping):
        return {name: _pack(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [_pack(held) for held in value]
    return value


def _unpack(value: object) -> object:
    if isinstance(value, dict):
        if value.keys() == {"number"} and isinstance(value["number"], str):
            return float(value["number"])
        return {name: _unpack(held) for name, held in value.items()}
    return [_unpack(held) for held in value] if isinstance(value, list) else value
