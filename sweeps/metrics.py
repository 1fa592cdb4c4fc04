"""What is reported of a trial: each metric's name, unit, direction and formula."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sweeps import intervals
from sweeps.records import Measurement, PassRecord
from sweeps.results import Estimate

Formula = Callable[[Measurement], Estimate | None]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. Its formula gives None where it was not measured, never zero."""

    name: str
    unit: str
    higher_is_better: bool | None
    description: str
    formula: Formula


def _cold(formula: Callable[[PassRecord], Estimate | None]) -> Formula:
    return lambda m: None if m.cold is None else formula(m.cold)


def _accept_length(record: PassRecord, *, plain: bool | None) -> Estimate | None:
    if not (intervals.is_plain(record) if plain is None else plain):
        return intervals.accept_length(record)
    if not any(request.output_tokens for request in record.requests):
        return None
    duration_s = record.ended_s - record.started_s
    return Estimate(1.0, 1.0, 1.0, duration_s, "plain decode: one token a step", False)


def _accept_length_cold(m: Measurement) -> Estimate | None:
    return None if m.cold is None else _accept_length(m.cold, plain=m.plain)


def _cycle_ms(m: Measurement) -> Estimate | None:
    rate = intervals.steps_per_s(m.measured, plain=m.plain)
    if rate is None or rate.value <= 0:
        return None
    return replace(
        rate,
        value=1000 / rate.value,
        low=1000 / rate.high if rate.high else None,
        high=1000 / rate.low if rate.low else None,
    )


def _output_tokens(m: Measurement) -> Estimate | None:
    total = float(sum(request.output_tokens for request in m.measured.requests))
    duration_s = m.measured.ended_s - m.measured.started_s
    return Estimate(total, total, total, duration_s, "the server's own count", False)


_ROWS = (
    Metric(
        "decode_tok_s", "tok/s", True,
        "decode tokens of all streams per second of streaming time, warm",
        lambda m: intervals.decode_rate(m.measured),
    ),
    Metric(
        "decode_tok_s_cold", "tok/s", True,
        "the same after a flush, before anything was generated",
        _cold(intervals.decode_rate),
    ),
    Metric(
        "accept_length", "tok/step", True,
        "tokens per verify step, bonus token included, prefill's token not; 1 for plain decode",
        lambda m: _accept_length(m.measured, plain=m.plain),
    ),
    Metric(
        "accept_length_cold", "tok/step", True,
        "the same after a flush, before anything was generated",
        _accept_length_cold,
    ),
    Metric(
        "steps_per_s", "step/s", True,
        "decode or verify steps per second of a stream",
        lambda m: intervals.steps_per_s(m.measured, plain=m.plain),
    ),
    Metric("cycle_ms", "ms", False, "time of one decode or verify step", _cycle_ms),
    Metric(
        "ttft_ms", "ms", False, "median time from sending to the first token",
        lambda m: intervals.ttft(m.measured),
    ),
    Metric(
        "tpot_ms", "ms", False, "median over requests of the time per decode token",
        lambda m: intervals.tpot(m.measured),
    ),
    Metric("output_tokens", "tok", None, "tokens received in the measured pass", _output_tokens),
)  # fmt: skip

METRICS: dict[str, Metric] = {row.name: row for row in _ROWS}


def measure_all(measurement: Measurement) -> dict[str, Estimate]:
    """Return every metric that the passes of a trial allow."""
    found = {name: metric.formula(measurement) for name, metric in METRICS.items()}
    return {name: estimate for name, estimate in found.items() if estimate is not None}
