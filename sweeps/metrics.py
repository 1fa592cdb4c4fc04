"""What is reported of a trial: each metric's name, unit, direction and formula."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from sweeps import latencies, rates
from sweeps.buckets import BUCKETS, bucket
from sweeps.intervals import Interval, estimate_of, interval_of, inverse, pooled, quotient
from sweeps.records import Measurement, PassRecord
from sweeps.results import Estimate
from sweeps.steps import Stepping, stepping_in, stepping_of

PROBED_ACCEPT = "accept_length_probe"
"""Of a trial that was stopped in its step probe: before a drafter that learns has learnt."""
Formula = Callable[[Measurement], Estimate | None]
PassFormula = Callable[[PassRecord, Stepping], Estimate | None]


class Of(StrEnum):
    """What else than the measured pass a kind of metric is told of, and how its name ends then."""

    COLD = "cold"
    LOADED = "c"
    """Each loaded pass, by its concurrency."""
    OPEN = "open"
    """The open loop: requests come when they are due, whatever the server does."""
    LENGTH = "prompts"
    """The requests of the measured pass whose prompts are of like length."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. Its formula gives None where it was not measured, never zero."""

    name: str
    unit: str
    higher_is_better: bool | None
    description: str
    formula: Formula


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table. `of_pass` serves the measured pass and those in `also`."""

    name: str
    unit: str
    higher_is_better: bool | None
    description: str
    of_pass: PassFormula | None
    also: tuple[Of, ...] = ()
    of_trial: Formula | None = None
    """Where it takes more than the measured pass to tell of that."""

    def of(
        self, name: str, what: str, choose: Callable[[Measurement], PassRecord | None]
    ) -> Metric:
        """Return this metric of the pass that is chosen, under a name of its own."""

        def formula(m: Measurement) -> Estimate | None:
            record = choose(m)
            if record is None or self.of_pass is None:
                return None
            return self.of_pass(record, stepping_in(m))

        return Metric(name, self.unit, self.higher_is_better, self.description + what, formula)

    def measured(self) -> Metric:
        """Return this metric of the measured pass."""
        found = self.of(self.name, "", lambda m: m.measured)
        return found if self.of_trial is None else replace(found, formula=self.of_trial)


def loaded_name(name: str, concurrency: int) -> str:
    """Return what a metric is called in the loaded pass of a concurrency."""
    return f"{name}_{Of.LOADED}{concurrency}"


def length_name(name: str, bucket_name: str) -> str:
    """Return what a metric is called over prompts of one class of length."""
    return f"{name}_{Of.LENGTH}_{bucket_name}"


def _rate(formula: Callable[[PassRecord], Estimate | None]) -> PassFormula:
    return lambda record, _: formula(record)


def _exactly(total: float, record: PassRecord) -> Estimate:
    duration_s = record.ended_s - record.started_s
    return Estimate(total, total, total, duration_s, "the server's own count", False)


def _accept_length(record: PassRecord, stepping: Stepping) -> Estimate | None:
    if not stepping.plain:
        return rates.accept_length(record, stepping=stepping)
    if not any(request.output_tokens for request in record.requests):
        return None
    duration_s = record.ended_s - record.started_s
    return Estimate(1.0, 1.0, 1.0, duration_s, "plain decode: one token a step", False)


def _accept_length_measured(m: Measurement) -> Estimate | None:
    """Fall back on rate over steps where a deadline kept most steps of the pass from being told."""
    stepping = stepping_in(m)
    found = _accept_length(m.measured, stepping)
    most = rates.unknown_fraction(m.measured, stepping) > rates.MOST_UNKNOWN_FRACTION
    probed = _probed_steps(m, stepping)
    rate = rates.decode_rate(m.measured)
    if stepping.plain or not most or probed is None or rate is None:
        return found
    streams = m.measured.concurrency
    of_one = Interval(
        rate.value / streams,
        None if rate.low is None else rate.low / streams,
        None if rate.high is None else rate.high / streams,
    )
    length = quotient(of_one, interval_of(probed))
    return estimate_of(
        length, rate.duration_s, "decode rate over the step rate of the probe", few=True
    )


def _probed_steps(m: Measurement, stepping: Stepping) -> Estimate | None:
    """Return the step rate of the probe, if it was under the load of the measured pass."""
    if m.probe is None or m.probe.concurrency != m.measured.concurrency:
        return None
    return _steps_of_probe(m.probe, stepping)


def _steps_of_probe(probe: PassRecord, stepping: Stepping) -> Estimate | None:
    found = rates.steps_per_s(probe, stepping=stepping)
    return found and replace(found, method=f"step probe: {found.method}")


def _steps_per_s(record: PassRecord, stepping: Stepping) -> Estimate | None:
    return rates.steps_per_s(record, stepping=stepping)


def _steps_per_s_measured(m: Measurement) -> Estimate | None:
    return pooled(_step_readings(m)).estimate


def _step_readings(m: Measurement) -> list[Estimate]:
    """Return the step rate of the measured pass, and of the probe under the same load."""
    stepping = stepping_in(m)
    found = (_steps_per_s(m.measured, stepping), _probed_steps(m, stepping))
    return [estimate for estimate in found if estimate is not None]


def steps_set_aside(m: Measurement) -> tuple[Estimate, Estimate] | None:
    """Return a step rate that disagrees with another beyond chance, and that other one."""
    found = pooled(_step_readings(m))
    if found.estimate is None or found.aside is None:
        return None
    return found.aside, found.estimate


def _as_cycle(steps: Estimate | None) -> Estimate | None:
    if steps is None:
        return None
    cycle_ms = inverse(interval_of(steps), 1000.0)
    return replace(steps, value=cycle_ms.value, low=cycle_ms.low, high=cycle_ms.high)


def _break_even(m: Measurement) -> Estimate | None:
    cycle, base = _as_cycle(_steps_per_s_measured(m)), m.baseline
    if cycle is None or base is None:
        return None
    step = Interval(base.step_ms, base.low_ms, base.high_ms)
    ratio = quotient(interval_of(cycle), step)
    method = f"cycle ({cycle.method}) over the step of plain decode"
    return estimate_of(ratio, cycle.duration_s, method, few=cycle.provisional)


def _speed_up(m: Measurement) -> Estimate | None:
    length, even = _accept_length_measured(m), _break_even(m)
    if length is None or even is None:
        return None
    ratio = quotient(interval_of(length), interval_of(even))
    few = length.provisional or even.provisional
    method = f"accept length ({length.method}) over break-even"
    return estimate_of(ratio, length.duration_s, method, few=few)


def _output_tokens(record: PassRecord, _: Stepping) -> Estimate | None:
    return _exactly(float(sum(r.output_tokens for r in record.requests)), record)


def _cached_tokens(record: PassRecord, _: Stepping) -> Estimate | None:
    told = [r.cached_tokens for r in record.requests if r.cached_tokens is not None]
    return _exactly(float(sum(told)), record) if told else None


KINDS = (
    Kind(
        "decode_tok_s", "tok/s", True,
        "decode tokens of all streams per second of streaming time",
        _rate(rates.decode_rate), (Of.COLD, Of.LOADED),
    ),
    Kind(
        "stream_tok_s", "tok/s", True,
        "decode tokens per second of one stream, its interval for prompts like these",
        _rate(rates.stream_rate), (Of.LOADED, Of.OPEN, Of.LENGTH),
    ),
    Kind(
        "output_tok_s", "tok/s", True,
        "all output tokens per second while every slot is taken",
        _rate(rates.output_rate), (Of.LOADED,),
    ),
    Kind(
        "accept_length", "tok/step", True,
        "tokens per verify step, bonus token included, prefill's token not; 1 for plain decode",
        _accept_length, (Of.COLD, Of.LOADED), _accept_length_measured,
    ),
    Kind(
        "steps_per_s", "step/s", True, "decode or verify steps per second of a stream",
        _steps_per_s, (Of.LOADED,), _steps_per_s_measured,
    ),
    Kind(
        "cycle_ms", "ms", False, "time of one decode or verify step",
        lambda record, stepping: _as_cycle(_steps_per_s(record, stepping)), (Of.LOADED,),
        lambda m: _as_cycle(_steps_per_s_measured(m)),
    ),
    Kind(
        "break_even", "tok/step", False,
        "accept length at which it is as fast as plain decode: cycle over plain step",
        None, (), _break_even,
    ),
    Kind(
        "speed_up", "x", True, "accept length over break-even: above 1 it beats plain decode",
        None, (), _speed_up,
    ),
    Kind(
        "ttft_ms", "ms", False, "median time to the first token, from when it was due",
        _rate(latencies.ttft), (Of.LOADED, Of.OPEN),
    ),
    Kind(
        "ttft_p90_ms", "ms", False, "the time to first token that a tenth of requests exceed",
        _rate(lambda record: latencies.ttft(record, 0.9)), (Of.LOADED, Of.OPEN),
    ),
    Kind(
        "tpot_ms", "ms", False, "median over requests of the time per decode token",
        _rate(latencies.tpot), (Of.LOADED, Of.OPEN),
    ),
    Kind(
        "itl_ms", "ms", False, "median time between tokens, where each came alone",
        _rate(latencies.itl), (Of.LOADED,),
    ),
    Kind(
        "chunk_gap_ms", "ms", None, "median time between chunks, however many tokens they hold",
        _rate(latencies.chunk_gap), (Of.LOADED,),
    ),
    Kind(
        "chunk_gap_p90_ms", "ms", None, "the time between chunks that a tenth of gaps exceed",
        _rate(lambda record: latencies.chunk_gap(record, 0.9)), (Of.LOADED,),
    ),
    Kind(
        "queue_ms", "ms", False, "median time in the server's queue, by its own account",
        _rate(latencies.queue), (Of.LOADED, Of.OPEN),
    ),
    Kind(
        "cached_tokens", "tok", None, "prompt tokens that the server took from its prefix cache",
        _cached_tokens, (Of.COLD,),
    ),
    Kind("output_tokens", "tok", None, "tokens received", _output_tokens),
)  # fmt: skip
"""The table: one row for each kind of metric."""


def _cold(kind: Kind) -> Metric:
    what = ", after a flush, before anything was generated"
    return kind.of(f"{kind.name}_{Of.COLD}", what, lambda m: m.cold)


def _open(kind: Kind) -> Metric:
    what = ", requests coming at the workload's rate"
    return kind.of(f"{kind.name}_{Of.OPEN}", what, lambda m: m.open_loop)


def _loaded(kind: Kind, concurrency: int) -> Metric:
    def choose(m: Measurement) -> PassRecord | None:
        return next((one for one in m.loaded if one.concurrency == concurrency), None)

    return kind.of(loaded_name(kind.name, concurrency), f", {concurrency} at a time", choose)


def _of_length(kind: Kind, of: str) -> Metric:
    def choose(m: Measurement) -> PassRecord:
        lengths = [(r, r.prompt_tokens) for r in m.measured.requests]
        kept = [r for r, tokens in lengths if tokens is not None and bucket(tokens) == of]
        return replace(m.measured, requests=tuple(kept))

    what = f", prompts {of.replace('_', ' ')} tokens"
    return kind.of(length_name(kind.name, of), what, choose)


def _static(kind: Kind) -> Iterator[Metric]:
    yield kind.measured()
    if Of.COLD in kind.also:
        yield _cold(kind)
    if Of.OPEN in kind.also:
        yield _open(kind)


METRICS: dict[str, Metric] = {row.name: row for kind in KINDS for row in _static(kind)}
"""The metrics whose names do not depend on the workload; `metric_named` knows the others too."""


def metric_named(name: str) -> Metric | None:
    """Return a metric by its name, such as `decode_tok_s_c4`; None where there is none."""
    if name in METRICS:
        return METRICS[name]
    for kind in KINDS:
        found, _, rest = name.partition(f"{kind.name}_")
        if found or not rest:
            continue
        number = rest.removeprefix(Of.LOADED)
        if Of.LOADED in kind.also and rest != number and number.isdecimal():
            return _loaded(kind, int(number))
        prompts = rest.removeprefix(f"{Of.LENGTH}_")
        if Of.LENGTH in kind.also and rest != prompts and prompts in BUCKETS:
            return _of_length(kind, prompts)
    return None


def load_of(name: str) -> int | None:
    """Return the concurrency that the name of a metric tells; None where it tells none."""
    for kind in KINDS:
        number = name.removeprefix(f"{kind.name}_{Of.LOADED}")
        if Of.LOADED in kind.also and number != name and number.isdecimal():
            return int(number)
    return None


def known_metric(name: str) -> Metric:
    """Return a metric that is there. Raises KeyError."""
    metric = metric_named(name)
    if metric is None:
        raise KeyError(name)
    return metric


def measure_all(measurement: Measurement) -> dict[str, Estimate]:
    """Return every metric that the passes of a trial allow."""
    found = {m.name: m.formula(measurement) for m in _all_of(measurement)}
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def measure_probe(
    probe: PassRecord, others: Iterable[PassRecord], *, plain: bool
) -> dict[str, Estimate]:
    """Return what the step probe says of a trial that ended before its measured pass.

    `others` are passes of the same server whose requests show how it steps.
    """
    stepping = stepping_of((probe, *others), plain=plain)
    steps = _steps_of_probe(probe, stepping)
    cycle, accept = _as_cycle(steps), _accept_length(probe, stepping)
    found = {"steps_per_s": steps, "cycle_ms": cycle, PROBED_ACCEPT: accept}
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def _all_of(measurement: Measurement) -> Iterator[Metric]:
    yield from METRICS.values()
    for kind in KINDS:
        if Of.LOADED in kind.also:
            for record in measurement.loaded:
                yield _loaded(kind, record.concurrency)
        if Of.LENGTH in kind.also:
            for name in BUCKETS:
                yield _of_length(kind, name)
