"""What the run of a sweep says of its end: a note to read, numbers, tags and files."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sweeps.naming import label
from sweeps.phrases import counted, with_interval
from sweeps.ranking import Standing
from sweeps.reporting.answer import Answer, StatedGain
from sweeps.reporting.failures import Failure
from sweeps.reporting.plain_text import plain_text
from sweeps.reporting.story import Story
from sweeps.values import Value

STORY_FILE = "review/story.md"
DATA_FILE = "review/story.json"


@dataclass(frozen=True, slots=True)
class SweepReview:
    """The end of a sweep in the form that a tracker keeps."""

    note: str
    """Markdown."""
    numbers: Mapping[str, float | None]
    tags: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)
    """Files, by their paths among the run's files."""
    winner: str = ""
    """The trial whose server is recommended; empty where none is."""
    starts: tuple[str, ...] = ()
    """All trials of the recommended variant, that one among them."""


def review_of(
    story: Story, plain: Mapping[str, Value], launch: Mapping[str, str] | None = None
) -> SweepReview:
    """Put the story of a sweep into the form of a tracker.

    `plain` is its plain decode, from which variants are named; `launch` are files that start the
    winner.
    """
    note = "\n".join(_note(story, plain))
    data = json.dumps(_data(story, plain), indent=1, allow_nan=False) + "\n"
    answer = story.answer
    return SweepReview(
        note=note,
        numbers=dict(_numbers(story)),
        tags=dict(_tags(story, answer, plain)) if answer else {},
        texts={STORY_FILE: note + "\n", DATA_FILE: data, **(launch or {})},
        winner=answer.trial if answer else "",
        starts=answer.standing.trials if answer else (),
    )


def _tags(story: Story, answer: Answer, plain: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    yield "headline", story.headline
    yield "winner", label(answer.standing.config, plain)
    starts = counted(answer.standing.starts, "start")
    yield "winner_rate", f"{story.word}{with_interval(answer.standing, story.unit)}, {starts}"
    yield "certainty", answer.certainty


def _numbers(story: Story) -> Iterator[tuple[str, float | None]]:
    answer = story.answer
    if answer is not None:
        yield from _spread("winner", answer.standing)
        yield "winner_starts", float(answer.standing.starts)
        yield "settled", float(answer.settled)
        yield "ties", float(len(answer.ties))
        for name, gain in (("gain", answer.gain), ("gain_over_baseline", answer.over_baseline)):
            if gain is not None:
                yield from _spread(name, gain)
    if story.plain is not None:
        yield from _spread("best_plain", story.plain)
    if story.ranking.baseline is not None:
        yield from _spread("baseline", story.ranking.baseline)
    if story.crossing is not None:
        yield "speculation_stops_paying_at", float(story.crossing)
    yield "closed", float(len(story.closed))
    yield "gpu_hours", story.ledger.total
    for name, hours in story.ledger.spent.items():
        yield f"gpu_hours.{name.replace(' ', '_')}", hours
    for name, hours in story.ledger.saved.items():
        yield f"gpu_hours_saved.{name.replace(' ', '_')}", hours


def _spread(name: str, told: Standing | StatedGain) -> Iterator[tuple[str, float | None]]:
    yield name, told.value
    yield f"{name}_low", told.low
    yield f"{name}_high", told.high


def _note(story: Story, plain: Mapping[str, Value]) -> Iterator[str]:
    yield f"**{plain_text(story.headline)}**"
    yield ""
    if story.gain_text:
        yield f"- Gain: {plain_text(story.gain_text)}"
    if story.answer is not None:
        yield f"- Certainty: {plain_text(story.answer.certainty)}"
        yield from (f"- {plain_text(line)}" for line in story.answer.sure)
    for role, standing in (("Baseline", story.ranking.baseline), ("Best plain", story.plain)):
        if standing is not None:
            value = with_interval(standing, story.unit)
            name = plain_text(label(standing.config, plain))
            yield f"- {role}: {story.word}{plain_text(value)} ({name})"
    if story.ties_text:
        yield f"- {plain_text(story.ties_text)}"
    for ground in story.grounds:
        yield f"- Measured on {plain_text(str(ground))}: {ground.trials} trials"
    yield f"- {plain_text(f'Ended as {story.about.status}: {story.outcomes_text}')}"
    if story.about.trouble:
        yield f"- {plain_text(story.about.trouble)}"
    yield from _loads(story, plain)
    yield from _listed("Closed for this host", [str(one) for one in story.closed])
    yield from _listed("Without effect", [str(one) for one in story.inert])
    yield from _listed("Alike", list(story.alike))
    yield from _listed("Failures", [_failure(one) for one in story.failures])
    yield from _ledger(story)
    yield from _listed("What this does not show", list(story.caveats))


def _loads(story: Story, plain: Mapping[str, Value]) -> Iterator[str]:
    if len(story.loads) < 2:
        return
    yield "\n### At each load\n"
    yield "| at a time | speculation over plain | fastest speculation |"
    yield "|---:|---:|---|"
    for load in story.loads:
        name = plain_text(label(load.speculative.config, plain) + load.remark)
        gain = f"{story.word}{load.gain:.2f} x ({plain_text(load.verdict)})"
        yield f"| {load.concurrency} | {gain} | {name} |"
    if story.crossing is not None:
        yield f"\nSpeculation stops paying at {story.crossing} at a time."


def _ledger(story: Story) -> Iterator[str]:
    book = story.ledger
    if not book.total:
        return
    yield f"\n### {book.unit}: {story.word}{book.total:.2f}\n"
    yield f"| spent on | {book.unit} |"
    yield "|---|---:|"
    yield from (f"| {plain_text(name)} | {hours:.2f} |" for name, hours in book.spent.items())
    yield from (
        f"| saved by {plain_text(name)} (estimate) | {h:.2f} |" for name, h in book.saved.items()
    )


def _listed(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"\n### {title}\n"
        yield from (f"- {plain_text(line)}" for line in lines)


def _failure(one: Failure) -> str:
    hint = f" {one.hint}" if one.hint else ""
    return f"{len(one.trials)} {one.outcome.value} ({one.signature}): {one.reason}.{hint}"


def _data(story: Story, plain: Mapping[str, Value]) -> dict[str, Any]:
    answer = story.answer
    return {
        "sweep": story.about.sweep,
        "status": story.about.status,
        "emulated": story.emulated,
        "objective": story.about.goal.metric,
        "unit": story.unit,
        "headline": story.headline,
        "winner": _variant(answer.standing, plain) if answer else None,
        "certainty": answer.certainty if answer else None,
        "settled": answer.settled if answer else False,
        "sure": list(answer.sure) if answer else [],
        "ties": [_variant(tie, plain) for tie in answer.ties] if answer else [],
        "gain": _gain(answer.gain, plain) if answer and answer.gain else None,
        "baseline": _variant(story.ranking.baseline, plain),
        "best_plain": _variant(story.plain, plain),
        "loads": [
            {"concurrency": load.concurrency, "gain": load.gain, "verdict": load.verdict,
             "speculative": _variant(load.speculative, plain)}
            for load in story.loads
        ],
        "stops_paying_at": story.crossing,
        "closed": [str(one) for one in story.closed],
        "inert": [str(one) for one in story.inert],
        "alike": list(story.alike),
        "failures": [_failure(one) for one in story.failures],
        "ledger": story.ledger.as_data(),
        "caveats": list(story.caveats),
    }  # fmt: skip


def _variant(told: Standing | None, plain: Mapping[str, Value]) -> dict[str, Any] | None:
    if told is None:
        return None
    return {
        "name": label(told.config, plain), "config": dict(told.config), "value": told.value,
        "low": told.low, "high": told.high, "trials": list(told.trials), "used": list(told.used),
    }  # fmt: skip


def _gain(gain: StatedGain, plain: Mapping[str, Value]) -> dict[str, Any]:
    return {
        "over": label(gain.over, plain), "value": gain.value, "low": gain.low, "high": gain.high,
        "how": gain.how, "trials": list(gain.trials),
    }  # fmt: skip
