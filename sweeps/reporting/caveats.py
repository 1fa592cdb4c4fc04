"""What a sweep does not show, though a hasty reader may take it from its numbers."""

from collections.abc import Iterator, Sequence

from sweeps.conclusions import may_not_conclude
from sweeps.evidence import Evidence
from sweeps.phrases import counted, listed, number_word
from sweeps.quality import QualityReport
from sweeps.reporting.answer import Answer
from sweeps.results import Outcome, TrialResult
from sweeps.workloads import Workload


def caveats_of(
    results: Sequence[TrialResult], answer: Answer | None, workload: Workload | None, *,
    is_over: bool,
) -> Iterator[str]:  # fmt: skip
    """Say what may not be concluded, what concerns the recommendation first."""
    if not is_over:
        yield "The sweep has not ended: what leads now need not lead in the end."
    if answer is not None:
        yield from may_not_conclude(_evidence(results, answer))
    yield from _of_loads(workload)
    yield from _of_settings(results)
    yield from _of_bounds(results)
    yield from _of_places(results)


def _evidence(results: Sequence[TrialResult], answer: Answer) -> Evidence:
    trial = next(r for r in results if r.trial == answer.trial)
    quality = QualityReport(trial.quality, trial.quality_note or "no texts to compare")
    return Evidence(trial, results, quality=quality)


def _of_loads(workload: Workload | None) -> Iterator[str]:
    if workload is None:
        return
    asked = sorted({workload.concurrency, *workload.concurrencies})
    yield (
        f"Only {listed([str(n) for n in asked])} at a time was asked of a server: with more"
        " requests a step costs more, and speculation may stop paying."
    )


def _of_settings(results: Sequence[TrialResult]) -> Iterator[str]:
    variants = {r.config.variant for r in results if r.outcome.has_rate}
    if not variants:
        return
    yield (
        f"{counted(len(variants), 'variant').capitalize()} of the space gave a rate; what was not"
        " tried is not known to be slow."
    )


def _of_bounds(results: Sequence[TrialResult]) -> Iterator[str]:
    stopped = sum(r.outcome is Outcome.STOPPED for r in results)
    if stopped:
        was = "trial was" if stopped == 1 else "trials were"
        yield (
            f"{number_word(stopped).capitalize()} {was} stopped early: their bounds say that they"
            " are worse than the leader, not how much worse."
        )


def _of_places(results: Sequence[TrialResult]) -> Iterator[str]:
    places = {(r.host, r.engine_version, r.fingerprint) for r in results}
    if len(places) == 1:
        yield "One host with one SGLang was measured: another driver, NCCL or SGLang may differ."
    elif places:
        yield "Rates of different hosts or versions do not compare with each other."
