"""The story of a sweep in Markdown, for a pull request or a note."""

from collections.abc import Iterator, Mapping, Sequence

from sweeps.naming import short
from sweeps.phrases import figure, listed, with_interval
from sweeps.reporting.plain_text import plain_text
from sweeps.reporting.promises import Promise, lines, promises_of
from sweeps.reporting.story import Story

VARIANTS = 10
"""Rows of the table of variants: what is slower than these interests nobody in a note."""


def markdown(
    story: Story, *, variants: int = VARIANTS, predicted: Mapping[int, Promise] | None = None
) -> str:
    """Write a story: answer first, then why, and what it does not show.

    `predicted` is what was expected of trials before they started, by their numbers.
    """
    why = [*_variants(story, variants), *_loads(story), *_promises(story, predicted or {})]
    return "\n".join([*_head(story), *why, *_rest(story)])


def _head(story: Story) -> Iterator[str]:
    about = story.about
    yield f"# {story.word}Sweep {plain_text(about.sweep)}"
    yield ""
    if story.emulated:
        yield (
            "> **EMULATED**: no model and no GPU took part. These numbers are those of a cost"
            " model and say nothing about a real host."
        )
        yield ""
    yield f"**{plain_text(story.headline)}**"
    yield ""
    yield from _bullets(answer_lines(story))


def answer_lines(story: Story) -> list[str]:
    """Say what stands behind the headline: gain, ties, how sure, for which load and host."""
    about, answer = story.about, story.answer
    lines = [f"Gain: {story.gain_text}."] if story.gain_text else []
    lines += [story.ties_text] if story.ties_text else []
    lines += answer.sure if answer else ()
    lines += [f"Load: {about.workload}."] if about.workload else []
    if about.goal.limits:
        lines.append(f"Limits: {listed([str(limit) for limit in about.goal.limits])}.")
    lines += [f"Where: {ground}." for ground in story.grounds]
    lines.append(f"Trials: {story.outcomes_text}; the sweep is {about.status}.")
    if about.trouble:
        lines.append(f"Why it ended: {about.trouble}.")
    return lines


def _variants(story: Story, most: int) -> Iterator[str]:
    standings = story.ranking.standings[:most]
    if not standings:
        return
    head = [f"{story.word}{story.about.goal.metric}, {story.unit}", "starts", "trials"]
    yield from _section("Variants")
    yield from _table(
        ["variant", *head],
        [[short(s.config), with_interval(s), str(s.starts), _numbers(s.used)] for s in standings],
    )
    left = len(story.ranking.standings) - len(standings)
    if left:
        yield ""
        yield f"{left} more variants were measured."


def _loads(story: Story) -> Iterator[str]:
    if len(story.loads) < 2:
        return
    yield from _section("By concurrency")
    yield from _table(
        ["at a time", "wins", f"{story.word}speculation / plain", "speculation"],
        [
            [
                str(load.concurrency),
                load.verdict,
                f"{load.gain:.2f} ± {load.gain_half_width:.2f}",
                short(load.speculative.config) + load.remark,
            ]
            for load in story.loads
        ],
    )
    if story.crossing is not None:
        yield ""
        yield f"Speculation stops paying at {story.crossing} at a time."


def _promises(story: Story, predicted: Mapping[int, Promise]) -> Iterator[str]:
    found = promises_of(story, predicted)
    if found is not None:
        yield from _section("How well promises were kept")
        yield from _bullets([*lines(story, found)])


def _rest(story: Story) -> Iterator[str]:
    book = story.ledger
    if book.total:
        parts = ", ".join(f"{name} {figure(hours)}" for name, hours in book.spent.items())
        yield from _section(book.unit[0].upper() + book.unit[1:])
        yield plain_text(f"{story.word}{figure(book.total)} {book.unit}: {parts}.")
    if story.failures:
        yield from _section("Failures")
        yield from _table(
            ["what", "outcome", "trials", "said", "hint"],
            [
                [f.signature, f.outcome.value, _numbers(f.trials), f.reason, f.hint]
                for f in story.failures
            ],
        )
    unmoved = [*map(str, story.closed), *map(str, story.inert), *story.alike]
    if unmoved:
        yield from _section("Closed and without effect")
        yield from _bullets(unmoved)
    yield from _section("What this does not show")
    yield from _bullets(story.caveats)


def _section(title: str) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""


def _bullets(lines: Sequence[str]) -> Iterator[str]:
    return (f"- {plain_text(line)}" for line in lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _row([plain_text(cell) for cell in head])
    yield _row(["---"] * len(head))
    yield from (_row([plain_text(cell) for cell in row]) for row in rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _numbers(trials: Sequence[str]) -> str:
    """Name trials by their numbers, which end their ids."""
    return " ".join(trial.rpartition("-")[2] for trial in trials)
