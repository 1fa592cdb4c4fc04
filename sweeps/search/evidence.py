"""What finished trials say of step time and accept length, start by start and variant by variant.

Variants that act alike share their evidence. All values are logarithms.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from sweeps.closing import Fault, kind_of_fault
from sweeps.config import Config
from sweeps.memory_borders import fault_of_memory
from sweeps.pass_length import START_SPREAD
from sweeps.results import Estimate, Outcome, TrialResult
from sweeps.search.roles import CHAINS, width_of
from sweeps.search.steps import Purpose

LAUNCH_SPREAD, LAUNCH_WEIGHT = START_SPREAD, 8
"""Spread between starts of one variant, and how many starts that assumption is worth."""
HOST_SPREAD = 0.1
"""Between hosts that no configuration was measured on alike."""
LEAST_SPREAD, UNKNOWN_SPREAD = 0.002, 0.05
_Z = 1.96
DECODE_RATE = "decode_tok_s"
STOPPED_SHARE = 0.55
"""Of the cost of a trial: what one costs that is stopped in its probe, until one was."""
PROMPT_SPREAD = 0.06
"""Of the accept length between one long answer and the whole of a measured pass."""
PRIOR = "prior"
"""Purpose of a trial that nobody ran: it says what is expected of plain decode."""
CUT = (Outcome.FAILED, Outcome.CANCELLED)
"""Ends that say nothing of a configuration."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A measured logarithm, and the variance of its measuring; that of the start comes on top."""

    value: float
    variance: float


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a server, as far as it was measured."""

    place: int
    """In the history: what came before a choice is no proof of it."""
    config: Config
    """In canonical form."""
    purpose: str
    measured_rate: Reading | None
    """None where steps alone were timed before the trial was stopped."""
    cycle: Reading
    accept: Reading | None
    """None for plain decode, which accepts one token, and where none was measured."""
    may_lead: bool
    host: str = ""

    @property
    def rate(self) -> Reading:
        """Return the rate of a start that has one, as all that may lead have."""
        assert self.measured_rate is not None, "steps alone were timed"
        return self.measured_rate


@dataclass(frozen=True, slots=True)
class Variant:
    """All starts of a configuration; readings are pooled over them."""

    config: Config
    starts: tuple[Start, ...]
    cycle: Reading
    """Its variance includes that of the starts."""
    accept: Reading | None

    @property
    def may_lead(self) -> bool:
        """Tell whether any start ran its course."""
        return any(start.may_lead for start in self.starts)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a history says."""

    starts: tuple[Start, ...]
    variants: Mapping[Config, Variant]
    launch_variance: float
    """Of the step time, between starts of one variant."""
    bad: tuple[Config, ...]
    """Configurations that cannot run, or whose text is broken, as they were asked for; not those
    that found no memory, for which no value is to blame."""
    faults: tuple[Fault, ...]
    """How each of them failed."""
    spent: frozenset[Config]
    """Canonical forms that need not be tried again."""
    gpu_hours: float
    """Of a trial that runs its course, on average; hours of the host where it has no GPU."""
    stopped_gpu_hours: float
    """Of a trial that is stopped in its step probe."""


def gather(
    history: Sequence[TrialResult], canonical: Callable[[Config], Config], metric: str,
    *, higher_is_better: bool = True,
) -> Evidence:  # fmt: skip
    """Read a history. Faults and cancelled trials say nothing; a metric that is better low counts
    by its inverse."""
    known = [r for r in history if r.outcome not in CUT]
    bad = [r for r in known if _is_bad(r) and not fault_of_memory(r)]
    told = tuple(_starts(history, canonical, metric, 1 if higher_is_better else -1))
    starts = as_of_one_host(told)
    variance = _launch_variance(starts)
    groups: dict[Config, list[Start]] = {}
    for start in starts:
        groups.setdefault(start.config, []).append(start)
    variants = {config: _pooled(config, group, variance) for config, group in groups.items()}
    whole = [hours_of(r) for r in known if r.may_lead and r.purpose != PRIOR]
    probed = [
        hours_of(r) for r in known if r.outcome is Outcome.STOPPED and metric not in r.estimates
    ]
    gpu_hours = fmean(whole) if any(whole) else 1.0
    return Evidence(
        starts, variants, variance, tuple(r.config for r in bad), tuple(map(kind_of_fault, bad)),
        frozenset(canonical(r.config) for r in known if r.purpose != PRIOR),
        gpu_hours,
        fmean(probed) if any(probed) else STOPPED_SHARE * gpu_hours,
    )  # fmt: skip


def hours_of(result: TrialResult) -> float:
    """Return what a trial cost in GPU-hours; on a host without GPUs in hours of the host.

    Older versions counted no hours there.
    """
    return result.gpu_hours or sum(result.phase_s.values()) / 3600


def as_of_one_host(starts: Sequence[Start]) -> tuple[Start, ...]:
    """Return starts as the first host would have had them: what another one is slower by, as
    configurations show it that both had, plain decode above all, is taken off."""
    if len({start.host for start in starts}) < 2:
        return tuple(starts)
    first = starts[0].host
    offsets = {host: _offset(starts, first, host) for host in {s.host for s in starts} - {first}}
    return tuple(
        start if start.host == first else _moved(start, offsets[start.host]) for start in starts
    )


def _offset(starts: Sequence[Start], first: str, other: str) -> Reading:
    """Return how much longer the steps of a host are than those of the first."""
    mine: dict[Config, list[float]] = {}
    theirs: dict[Config, list[float]] = {}
    for start in starts:
        if start.host in (first, other):
            side = mine if start.host == first else theirs
            side.setdefault(start.config, []).append(start.cycle.value)
    shared = mine.keys() & theirs.keys()
    chosen = [config for config in shared if config.is_plain] or list(shared)
    if not chosen:
        return Reading(0.0, HOST_SPREAD**2)
    gaps = [fmean(theirs[config]) - fmean(mine[config]) for config in chosen]
    return Reading(fmean(gaps), 2 * LAUNCH_SPREAD**2 / len(gaps))


def _moved(start: Start, offset: Reading) -> Start:
    cycle, rate = start.cycle, start.measured_rate
    return replace(
        start,
        cycle=Reading(cycle.value - offset.value, cycle.variance + offset.variance),
        measured_rate=rate and Reading(rate.value + offset.value, rate.variance + offset.variance),
    )


def purposes(history: Iterable[TrialResult], purpose: Purpose) -> int:
    """Count the trials of a purpose that were not cut off by a fault."""
    return sum(1 for r in history if r.purpose == purpose and r.outcome not in CUT)


def read_log(estimate: Estimate | None) -> Reading | None:
    """Return the logarithm of a positive estimate; None where there is none."""
    if estimate is None or estimate.value <= 0:
        return None
    spread = UNKNOWN_SPREAD
    if estimate.low is not None and estimate.high is not None:
        spread = (estimate.high - estimate.low) / (2 * _Z * estimate.value)
    return Reading(math.log(estimate.value), max(spread, LEAST_SPREAD) ** 2)


def mean_of(readings: Sequence[Reading], more: float = 0.0) -> Reading:
    """Pool readings by their precision; `more` is variance that each has of its own."""
    weights = [1 / (reading.variance + more) for reading in readings]
    total = sum(weights)
    value = sum(w * r.value for w, r in zip(weights, readings, strict=True)) / total
    return Reading(value, 1 / total)


def _is_bad(result: TrialResult) -> bool:
    refused = result.outcome in (Outcome.INFEASIBLE, Outcome.HUNG)
    return refused or (result.outcome.has_rate and not result.quality.recommendable)


def _starts(
    history: Sequence[TrialResult], canonical: Callable[[Config], Config], metric: str, sign: int
) -> Iterable[Start]:
    for place, result in enumerate(history):
        if result.outcome in CUT or _is_bad(result):
            continue
        found = _factors(result, metric, sign)
        if found is not None:
            rate, cycle, accept = found
            config = canonical(result.config)
            lead = result.may_lead and metric in result.estimates
            yield Start(place, config, result.purpose, rate, cycle, accept, lead, result.host)


def _factors(
    result: TrialResult, metric: str, sign: int
) -> tuple[Reading | None, Reading, Reading | None] | None:
    """Take a rate apart into the time of a step and the accept length, as far as that was measured.

    A trial that was stopped in its step probe tells the time of a step alone.
    """
    rate = read_log(result.estimates.get(metric))
    if metric != DECODE_RATE:
        if rate is None:
            return None
        rate = Reading(sign * rate.value, rate.variance)
        return rate, Reading(-rate.value, rate.variance), None
    steps = read_log(result.estimates.get("steps_per_s"))
    if result.config.is_plain or width_of(result.config) == 1:
        steps = steps or rate
        return None if steps is None else (rate or steps, _inverse(steps), None)
    accept = read_log(result.estimates.get("accept_length"))
    if steps is None and rate is not None and accept is not None:
        steps = _over(rate, accept)
    if steps is None:
        return None
    if accept is None:
        accept = _over(rate, steps) if rate is not None else _probed_accept(result)
    if rate is None and accept is not None:
        rate = Reading(steps.value + accept.value, steps.variance + accept.variance)
    return rate, _inverse(steps), accept


def _inverse(reading: Reading) -> Reading:
    return Reading(-reading.value, reading.variance)


def _over(above: Reading, below: Reading) -> Reading:
    return Reading(above.value - below.value, above.variance + below.variance)


def _probed_accept(result: TrialResult) -> Reading | None:
    """Return the accept length of the step probe, for drafters whose caches need no warming."""
    probed = read_log(result.estimates.get("accept_length_probe"))
    if probed is None or result.config.algorithm not in CHAINS:
        return None
    return Reading(probed.value, probed.variance + PROMPT_SPREAD**2)


def _pooled(config: Config, group: Sequence[Start], launch_variance: float) -> Variant:
    accepts = [start.accept for start in group if start.accept is not None]
    return Variant(
        config,
        tuple(group),
        mean_of([start.cycle for start in group], launch_variance),
        mean_of(accepts) if accepts else None,
    )


def _launch_variance(starts: Sequence[Start]) -> float:
    groups: dict[Config, list[Reading]] = {}
    for start in starts:
        groups.setdefault(start.config, []).append(start.cycle)
    return between_starts(groups.values())[0]


def between_starts(
    groups: Iterable[Sequence[Reading]],
    spread: float = LAUNCH_SPREAD,
    weight: float = LAUNCH_WEIGHT,
) -> tuple[float, float]:
    """Estimate the variance between starts from repeats, shrunk towards what is known before.

    Each group holds the starts of one variant. The second number is how many starts that is worth.
    """
    squares, degrees = 0.0, 0
    for group in groups:
        mean = sum(r.value for r in group) / len(group)
        measuring = sum(r.variance for r in group) / len(group)
        squares += sum((r.value - mean) ** 2 for r in group) - (len(group) - 1) * measuring
        degrees += len(group) - 1
    pooled = (weight * spread**2 + squares) / (weight + degrees)
    return max(pooled, (spread / 3) ** 2), weight + degrees
