"""A page that can still be opened after ten thousand trials: it draws some of them."""

from collections.abc import Iterator
from dataclasses import replace

from sweeps.reporting.story import Story

MOST_DRAWN = 1000
"""Trials that are drawn and listed, by whole variants."""


def thinned(story: Story, most: int = MOST_DRAWN) -> Story:
    """Return a story of the best variants and an even choice of the others; its numbers are still
    of all trials."""
    if len(story.results) <= most:
        return story
    trials: dict[str, int] = {}
    for result in story.results:
        trials[result.config.variant] = trials.get(result.config.variant, 0) + 1
    kept: set[str] = set()
    room = most
    for variant in _wanted(story, most):
        if variant not in kept and room > 0:
            kept.add(variant)
            room -= trials[variant]
    ranking = story.ranking
    results = tuple(r for r in story.results if r.config.variant in kept)
    left_out = (
        f"Charts and tables show {len(results):,} of {story.count:,} trials: the best variants and"
        " an even choice of the others. `trials --json` lists all."
    )
    return replace(
        story,
        results=results,
        ranking=replace(
            ranking, standings=tuple(s for s in ranking.standings if s.variant in kept)
        ),
        caveats=(left_out, *story.caveats),
    )


def _wanted(story: Story, most: int) -> Iterator[str]:
    """Yield variants, those first that must be seen."""
    ranking = story.ranking
    recommended = story.answer.standing if story.answer else None
    for standing in (recommended, story.plain, ranking.best, ranking.plain, ranking.baseline):
        if standing is not None:
            yield standing.variant
    for load in story.loads:
        yield from (load.speculative.variant, load.plain.variant)
    for point in story.front:
        yield point.config.variant
    for standing in ranking.standings[: most // 2]:
        yield standing.variant
    every = max(1, 2 * len(story.results) // most)
    for start in range(every):
        for result in story.results[start::every]:
            yield result.config.variant
