"""What a trial writes down: requests for the spool, its rate so far, an end where it has none."""

from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import fmean

from infra.sglang.flags import NEWEST
from orchestrator.job import TrialJob
from sweeps.intervals import mean_half_width
from sweeps.records import RequestRecord
from sweeps.results import Outcome, Phase, TrialResult


def rate_around(blocks: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Return the mean of the blocks so far with its interval, as far as they allow."""
    if not blocks:
        return None, None, None
    rate = fmean(blocks)
    if len(blocks) < 2:
        return rate, None, None
    half = mean_half_width(blocks)
    return rate, rate - half, rate + half


def lost_result(job: TrialJob, reason: str, outcome: Outcome = Outcome.FAILED) -> TrialResult:
    """Stand in for the result of a trial that could not write its own."""
    return TrialResult(
        trial=job.trial,
        sweep=job.sweep_id,
        number=job.number,
        config=job.config,
        outcome=outcome,
        reason=reason,
        phase=Phase.ADMITTED,
        emulated=job.host.emulated,
        host=job.host.name,
        engine_version=job.host.version or NEWEST,
        gpu_hours=0.0,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        purpose=job.purpose.value,
        why=job.why,
        retry_of=job.retry_of,
    )


def request_data(request: RequestRecord) -> dict[str, object]:
    """Return plain data, for the spool."""
    return {
        "sent_s": request.sent_s, "ended_s": request.ended_s, "end": request.end.value,
        "detail": request.detail, "finish_reason": request.finish_reason,
        "prompt_tokens": request.prompt_tokens, "cached_tokens": request.cached_tokens,
        "verify_steps": request.verify_steps, "output_tokens": request.output_tokens,
        "times_s": [round(t, 5) for t in request.times_s], "tokens": list(request.tokens),
        "prompt_key": request.prompt_key, "scheduled_s": request.scheduled_s,
        "queue_s": request.queue_s, "chunks": list(request.chunks),
        "deviation_tokens": request.deviation_tokens,
    }  # fmt: skip
