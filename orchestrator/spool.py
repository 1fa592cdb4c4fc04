"""What a trial's spool says when it is read back, as far as its file is whole."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from orchestrator.journal import Line, read_journal
from sweeps.config import Config
from sweeps.evidence import RequestEnd
from sweeps.records import EndReason
from sweeps.results import TrialResult
from sweeps.values import Value

TRIAL, PHASE, REQUEST = "trial", "phase", "request"
SAMPLE, RESULT = "sample", "result"
"""Kinds of records: who is measured; a phase that begins; a request; the rate so far; how it
ended, the last one."""

_T = TypeVar("_T")

START_PHASE = "start_phase"
"""The kind of the records that say what a start is at."""


@dataclass(frozen=True, slots=True)
class SpooledTrial:
    """What is measured, as it was known when the trial began."""

    trial: str
    number: int
    config: Config
    purpose: str
    host: str
    emulated: bool
    why: str = ""
    retry_of: int | None = None


@dataclass(frozen=True, slots=True)
class SpooledSample:
    """How a pass stands, `elapsed_s` into the trial by the host's time."""

    elapsed_s: float
    at_ms: int
    """Milliseconds since 1970."""
    tok_s: float | None
    """Of the measured pass so far; None in any other."""
    low: float | None
    high: float | None
    accept_length: float | None
    phase: str = ""
    steps_per_s: float | None = None
    tokens: int | None = None
    """Received so far, over all passes."""


@dataclass(frozen=True, slots=True)
class SpoolReading:
    """The records of a spool in order, and what of the file is damaged."""

    records: tuple[Line, ...]
    bad_lines: tuple[int, ...]
    is_torn: bool

    def of_kind(self, kind: str) -> Iterator[Mapping[str, object]]:
        """Return the records of a kind."""
        return (line.data for line in self.records if line.data.get("kind") == kind)

    def requests(self) -> tuple[RequestEnd, ...]:
        """Return how the requests ended."""
        return tuple(_each(_request, self.of_kind(REQUEST)))

    def phases(self) -> tuple[tuple[str, float], ...]:
        """Return each phase with the host seconds from the begin of the trial to its own."""
        return tuple(_each(_phase, self.of_kind(PHASE)))

    def samples(self) -> tuple[SpooledSample, ...]:
        """Return the rate so far, as it was reported."""
        return tuple(_each(sample_from, self.of_kind(SAMPLE)))

    @property
    def trial(self) -> SpooledTrial | None:
        """Return who was measured; None where the spool does not say."""
        return next(_each(trial_from, self.of_kind(TRIAL)), None)

    @property
    def result(self) -> TrialResult | None:
        """Return how the trial ended; None where it was cut off before."""
        return (None, *_each(_result, self.of_kind(RESULT)))[-1]


def _each(
    read: Callable[[Mapping[str, object]], _T], records: Iterable[Mapping[str, object]]
) -> Iterator[_T]:
    """Read each record; what has a right checksum and a wrong content is passed over."""
    for record in records:
        with suppress(KeyError, ValueError, TypeError, AttributeError):
            yield read(record)


def read_spool(path: Path) -> SpoolReading:
    """Read a spool; one that is not there holds nothing. Raises BadInputError if it is newer."""
    reading = read_journal(path)
    return SpoolReading(reading.lines, reading.bad_lines, reading.is_torn)


def trial_record(trial: SpooledTrial) -> dict[str, object]:
    """Return what is appended as a trial begins, under the kind TRIAL."""
    return {
        "trial": trial.trial, "number": trial.number, "config": dict(trial.config),
        "purpose": trial.purpose, "host": trial.host, "emulated": trial.emulated,
        "why": trial.why, "retry_of": trial.retry_of,
    }  # fmt: skip


def sample_record(sample: SpooledSample) -> dict[str, object]:
    """Return what is appended while a trial is measured, under the kind SAMPLE."""
    return {
        "elapsed_s": sample.elapsed_s, "at_ms": sample.at_ms, "tok_s": sample.tok_s,
        "low": sample.low, "high": sample.high, "accept_length": sample.accept_length,
        "phase": sample.phase, "steps_per_s": sample.steps_per_s, "tokens": sample.tokens,
    }  # fmt: skip


def result_record(result: TrialResult) -> dict[str, object]:
    """Return what is appended as a trial ends, under the kind RESULT."""
    return {"result": result.as_data()}


def _phase(data: Mapping[str, object]) -> tuple[str, float]:
    return str(data["phase"]), _number(data.get("at_s")) or 0.0


def _result(data: Mapping[str, object]) -> TrialResult:
    return TrialResult.from_data(data["result"])  # type: ignore[arg-type] # it checks


def _request(data: Mapping[str, object]) -> RequestEnd:
    return RequestEnd(
        phase=str(data["phase"]),
        end=EndReason(str(data["end"])),
        output_tokens=_whole(data.get("output_tokens")),
        detail=str(data.get("detail", "")),
    )


def trial_from(data: Mapping[str, object]) -> SpooledTrial:
    """Read back what `trial_record` wrote."""
    config: dict[str, Value] = data["config"]  # type: ignore[assignment] # from trial_record
    return SpooledTrial(
        str(data["trial"]), _whole(data["number"]), Config.of(config),
        str(data["purpose"]), str(data["host"]), data["emulated"] is True,
        str(data.get("why", "")), _number_of(data.get("retry_of")),
    )  # fmt: skip


def sample_from(data: Mapping[str, object]) -> SpooledSample:
    """Read back what `sample_record` wrote."""
    return SpooledSample(
        _number(data.get("elapsed_s")) or 0.0, _whole(data.get("at_ms")),
        _number(data.get("tok_s")), _number(data.get("low")), _number(data.get("high")),
        _number(data.get("accept_length")), str(data.get("phase", "")),
        _number(data.get("steps_per_s")),
        None if data.get("tokens") is None else _whole(data.get("tokens")),
    )  # fmt: skip


def _number_of(value: object) -> int | None:
    return value if type(value) is int else None


def _whole(value: object) -> int:
    return value if type(value) is int else 0


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
