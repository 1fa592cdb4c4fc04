"""What a tracked run says: its name, settings, tags and numbers, as plain text and floats."""

import math
import shlex
from collections.abc import Mapping
from datetime import datetime

from orchestrator.tracking.review import SweepReview
from orchestrator.tracking.seam import Sample, SweepCard, TrialCard
from sweeps.config import Config
from sweeps.naming import label, shown_values
from sweeps.reporting.plain_text import plain_text
from sweeps.results import Outcome, TrialResult
from sweeps.values import Value, show

EMULATED = "emulated"
EMULATED_NOTE = (
    "This run is **emulated**: no model and no GPU took part, and its numbers are those of a "
    "simulated host. They say nothing about a real one."
)

RUN_STATUS: dict[Outcome, str] = {
    Outcome.MEASURED: "FINISHED",
    Outcome.PARTIAL: "FINISHED",
    Outcome.STOPPED: "KILLED",
    Outcome.CANCELLED: "KILLED",
    Outcome.INFEASIBLE: "FAILED",
    Outcome.HUNG: "FAILED",
    Outcome.FAILED: "FAILED",
}
"""A run's status, in MLflow's words, by how the trial ended."""

_SWEEP_STATUS = {"finished": "FINISHED", "completed": "FINISHED", "failed": "FAILED"}
_NAME_CHARS = 120


def sweep_status(status: str) -> str:
    """Return the status of a sweep's run in MLflow's words; any other word means stopped."""
    return _SWEEP_STATUS.get(status.lower(), "KILLED")


def trial_name(card: TrialCard) -> str:
    """Name a trial's run by its variant and number, as `EMULATED ngram n4 · LL #12`."""
    word = f"{EMULATED.upper()} " if card.emulated else ""
    return cut(f"{word}{card.name or label(card.config, {})}", _NAME_CHARS) + f" #{card.number}"


def sweep_name(card: SweepCard) -> str:
    """Name a sweep's run."""
    return f"{EMULATED.upper()} {card.name}" if card.emulated else card.name


def trial_card(
    sweep: SweepCard, trial: str, number: int, config: Config, purpose: str, *, emulated: bool
) -> TrialCard:
    """Return the card of a trial of a sweep."""
    shown = shown_values(config, sweep.axes)
    absent = {name: value for name, value in shown if name not in config}
    name = label(config, sweep.plain)
    return TrialCard(trial, sweep.sweep, number, config, purpose, emulated, name, absent)


def card_of(result: TrialResult, sweep: SweepCard | None = None) -> TrialCard:
    """Return the card that the trial of a result started with."""
    return trial_card(
        sweep or SweepCard(result.sweep, "", result.emulated), result.trial, result.number,
        result.config, result.purpose, emulated=result.emulated,
    )  # fmt: skip


def started_ms(result: TrialResult) -> int | None:
    """Return when a trial started, in milliseconds since 1970; None where that cannot be read."""
    try:
        return int(datetime.fromisoformat(result.started_at).timestamp() * 1000)
    except ValueError:
        return None


def cut(text: str, length_chars: int) -> str:
    """Shorten text to a length; the last character then is an ellipsis."""
    return text if len(text) <= length_chars else text[: length_chars - 1] + "…"


def exact(value: Value) -> str:
    """Write a value so that it can be told from every other: floats with all their digits."""
    return repr(value) if isinstance(value, float) else show(value)


def requested(card: TrialCard) -> dict[str, str]:
    """Return the settings that were asked for, one for each axis of the sweep."""
    values = {**dict(shown_values(card.config, {})), **card.absent}
    return {f"config.{name}": exact(value) for name, value in values.items()}


def effective(result: TrialResult) -> dict[str, str]:
    """Return the settings that the server said it runs with."""
    return {f"effective.{name}": exact(value) for name, value in result.effective.items()}


def command(result: TrialResult) -> dict[str, str]:
    """Return the command line that started the server; nothing where it was not started.

    It is a tag: among the parameters it would be the first that a comparison draws.
    """
    return {"command": shlex.join(result.argv)} if result.argv else {}


def result_text(result: TrialResult, objective: str) -> str:
    """Say in a few words how a trial ended: its rate, its bound, or what went wrong."""
    word = f" {EMULATED.upper()}" if result.emulated else ""
    rate = result.estimates.get(objective)
    if result.outcome is Outcome.STOPPED and result.bound is not None:
        return f"at most {result.bound:.1f}{word}"
    if rate is None or not result.outcome.has_rate:
        return cut(f"{result.outcome.value}: {result.signature or result.reason}", _NAME_CHARS)
    if rate.low is None or rate.high is None:
        return f"{rate.value:.1f}{word}"
    sign = "~" if rate.provisional else "±"
    return f"{rate.value:.1f} {sign}{(rate.high - rate.low) / 2:.1f}{word}"


def result_note(result: TrialResult) -> str:
    """Say in Markdown what a person must know of a trial before its numbers."""
    lines = [
        f"**{result.outcome.value}**" + (f": {plain_text(result.reason)}" if result.reason else "")
    ]
    if result.quality_note:
        lines.append(f"Text: {plain_text(result.quality_note)}")
    lines += [f"- {plain_text(note)}" for note in result.notes]
    return "\n\n".join([*([EMULATED_NOTE] if result.emulated else []), *lines])


def sweep_tags(card: SweepCard) -> dict[str, str]:
    """Return the tags of a sweep's run."""
    note = {"mlflow.note.content": EMULATED_NOTE} if card.emulated else {}
    return {
        **card.tags,
        **note,
        "sweep": card.sweep,
        "kind": "sweep",
        "emulated": show_truth(card.emulated),
        "objective": card.objective,
        "higher_is_better": show_truth(card.higher_is_better),
    }


def trial_tags(card: TrialCard) -> dict[str, str]:
    """Return the tags of a trial's run that are known as it starts."""
    note = {"mlflow.note.content": EMULATED_NOTE} if card.emulated else {}
    return {
        **note,
        "kind": "trial",
        "trial": card.trial,
        "sweep": card.sweep,
        "number": str(card.number),
        "variant": card.config.variant,
        "algorithm": card.config.algorithm or "plain",
        "purpose": card.purpose,
        "emulated": show_truth(card.emulated),
    }


def result_tags(result: TrialResult, objective: str) -> dict[str, str]:
    """Return the tags that the end of a trial brings."""
    return {
        "mlflow.note.content": result_note(result),
        "result": result_text(result, objective),
        "outcome": result.outcome.value,
        "quality": result.quality.value,
        "reason": result.reason,
        "phase": result.phase.value,
        "host": result.host,
        "engine_version": result.engine_version,
        "started_at": result.started_at,
        **({} if result.retry_of is None else {"retry_of": str(result.retry_of)}),
    }


WINNER_TAG, WINNER = "winner", "★"
"""On the runs of the recommended variant, and on no other."""
WINNER_RATE_TAG = "winner_rate"
"""What that variant reached over its starts: on those runs, and on the sweep's own."""


def review_tags(review: SweepReview, *, emulated: bool) -> dict[str, str]:
    """Return the tags that the end of a sweep brings."""
    note = f"{EMULATED_NOTE}\n\n{review.note}" if emulated else review.note
    return {**review.tags, "mlflow.note.content": note}


def result_metrics(result: TrialResult) -> dict[str, float | None]:
    """Return the final numbers; an interval's ends stand beside its value."""
    found: dict[str, float | None] = {
        "gpu_hours": result.gpu_hours,
        "bound": result.bound,
        "log_accept_length": result.log_accept_length,
    }
    for phase, duration_s in result.phase_s.items():
        found[f"phase_s.{phase.replace(' ', '_')}"] = duration_s
    for name, estimate in result.estimates.items():
        found[name] = estimate.value
        found[f"{name}_low"] = estimate.low
        found[f"{name}_high"] = estimate.high
    return found


def sample_metrics(sample: Sample) -> dict[str, float | None]:
    """Return a sample's numbers. `_so_far` keeps the series apart from final numbers."""
    return {
        "tok_s_so_far": sample.tok_s,
        "tok_s_so_far_low": sample.low,
        "tok_s_so_far_high": sample.high,
        "accept_length_so_far": sample.accept_length,
        "steps_per_s_so_far": sample.steps_per_s,
        # From the measured pass on: MLflow compares by what came first, and that is not the tokens.
        "tokens_so_far": None if sample.tok_s is None else sample.tokens,
    }


def finite(numbers: Mapping[str, float | None]) -> dict[str, float]:
    """Drop what is not known, not a number or infinite: a store would change it silently."""
    return {
        name: float(number)
        for name, number in numbers.items()
        if number is not None and math.isfinite(number)
    }


def not_finite(numbers: Mapping[str, float | None]) -> str:
    """Say which numbers are missing because they are none, as `bound=inf, tpot_s=nan`."""
    odd = {n: x for n, x in numbers.items() if x is not None and not math.isfinite(x)}
    return ", ".join(f"{name}={number}" for name, number in sorted(odd.items()))


def show_truth(value: bool) -> str:
    """Write a boolean as MLflow's own tags do."""
    return "true" if value else "false"
