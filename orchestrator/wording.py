"""How sweeps, configurations and results are put in words; nothing that draws is imported."""

from orchestrator.events import SweepStart, Tally
from orchestrator.job import TrialProgress
from sweeps.results import Estimate, Outcome, TrialResult


def headline(start: SweepStart) -> str:
    """Say what runs, and first of all whether it is emulated."""
    sweep = start.sweep
    where = ", ".join(host.name for host in sweep.hosts)
    if start.emulated:
        scale = max(host.clock_scale for host in sweep.hosts)
        where += f": EMULATED, no GPU is used, {scale:g} x faster than life"
    text = f"sweep {start.sweep_id} on {where}; {sweep.budget.trials} trials"
    text += f", {start.done_trials} of them done before" if start.done_trials else ""
    return f"{text}; {start.store}" if start.store else text


def rate_text(result: TrialResult) -> str:
    """Write the rate of a trial with its interval, or the bound that stopped it."""
    rate = result.estimates.get("decode_tok_s")
    if rate is None:
        return ""
    if result.outcome is Outcome.STOPPED and result.bound is not None:
        return f"{rate.value:.1f} tok/s, at most {result.bound:.1f}"
    return f"{rate.value:.1f} tok/s{_interval(rate)}"


def accept_text(result: TrialResult) -> str:
    """Write the accept length of a trial."""
    length = result.value("accept_length")
    return "" if length is None else f"{length:.2f}"


def phase_text(progress: TrialProgress) -> str:
    """Say what a trial is at, and within its start at what."""
    detail = f": {progress.detail}" if progress.detail else ""
    return f"{progress.phase.value}{detail}"


def progress_text(progress: TrialProgress | None) -> str:
    """Write the rate of a running trial so far, once there is one."""
    if progress is None or progress.tok_s is None:
        return ""
    if progress.low is None or progress.high is None:
        return f"{progress.tok_s:.1f} tok/s"
    return f"{progress.tok_s:.1f} tok/s ±{(progress.high - progress.low) / 2:.1f}"


def length_so_far(progress: TrialProgress | None) -> str:
    """Write the accept length of a running trial so far, once there is one."""
    length = progress.accept_length if progress else None
    return "" if length is None else f"{length:.2f}"


def tally_text(tally: Tally | None) -> str:
    """Write where the sweep stands."""
    if tally is None:
        return ""
    parts = [f"{tally.trials_done}/{tally.trials_planned} trials"]
    for name, result in (("leader", tally.incumbent), ("plain", tally.plain)):
        if result is not None:
            parts.append(f"{name} {rate_text(result)}")
    parts.append(f"{tally.gpu_hours:.2f} {tally.hours_unit}")
    if tally.left_s is not None:
        parts.append(f"about {tally.left_s:.0f} s left")
    return " · ".join(parts)


def _interval(rate: Estimate) -> str:
    if rate.low is None or rate.high is None:
        return ""
    sign = "~" if rate.provisional else "±"
    return f" {sign}{(rate.high - rate.low) / 2:.1f}"
