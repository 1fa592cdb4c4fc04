"""Makes the report of a sweep: gathers from its state folder what the page shows, and writes it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from orchestrator.foretelling import PREDICTIONS_FILE, predictions
from orchestrator.spool import REQUEST, read_spool
from orchestrator.state import SPOOL_FILE, State
from orchestrator.stories import sweep_story
from sweeps.records import EndReason
from sweeps.reporting import cache
from sweeps.reporting.markdown import markdown
from sweeps.reporting.page import Beside, page
from sweeps.reporting.promises import Promise, promises_of
from sweeps.reporting.story import Story
from sweeps.reporting.thinning import thinned

HTML, MARKDOWN = FORMS = ("html", "markdown")


def report(state: State, sweep_id: str, form: str) -> tuple[str, Story]:
    """Write the report of a sweep in a form; it may still run. Raises BadInputError."""
    story = sweep_story(state, sweep_id)
    predicted = predictions(state.sweep_folder(sweep_id) / PREDICTIONS_FILE)
    if form == MARKDOWN:
        return markdown(story, predicted=predicted), story
    shown = thinned(story)
    beside = replace(_beside(state, shown, predicted), promises=promises_of(story, predicted))
    return page(shown, beside), story


def _beside(state: State, story: Story, predicted: Mapping[int, Promise]) -> Beside:
    sweep_id = story.about.sweep
    return Beside(
        answers={n: _answers(state, sweep_id, n) for n in cache.chosen(story)},
        predicted=predicted,
        facts=tuple(_facts(state, story)),
        spools=_spools(state, story),
        made_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def _answers(state: State, sweep_id: str, number: int) -> tuple[cache.Answered, ...]:
    """Read the finished requests since the flush, as far as the spool is whole."""
    spool = read_spool(state.trial_folder(sweep_id, number) / SPOOL_FILE)
    return tuple(
        cache.Answered(str(data["phase"]), int(str(data["output_tokens"])), steps)
        for data in spool.of_kind(REQUEST)
        if data.get("phase") in cache.AFTER_FLUSH
        and data.get("end") == EndReason.FINISHED.value
        and isinstance(steps := data.get("verify_steps"), int)
        and steps > 0
    )


def _spools(state: State, story: Story) -> dict[int, str]:
    folder = state.sweep_folder(story.about.sweep)
    root = folder.relative_to(state.root)
    return {r.number: str(root / "trials" / f"{r.number:04d}" / SPOOL_FILE) for r in story.results}


def _facts(state: State, story: Story) -> Iterator[tuple[str, Sequence[tuple[str, str]]]]:
    """Tell what the last probe found on each host, if it is still the host that was measured."""
    from infra.probing.cache import read_facts
    from orchestrator.host_page import found_rows

    for ground in story.grounds:
        facts = read_facts(state.host_folder(ground.host))
        if facts is not None and facts.fingerprint == ground.fingerprint:
            yield str(ground), tuple(found_rows(facts))
