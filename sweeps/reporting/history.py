"""The course of the search: each trial as it came, stopped ones at their bounds, and the leader."""

from collections.abc import Iterator, Sequence

from sweeps.naming import short
from sweeps.phrases import counted, figure
from sweeps.reporting.parts import Cell, Chart, Key, Palette, Section, Table, ranged
from sweeps.reporting.story import Story
from sweeps.reporting.svg import Mark, Plot, around
from sweeps.results import Outcome, TrialResult


def section(story: Story) -> Section | None:
    """Draw it; None before any trial ended."""
    if not story.results:
        return None
    return Section(
        "history",
        "How the search went",
        lead=tuple(_lead(story)),
        charts=(_chart(story),),
        tables=_tables(story),
    )


def _lead(story: Story) -> Iterator[str]:
    yield f"{counted(story.count, 'trial').capitalize()}: {story.outcomes_text}."
    if story.outcomes.get(Outcome.STOPPED):
        yield (
            "A triangle is a trial that was stopped as surely worse than the leader: it stands at"
            " the bound that showed it, and its true rate lies below. A cross gave no rate."
        )
    if story.about.configurations:
        tried = len({r.config.variant for r in story.results})
        yield f"{tried:,} of the {story.about.configurations:,} variants of the space were started."


def _value(story: Story, result: TrialResult) -> float | None:
    """Return where a trial stands: at its bound if it was stopped by one."""
    if result.outcome is Outcome.STOPPED and result.bound is not None:
        return result.bound
    if result.outcome.has_rate:
        return result.value(story.about.goal.metric)
    return None


def _chart(story: Story) -> Chart:
    palette, metric = Palette(story.results), story.about.goal.metric
    values = [v for r in story.results if (v := _value(story, r)) is not None]
    across = (-0.5, max(r.number for r in story.results) + 0.5)
    plot = Plot.of(across, around(values), right=48)
    plot.frame("trial, in the order of their starts", f"{story.word}{metric}, {story.unit}")
    if story.plain is not None:
        at = plot.y(story.plain.value)
        plot.line(plot.x.start, at, plot.x.end, at, "even")
        plot.note(plot.x.end + 5, at + 4, "plain", "iso-name")
    plot.path(_leader(story), "lead")
    best = story.answer.standing.config if story.answer else None
    for result in story.results:
        _draw(plot, story, result, palette.css(result.config), is_best=result.config == best)
    title = f"{story.word}{metric} of {counted(story.count, 'trial')} in their order"
    desc = "The stepped line is the best single trial so far; the bold one the best plain decode."
    legend = (
        *palette.legend(), Key("ink", "diamond", "recommended"),
        *([Key("ink", "down", "stopped, at its bound")] * (Outcome.STOPPED in story.outcomes)),
        *([Key("ink", "cross", "no rate")] * bool(story.failures)),
    )  # fmt: skip
    return Chart(plot.svg("fig-history", title, desc, emulated=story.emulated), legend)


def _leader(story: Story) -> list[tuple[float, float]]:
    """Return the best single trial so far, as steps."""
    sign = 1 if story.about.goal.higher_is_better else -1
    steps: list[tuple[float, float]] = []
    for result in story.results:
        value = result.value(story.about.goal.metric) if result.may_lead else None
        if value is None or result.trial in story.limited:
            continue
        if not steps or sign * value > sign * steps[-1][1]:
            steps += [(result.number, steps[-1][1])] if steps else []
            steps.append((result.number, value))
    return [*steps, (story.results[-1].number + 0.5, steps[-1][1])] if steps else []


def _draw(plot: Plot, story: Story, result: TrialResult, css: str, *, is_best: bool) -> None:
    value = _value(story, result)
    tip = f"trial {result.number}, {short(result.config)}: {result.outcome.value}"
    if value is None:
        mark = Mark(
            css, f"{tip}: {result.reason}", result.number, result.config.variant, "cross", 4
        )
        plot.mark(mark, result.number, plot.y.low)
        return
    found = result.estimates.get(story.about.goal.metric)
    if result.outcome is Outcome.STOPPED:
        told = f"{tip}, at most {figure(value, story.unit)}"
        plot.mark(
            Mark(css, told, result.number, result.config.variant, "down", 4), result.number, value
        )
        return
    if found is not None:
        plot.bars(None, (found.low, found.high), (result.number, value), css)
        tip += f", {ranged(value, found.low, found.high)} {story.unit}"
    shape = "diamond" if is_best else "square" if result.config.is_plain else "dot"
    shape = "ring" if result.outcome is Outcome.PARTIAL else shape
    plot.mark(Mark(css, tip, result.number, result.config.variant, shape, 4), result.number, value)


def _tables(story: Story) -> tuple[Table, ...]:
    stopped = [r for r in story.results if r.outcome is Outcome.STOPPED]
    tables = [_limits(story)] if story.limited else []
    if stopped:
        tables.append(_stopped(story, stopped))
    return tuple(tables)


def _stopped(story: Story, stopped: Sequence[TrialResult]) -> Table:
    rows = tuple(
        (
            Cell(short(r.config), (r.number,)),
            Cell("" if r.bound is None else f"at most {figure(r.bound)}", (), r.bound),
            Cell(figure(r.gpu_hours), (), r.gpu_hours),
            Cell(r.reason),
        )
        for r in stopped
    )
    head = ("variant", f"bound, {story.unit}", story.ledger.unit, "why")
    return Table(f"{story.word}trials that were stopped early", head, rows)


def _limits(story: Story) -> Table:
    by_id = {r.trial: r for r in story.results}
    rows = tuple(
        (Cell(short(by_id[t].config), (by_id[t].number,)), Cell("; ".join(why)))
        for t, why in story.limited.items()
    )
    return Table(f"{story.word}trials that break a limit", ("variant", "limit"), rows)
