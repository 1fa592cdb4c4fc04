"""What a server made of its settings: overridden values, axes without effect, notes on a trial."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sweeps.buckets import BUCKETS
from sweeps.conclusions import Relation, relation
from sweeps.metrics import length_name, loaded_name
from sweeps.phrases import figure, listed
from sweeps.pins import CAPACITY
from sweeps.results import Estimate, TrialResult
from sweeps.values import Value, show
from sweeps.workloads import Workload

INACTIVE_BELOW = 1.05
"""Accept length under which speculation does next to nothing."""

LEFT_TO_THE_SERVER = (None, "auto")
"""Requests that leave the value to the server."""

_SAME_FRACTION = 1e-5
"""A float travels through a command line with six digits."""
_NUMERAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_TRUTHS = {"true": 1, "false": 0}
_ALIASES: dict[str, dict[Value, Value]] = {"speculative_algorithm": {"NEXTN": "EAGLE"}}
_RATE = "decode_tok_s"
_STREAM_RATE = "stream_tok_s"


def same_meaning(one: Value, other: Value) -> bool:
    """Compare values by meaning: 1, "1", "true" and True are the same, and so is 0.88 to 0.880001.

    Text is compared with its case: NCCL does not know the level `phb`.
    """
    mine, others = meaning(one), meaning(other)
    if not isinstance(mine, int | float) or not isinstance(others, int | float):
        return mine == others
    exact = isinstance(mine, int) and isinstance(others, int)
    return mine == others if exact else math.isclose(mine, others, rel_tol=_SAME_FRACTION)


def meaning(value: Value) -> int | float | str | None:
    """Return what a value stands for: a number for a truth value and for a numeral in text."""
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str):
        return value
    text = value.strip()
    if _NUMERAL.fullmatch(text):
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    return _TRUTHS.get(text.lower(), text)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A setting that the server runs with another value than it was given."""

    name: str
    requested: Value
    effective: Value
    source: str = ""
    """Who says so; empty where that is not on record."""

    def __str__(self) -> str:
        return f"{self.name} is {show(self.effective)} and not {show(self.requested)} as requested"


def mismatches(
    requested: Mapping[str, Value],
    effective: Mapping[str, Value],
    sources: Mapping[str, str] | None = None,
) -> tuple[Mismatch, ...]:
    """List what differs in meaning. What was left to the server cannot differ."""
    told = sources or {}
    return tuple(
        Mismatch(name, value, effective[name], told.get(name, ""))
        for name, value in requested.items()
        if value not in LEFT_TO_THE_SERVER
        and name in effective
        and not _agree(name, value, effective[name])
    )


def server_choices(
    requested: Mapping[str, Value], effective: Mapping[str, Value]
) -> dict[str, Value]:
    """Return the values that the server chose where nothing was requested."""
    return {
        name: value
        for name, value in effective.items()
        if value not in LEFT_TO_THE_SERVER and requested.get(name) in LEFT_TO_THE_SERVER
    }


def _agree(name: str, requested: Value, effective: Value) -> bool:
    if name.endswith("_path"):
        return True  # a server resolves a path or a name on the hub to a place of its own
    alias = _ALIASES.get(name, {})
    return same_meaning(alias.get(requested, requested), alias.get(effective, effective))


class Reason(StrEnum):
    """Why an axis, or a part of it, changes nothing."""

    OVERRIDDEN = "overridden"
    """The server puts another value in the place of at least one."""
    DEFAULT = "the server takes this value by itself"
    INERT = "nothing on this host depends on it"


@dataclass(frozen=True, slots=True)
class NoEffect:
    """Values of an axis that cannot be told apart on a host."""

    axis: str
    values: tuple[Value, ...]
    effective: Value
    reason: Reason
    host: str = ""
    whole: bool = True
    """These are all the values that were tried."""

    def __str__(self) -> str:
        here = f" on {self.host}" if self.host else ""
        among = "" if self.whole else " of these values"
        values = listed([show(value) for value in self.values])
        text = f"{self.axis}: no effect{among}{here}: {self.reason.value}"
        if self.reason is Reason.INERT:
            return f"{text} ({values})"
        return f"{text}; {values} all run as {show(self.effective)}"


def without_effect(results: Sequence[TrialResult]) -> tuple[NoEffect, ...]:
    """Find the axes whose requested values differ and whose effective values never did."""
    found: list[NoEffect] = []
    for host, group in _by_host(results).items():
        for axis in dict.fromkeys(name for result in group for name in result.config):
            found += _on_host(host, axis, group)
    return tuple(found)


def _by_host(results: Sequence[TrialResult]) -> dict[str, list[TrialResult]]:
    """Group by host; another version on the same host is another server."""
    groups: dict[tuple[str, str], list[TrialResult]] = {}
    for result in results:
        groups.setdefault((result.host, result.engine_version), []).append(result)
    return {host: group for (host, _), group in groups.items()}


def _on_host(host: str, axis: str, group: Sequence[TrialResult]) -> Iterator[NoEffect]:
    ended_as: list[tuple[Value, list[Value]]] = []
    for result in group:
        if axis in result.config and axis in result.effective:
            _put(ended_as, result.config[axis], result.effective[axis])
    for effective, values in _merged(ended_as):
        if len(values) < 2:
            continue
        asked = [value for value in values if value not in LEFT_TO_THE_SERVER]
        kept = all(_agree(axis, value, effective) for value in asked)
        reason = Reason.DEFAULT if kept else Reason.OVERRIDDEN
        whole = len(values) == len(ended_as)
        yield NoEffect(axis, tuple(values), effective, reason, host, whole)


def _put(table: list[tuple[Value, list[Value]]], key: Value, value: Value) -> None:
    for known, values in table:
        if same_meaning(known, key):
            values.append(value)
            return
    table.append((key, [value]))


def _merged(ended_as: Sequence[tuple[Value, list[Value]]]) -> list[tuple[Value, list[Value]]]:
    """Put values together that always ended as the same one."""
    groups: list[tuple[Value, list[Value]]] = []
    for requested, effective in ended_as:
        if all(same_meaning(value, effective[0]) for value in effective):
            _put(groups, effective[0], requested)
    return groups


class Mark(StrEnum):
    """What a note is about, as a tag."""

    EFFECTIVE_MISMATCH = "effective_mismatch"
    SPECULATION_INACTIVE = "speculation_inactive"
    QUEUE_BOUND = "queue_bound"
    CAPACITY_DIFFERS = "capacity_differs"
    SLOWER = "slower_than_plain"
    SLOWER_SOMEWHERE = "slower_at_a_prompt_length"


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a reader of a trial's figures must know."""

    mark: Mark
    text: str


def notes_of(
    result: TrialResult, baseline: TrialResult | None, workload: Workload
) -> tuple[str, ...]:
    """Return what a reader must know of a trial, as phrases; see `marked_notes`."""
    return tuple(note.text for note in marked_notes(result, baseline, workload))


def marked_notes(
    result: TrialResult, baseline: TrialResult | None, workload: Workload
) -> tuple[Note, ...]:
    """Return the notes on a trial. `baseline` is plain decode on the same host, if measured."""
    notes = [*_of_settings(result), *_of_speculation(result), *_of_queueing(result, workload)]
    plain = baseline is None or result.config.is_plain or baseline.host != result.host
    if baseline is not None and not plain:
        notes += _of_capacity(result, baseline)
        notes += _of_speed(result, baseline, workload)
    return tuple(notes)


def _of_settings(result: TrialResult) -> Iterator[Note]:
    requested = result.requested or dict(result.config)
    for mismatch in mismatches(requested, result.effective):
        yield Note(Mark.EFFECTIVE_MISMATCH, str(mismatch))


def _of_speculation(result: TrialResult) -> Iterator[Note]:
    if result.config.is_plain:
        return
    length = result.value("accept_length")
    length = result.log_accept_length if length is None else length
    if length is not None and length < INACTIVE_BELOW:
        text = f"speculation is inactive: an accept length of {length:.2f} with"
        yield Note(Mark.SPECULATION_INACTIVE, f"{text} {result.config.algorithm}")


def _of_queueing(result: TrialResult, workload: Workload) -> Iterator[Note]:
    limit = result.effective.get("max_running_requests")
    most = max((workload.concurrency, *workload.concurrencies))
    if type(limit) is int and most > limit:
        text = f"queue-bound: {most} requests at a time, and the server runs at most {limit}"
        yield Note(Mark.QUEUE_BOUND, f"{text} (max_running_requests)")


def _of_capacity(result: TrialResult, baseline: TrialResult) -> Iterator[Note]:
    """Name what differs from plain decode although nobody swept it."""
    swept = result.config.keys()
    both = [n for n in CAPACITY if n in result.effective and n in baseline.effective]
    others = [
        f"{name} {show(result.effective[name])} against {show(baseline.effective[name])}"
        for name in both
        if name not in swept and not same_meaning(result.effective[name], baseline.effective[name])
    ]
    if others:
        yield Note(Mark.CAPACITY_DIFFERS, f"not like for like with plain decode: {listed(others)}")


def _of_speed(result: TrialResult, baseline: TrialResult, workload: Workload) -> Iterator[Note]:
    if not (result.outcome.has_rate and baseline.may_lead):
        return
    loads = {_RATE: ""}
    loads |= {loaded_name(_RATE, c): f" at {c} at a time" for c in workload.concurrencies}
    for name, where in loads.items():
        if text := _slower(result.estimates.get(name), baseline.estimates.get(name), where):
            yield Note(Mark.SLOWER, text)
    for bucket in BUCKETS:
        name = length_name(_STREAM_RATE, bucket)
        where = f" on prompts {bucket.replace('_', ' ')} tokens"
        if text := _slower(result.estimates.get(name), baseline.estimates.get(name), where):
            yield Note(Mark.SLOWER_SOMEWHERE, text)


def _slower(mine: Estimate | None, plain: Estimate | None, where: str) -> str:
    """Say by how much, where the intervals show it; empty otherwise."""
    if mine is None or plain is None or relation(mine, plain) is not Relation.SLOWER:
        return ""
    share = f"{1 - mine.value / plain.value:.0%}".replace("%", " %")
    rates = f"{figure(mine.value)} against {figure(plain.value, 'tok/s')}"
    return f"{share} slower than plain decode{where}: {rates}"
