"""A trial explained in words: what ran, what was measured and what was not, and what follows."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sweeps.conclusions import may_conclude, may_not_conclude
from sweeps.evidence import Evidence, RequestEnd
from sweeps.factors import Factors, cross_check
from sweeps.metrics import METRICS, Of, metric_named
from sweeps.phrases import counted, figure, listed, number_word, sentence, with_interval
from sweeps.records import EndReason
from sweeps.results import Estimate, Outcome, Phase
from sweeps.values import Value, show

_DERIVED = ("break_even", "speed_up")
"""Told with the factors, against the best plain decode of the whole sweep."""


@dataclass(frozen=True, slots=True)
class Section:
    """Sentences under a title."""

    title: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a person should know before they quote a number of a trial."""

    trial: str
    headline: str
    emulated: bool
    sections: tuple[Section, ...]
    factors: Factors | None

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {
            "trial": self.trial,
            "emulated": self.emulated,
            "headline": self.headline,
            "factors": self.factors.as_data() if self.factors else None,
            "sections": [
                {"title": s.title, "paragraphs": list(s.paragraphs)} for s in self.sections
            ],
        }


def explain(evidence: Evidence) -> Explanation:
    """Explain a trial that has ended. Pure: equal evidence, equal words."""
    sections = [Section(title, tuple(part(evidence))) for title, part in _PARTS.items()]
    return Explanation(
        trial=evidence.result.trial,
        headline=headline(evidence),
        emulated=evidence.result.emulated,
        sections=tuple(s for s in sections if s.paragraphs),
        factors=evidence.factors,
    )


def headline(evidence: Evidence) -> str:
    """Say in a line what ran, how it ended and at which rate."""
    result, rate = evidence.result, evidence.rate
    text = f"{evidence.word}trial {result.trial}: {_name(evidence)}, {result.outcome.value}"
    if evidence.is_broken:
        text += ", its output BROKEN"
    if rate is None or not (result.outcome.has_rate or result.outcome is Outcome.STOPPED):
        return text
    so_far = "" if result.outcome is Outcome.MEASURED else " so far"
    return f"{text}, {with_interval(rate, 'tok/s')}{so_far}"


def _name(evidence: Evidence) -> str:
    config = evidence.result.config
    tokens = config.get("speculative_num_draft_tokens")
    name = config.algorithm or "plain decode"
    return name if tokens is None else f"{name} with {show(tokens)} draft tokens"


def _what_ran(evidence: Evidence) -> Iterator[str]:
    result = evidence.result
    host = f"the EMULATED host {result.host}, without a GPU," if result.emulated else result.host
    yield f"{_name(evidence)} on {host} with SGLang {result.engine_version}, {_why(evidence)}."
    changed = _differences(evidence)
    if changed:
        yield f"It differs from plain decode with all defaults by {listed(changed)}."
    elif evidence.baseline is not None:
        yield "Every setting of the space was at its default."
    yield from _effects(evidence)
    for name, flag in evidence.renamed.items():
        yield f"{name} became {flag} in this version."


def _why(evidence: Evidence) -> str:
    match evidence.result.purpose:
        case "baseline":
            return "as the baseline"
        case "confirm":
            return "to confirm the leader on a fresh start"
        case _:
            return "for the search"


def _differences(evidence: Evidence) -> list[str]:
    base: dict[str, Value] = dict(evidence.baseline or {})
    return [
        f"{name}={show(value)}"
        for name, value in evidence.result.config.items()
        if base.get(name) != value
    ]


def _effects(evidence: Evidence) -> Iterator[str]:
    result = evidence.result
    others = [
        f"{name} is {show(result.effective[name])} and not {show(value)}"
        for name, value in result.config.items()
        if value is not None and name in result.effective and result.effective[name] != value
    ]
    if others:
        yield f"By its own account the server runs with other settings: {listed(others)}."
    elif result.effective:
        yield "By its own account the server took its flags as they were given."


def _the_time(evidence: Evidence) -> Iterator[str]:
    result = evidence.result
    total_s = sum(result.phase_s.values())
    if total_s <= 0:
        return
    unit = evidence.hours_unit
    parts = [
        f"{name} {figure(spent_s, 's')} ({figure(result.gpu_hours * spent_s / total_s)} {unit})"
        for name, spent_s in result.phase_s.items()
        if spent_s >= 0.005 * total_s
    ]
    word = " EMULATED" if result.emulated else ""
    yield (
        f"{figure(total_s, 's')} of the host, {figure(result.gpu_hours)}{word} {unit}:"
        f" {listed(parts)}."
    )


def _measured(evidence: Evidence) -> Iterator[str]:
    yield from _received(evidence)
    for name, estimate in evidence.result.estimates.items():
        if name in _DERIVED and evidence.factors is not None:
            continue
        metric = metric_named(name)
        text = f"{name}: {with_interval(estimate, metric.unit if metric else '')}"
        text += f"; {metric.description}" if metric else ""
        text += f". From {figure(estimate.duration_s, 's')}, {estimate.method}."
        yield text + (" Provisional." if estimate.provisional else "")


def _received(evidence: Evidence) -> Iterator[str]:
    for phase in Phase:
        requests = evidence.requests_of(phase)
        if not requests:
            continue
        tokens = sum(r.output_tokens for r in requests)
        ends = [_ended(end, group) for end, group in _by_end(requests).items()]
        yield (
            f"{sentence(phase.value)[:-1]}: {tokens:,} tokens were received from"
            f" {counted(len(requests), 'request')}: {listed(ends)}."
        )


def _by_end(requests: list[RequestEnd]) -> dict[EndReason, list[RequestEnd]]:
    groups: dict[EndReason, list[RequestEnd]] = {}
    for request in requests:
        groups.setdefault(request.end, []).append(request)
    return groups


def _ended(end: EndReason, group: list[RequestEnd]) -> str:
    number, tokens = len(group), sum(r.output_tokens for r in group)
    many = number_word(number)
    match end:
        case EndReason.FINISHED:
            return f"{many} ran to the end"
        case EndReason.DEADLINE:
            return f"{many} met the deadline after {tokens:,} tokens"
        case EndReason.CANCELLED:
            return f"{many} ended with the trial after {tokens:,} tokens"
        case EndReason.SILENT:
            return f"{many} fell silent after {tokens:,} tokens"
        case EndReason.BROKEN:
            details = Counter(r.detail for r in group if r.detail)
            why = f" ({details.most_common(1)[0][0]})" if details else ""
            return f"{many} broke after {tokens:,} tokens{why}"


def _unmeasured(evidence: Evidence) -> Iterator[str]:
    result = evidence.result
    phases = list(Phase)
    # Not every workload has the passes after the measured one.
    later = phases[phases.index(result.phase) + 1 : phases.index(Phase.MEASURING) + 1]
    if later and result.outcome is not Outcome.MEASURED:
        yield f"The trial did not get to: {listed([phase.value for phase in later])}."
    sent = len(evidence.requests_of(Phase.MEASURING))
    if evidence.prompts and 0 < sent < evidence.prompts:
        left = evidence.prompts - sent
        verb = "was" if left == 1 else "were"
        yield f"Of {counted(evidence.prompts, 'prompt')}, {number_word(left)} {verb} never sent."
    told = _DERIVED if evidence.factors else ()
    asked = [n for n in METRICS if not n.endswith(Of.OPEN) or evidence.requests_of(Phase.OPEN_LOOP)]
    missing = [name for name in asked if name not in result.estimates and name not in told]
    if missing:
        yield f"No value of {listed(missing)}."
    if evidence.rate is not None and "accept_length" in missing:
        yield (
            "A server tells its verify steps only at the end of a request, and none that counts"
            " has ended: accept length and cycle are unknown."
        )


def _the_rate(evidence: Evidence) -> Iterator[str]:
    found = evidence.result.estimates
    length, steps, cycle = (found.get(n) for n in ("accept_length", "steps_per_s", "cycle_ms"))
    if length is None or steps is None or cycle is None:
        return
    if evidence.result.config.is_plain:
        yield from _the_plain_step(evidence, cycle)
        return
    yield (
        f"tok/s of a stream = accept length x steps/s: {figure(length.value)} x"
        f" {figure(steps.value)} = {figure(length.value * steps.value)}."
        f" One cycle of draft and verify takes {figure(cycle.value, 'ms')}."
    )
    yield from _agreement(evidence)
    factors = evidence.factors
    if factors is None:
        yield "No plain decode was measured on this host, so the break-even is unknown."
        return
    yield (
        f"Break-even is an accept length of {with_interval(factors.break_even)}:"
        f" {figure(cycle.value)} ms a cycle over {figure(factors.plain_step_ms.value)} ms a step"
        " of the best plain decode. It would need that to be as fast."
        f" It has {figure(length.value)}: {with_interval(factors.speed_up)} x plain decode."
    )


def _the_plain_step(evidence: Evidence, step: Estimate) -> Iterator[str]:
    yield f"Plain decode makes one token a step; a step takes {figure(step.value, 'ms')}."
    best = evidence.plain_step
    if best is not None and best.variant != evidence.result.config.variant:
        yield f"The fastest plain decode of the sweep takes {figure(best.value, 'ms')} a step."


def _agreement(evidence: Evidence) -> Iterator[str]:
    """Say where the rate and its factors do not fit, where the load on record allows a check."""
    streams = evidence.streams
    check = cross_check(evidence.result.estimates, streams=streams) if streams else None
    if check is None or check.agrees:
        return
    gap = f"{abs(check.gap_fraction):.1%}".replace("%", " %")
    cut = [r for r in evidence.requests_of(Phase.MEASURING) if r.end is not EndReason.FINISHED]
    if cut or evidence.result.outcome is not Outcome.MEASURED:
        yield f"That is {gap} off the rate: requests that were cut off do not tell all their steps."
    else:
        yield f"SUSPECT: that is {gap} off the rate, and the three should agree within 2 %."


def _the_text(evidence: Evidence) -> Iterator[str]:
    quality = evidence.quality
    if quality is None or evidence.result.config.is_plain:
        return
    yield f"{sentence(quality.verdict.value.replace('_', ' '))[:-1]}: {quality.reason}."


def _the_end(evidence: Evidence) -> Iterator[str]:
    result = evidence.result
    yield f"{sentence(result.outcome.value)} {_MEANING[result.outcome]}"
    if result.reason:
        yield sentence(f"The reason: {result.reason}")
    yield from (sentence(f"Note: {note}") for note in result.notes)


_MEANING = {
    Outcome.MEASURED: "It measured for as long as it was meant to.",
    Outcome.PARTIAL: "A deadline came first. It made the measurement shorter, not wrong.",
    Outcome.STOPPED: "It was ended early as surely worse than the leader; the bound is kept and"
    " the rate is not ranked.",
    Outcome.INFEASIBLE: "The configuration itself cannot run; the search learns that.",
    Outcome.HUNG: "No sign of life came for longer than its deadline allows.",
    Outcome.FAILED: "The host, a port or the platform failed; the search learns nothing from it.",
    Outcome.CANCELLED: "Somebody ended it; the search learns nothing from it.",
}

_PARTS: dict[str, Callable[[Evidence], Iterator[str]]] = {
    "What ran": _what_ran,
    "How it ended": _the_end,
    "Where the time went": _the_time,
    "What was measured": _measured,
    "What was not measured": _unmeasured,
    "Where the rate comes from": _the_rate,
    "Whether it writes the same": _the_text,
    "What may be concluded": may_conclude,
    "What may not be concluded": may_not_conclude,
}
