"""How the status of a sweep is put in words and rows; nothing that draws is imported."""

from collections.abc import Iterator

from orchestrator.watching.sweep_status import EndedTrial, RunningTrial, SweepStatus
from sweeps.results import Outcome


def title(seen: SweepStatus) -> str:
    """Name the sweep, and first of all whether it is emulated."""
    where = f" on {', '.join(seen.hosts)}" if seen.hosts else ""
    return f"{seen.word}sweep {seen.sweep}{where}: {seen.status}"


def number_text(value: float | None, low: float | None, high: float | None, sign: str = "±") -> str:
    """Write a number with half the width of its interval; empty where it is not known."""
    if value is None:
        return ""
    if low is None or high is None:
        return f"{value:.1f}"
    return f"{value:.1f} {sign}{(high - low) / 2:.1f}"


def value_text(one: EndedTrial, unit: str) -> str:
    """Write what a trial reached, or could reach at most."""
    sign = "~" if one.provisional else "±"
    text = number_text(one.value, one.low, one.high, sign)
    bound = f"at most {one.bound:.1f}" if one.bound is not None else ""
    if one.outcome == Outcome.STOPPED and bound:
        return f"{bound} {unit}"
    return f"{text} {unit}" if text else ""


def phase_text(one: RunningTrial) -> str:
    """Say what a trial is at, and for how long it has been silent if that is long."""
    detail = f": {one.detail}" if one.detail else ""
    return f"{one.phase}{detail}, {one.elapsed_s:.0f} s"


def rate_text(one: RunningTrial) -> str:
    """Write the rate of a running trial so far, once there is one."""
    text = number_text(one.tok_s, one.low, one.high)
    return f"{text} tok/s" if text else ""


def length_text(length: float | None) -> str:
    """Write an accept length, once there is one."""
    return "" if length is None else f"{length:.2f}"


def sum_text(seen: SweepStatus) -> str:
    """Write on a line where the sweep stands."""
    planned = f"/{seen.planned}" if seen.planned is not None else ""
    parts = [f"{seen.done}{planned} trials"]
    first = "leader" if seen.is_running else "best"
    for role, one in ((first, seen.leader), ("plain", seen.plain)):
        if one is not None:
            parts.append(f"{role} {value_text(one, seen.unit)} ({one.name})")
    if seen.certainty:
        parts.append(seen.certainty)
    parts.append(f"{seen.gpu_hours:.2f} {seen.hours_unit}")
    if seen.left_s is not None and seen.is_running:
        parts.append(f"about {duration_text(seen.left_s)} left")
    return " · ".join(parts)


def duration_text(span_s: float) -> str:
    """Write a span of time so that a person can plan by it."""
    if span_s < 120:
        return f"{span_s:.0f} s"
    return f"{span_s / 60:.0f} min" if span_s < 7200 else f"{span_s / 3600:.1f} h"


def ledger_text(seen: SweepStatus) -> str:
    """Say where the GPU-hours went; empty before any were spent."""
    spent = ", ".join(f"{name} {hours:.2f}" for name, hours in seen.spent_gpu_hours.items())
    saved = ", ".join(f"{name} {hours:.2f}" for name, hours in seen.saved_gpu_hours.items())
    return spent + (f"; saved, by estimate: {saved}" if saved else "")


def news(before: SweepStatus | None, now: SweepStatus) -> Iterator[str]:
    """Say in lines what has changed between two looks; all of it at the first."""
    if before is None or before.status != now.status:
        yield title(now)
    known = {one.trial: one for one in before.ended} if before else {}
    for ended in now.ended:
        if ended.trial not in known:
            yield _end_line(ended, now.unit)
    phases = {one.trial: (one.phase, one.detail) for one in before.running} if before else {}
    for one in now.running:
        if phases.get(one.trial) != (one.phase, one.detail):
            yield _running_line(one)
    for warning in now.warnings:
        if before is None or warning not in before.warnings:
            yield warning
    if before is None or before.done != now.done:
        yield f"          {now.word}{sum_text(now)}"


def _end_line(one: EndedTrial, unit: str) -> str:
    parts = [f"trial {one.number:3d} {one.outcome}: {one.name}", value_text(one, unit)]
    if one.accept_length is not None:
        parts.append(f"accept length {one.accept_length:.2f}")
    return "  ".join(filter(None, [*parts, one.reason]))


def _running_line(one: RunningTrial) -> str:
    parts = [f"trial {one.number:3d} {phase_text(one)}: {one.name}", rate_text(one)]
    return "  ".join(filter(None, [*parts, f"({one.why or one.purpose})"]))
