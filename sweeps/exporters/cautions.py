"""What stands against taking a measured configuration to production as it is."""

from collections.abc import Iterator

from sweeps.exporters.recommendation import Recommendation
from sweeps.quality import Verdict
from sweeps.results import Outcome

MAX_RUNNING = "max_running_requests"


def cautions(what: Recommendation, here: str, concurrency: int | None) -> tuple[str, ...]:
    """List them as phrases.

    `here` is the fingerprint of the host at hand, empty where it is unknown; `concurrency` is how
    many requests production sends at a time, if told.
    """
    found = [*_of_the_place(what, here), *_of_the_figure(what), *_of_the_text(what)]
    return (*found, *_of_the_load(what, concurrency))


def _of_the_place(what: Recommendation, here: str) -> Iterator[str]:
    there = what.trial.fingerprint
    if there and here and there != here:
        yield f"measured on another host or with other software: fingerprint {there}, here {here}"


def _of_the_figure(what: Recommendation) -> Iterator[str]:
    best, estimate = what.best, what.trial.estimates.get(what.metric)
    if what.ties:
        yield f"{what.ties} more measured within the indifference of it"
    if estimate is not None and estimate.provisional:
        yield f"its interval is provisional: {estimate.duration_s:.0f} s, {estimate.method}"
    if best.low is None or best.high is None:
        yield "its figure has no interval"
    if not best.confirmed:
        yield "the starts that chose it measured it, which flatters: verify it on fresh ones"
    if what.trial.outcome is Outcome.PARTIAL:
        yield f"its last trial is partial: {what.trial.reason}"


def _of_the_text(what: Recommendation) -> Iterator[str]:
    trial = what.trial
    if trial.quality is Verdict.BROKEN:
        yield f"its text is broken: {trial.quality_note}"
    elif trial.quality is Verdict.UNKNOWN and not trial.config.is_plain:
        yield "whether it writes what plain decode writes was not checked"


def _of_the_load(what: Recommendation, concurrency: int | None) -> Iterator[str]:
    most = what.origin.most_streams
    if not most:
        return
    if concurrency is not None and concurrency > most:
        yield f"untested concurrency: {concurrency} at a time, and {most} were measured at the most"
    limit = what.settings.get(MAX_RUNNING, what.trial.effective.get(MAX_RUNNING))
    if concurrency is None and type(limit) is int and limit > most:
        yield (
            f"untested concurrency: the server runs up to {limit} requests at a time, and {most}"
            " were measured at the most"
        )
