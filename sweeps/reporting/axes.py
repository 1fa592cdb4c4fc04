"""Which axes matter: how far each moves the objective, and the surfaces over the two strongest."""

from collections.abc import Iterator, Sequence

from sweeps.naming import abbreviated
from sweeps.phrases import figure, listed
from sweeps.reporting.importance import LEAST_VARIANTS, Importance, importances
from sweeps.reporting.parts import Cell, Chart, Key, Section, Table
from sweeps.reporting.story import Story
from sweeps.reporting.surfaces import surface
from sweeps.reporting.svg import BOTTOM, TOP, Mark, Plot, Scale
from sweeps.search.roles import DRAFT_STEPS, DRAFT_TOKENS

SHOWN = 14
_ROW = 26


def sections(story: Story) -> Iterator[Section]:
    """Draw importance and surfaces, as far as there are enough variants."""
    goal = story.about.goal
    found = importances(story.results, goal.metric, higher_is_better=goal.higher_is_better)
    yield from _surfaces(story, found)
    if story.results:
        yield Section(
            "importance",
            "How far each axis moves the objective",
            lead=tuple(_lead(found)),
            charts=(_chart(story, found[:SHOWN]),) if found else (),
            tables=(_table(story, found),) if found else (),
        )


def _surfaces(story: Story, found: Sequence[Importance]) -> Iterator[Section]:
    charts, tables = [], []
    for algorithm in dict.fromkeys(one.algorithm for one in found if one.algorithm):
        drawn = surface(story, algorithm, _pair(found, algorithm))
        if drawn is not None:
            charts.append(drawn[0])
            tables.append(drawn[1])
    if charts:
        lead = (
            "Draft length against the axis that moves an algorithm most beside it. A cell is the"
            " best trial in it, whatever the other axes were; ≤ marks the bound of one that was"
            " stopped. Empty cells were not tried.",
        )
        yield Section("surfaces", "Response surfaces", lead, tuple(charts), tuple(tables))


def _pair(found: Sequence[Importance], algorithm: str) -> tuple[str, ...]:
    """Choose the axes of a surface: draft length, if it is swept, and the strongest others."""
    axes = [one.axis for one in found if one.algorithm == algorithm]
    lengths = [axis for axis in (DRAFT_TOKENS, DRAFT_STEPS) if axis in axes][:1]
    return tuple([*lengths, *(axis for axis in axes if axis not in lengths)][:2])


def _lead(found: Sequence[Importance]) -> Iterator[str]:
    if not found:
        yield f"Too few variants: an algorithm needs {LEAST_VARIANTS} that differ."
        return
    yield (
        "For each algorithm apart, since an axis exists only under some: the best level of an axis"
        " over its worst, with the others held, as a sum of effects on the logarithm. The interval"
        " draws variants again; the tick is what chance alone reaches. Stopped trials count at"
        " their bounds. A search that looks where it is fast sees little of the slow levels, and"
        " an effect that needs two axes at once is not in it."
    )
    tied = {
        listed(sorted(abbreviated(axis) for axis in (one.axis, *one.along_with)))
        for one in found
        if one.along_with
    }
    for names in sorted(tied):
        yield f"{names} always changed together: what either does cannot be told."
    weak = [f"{abbreviated(one.axis)} ({one.algorithm or 'plain'})" for one in found
            if not one.is_shown]  # fmt: skip
    if weak:
        yield f"Not told from chance: {listed(weak)}."


def _chart(story: Story, found: Sequence[Importance]) -> Chart:
    height = TOP + _ROW * len(found) + BOTTOM
    most = max(max(one.high, one.chance) for one in found)
    plot = Plot.of((0.0, most * 105), (0.0, 1.0), height=height, left=250)
    bottom = plot.y.start
    for tick in plot.x.ticks():
        at = plot.x(tick)
        plot.line(at, bottom, at, plot.y.end, "grid")
        plot.note(at, bottom + 18, f"{tick:g} %", "tick", "middle")
    name = f"{story.word}best level over worst, others held"
    plot.note((plot.x.start + plot.x.end) / 2, height - 8, name, "name", "middle")
    palette: dict[str | None, str] = {None: "plain"}
    for one in found:
        palette.setdefault(one.algorithm, f"s{len(palette) - 1}")
    for row, one in enumerate(found):
        _draw(plot, one, plot.y.end + _ROW * (row + 0.5), palette[one.algorithm])
    title = f"{story.word}How far each axis moves {story.about.goal.metric}"
    desc = "Points with 95 % intervals; the upright tick is what chance alone reaches."
    legend = (*[Key(css, "dot", name or "plain decode") for name, css in palette.items()
                if any(one.algorithm == name for one in found)],
              Key("ink", "tick", "chance alone"))  # fmt: skip
    return Chart(plot.svg("fig-importance", title, desc, emulated=story.emulated), legend)


def _draw(plot: Plot, one: Importance, height: float, css: str) -> None:
    name = f"{abbreviated(one.axis)}  ·  {one.algorithm or 'plain'}"
    plot.note(plot.x.start - 10, height + 4, name, "rowname", "end")
    left, right = (plot.x(100 * end) for end in (one.low, one.high))
    plot.line(left, height, right, height, f"err {css}")
    at = plot.x(100 * one.chance)
    plot.line(at, height - 8, at, height + 8, "chance")
    tip = f"{name}: {_told(one)}; best at {one.best}"
    shape = "dot" if one.is_shown else "ring"
    middle = Plot(plot.x, Scale(0, 1, height, height + 1))
    middle.mark(Mark(css, tip, None, "", shape), 100 * one.spread, 0)
    plot.parts += middle.parts


def _told(one: Importance) -> str:
    return f"{_percent(one.spread)} ({_percent(one.low)} to {_percent(one.high)})"


def _percent(share: float) -> str:
    return f"{figure(100 * share)} %"


def _table(story: Story, found: Sequence[Importance]) -> Table:
    rows = tuple(
        (
            Cell(one.algorithm or "plain"),
            Cell(one.axis),
            Cell(_told(one), (), one.spread),
            Cell(_percent(one.chance), (), one.chance),
            Cell("shown" if one.is_shown else "not told from chance"),
            Cell(one.best),
            Cell(str(one.variants), (), one.variants),
        )
        for one in found
    )
    head = (
        "algorithm",
        "axis",
        "best over worst level",
        "chance",
        "verdict",
        "best at",
        "variants",
    )
    return Table(f"{story.word}effects of the axes on {story.about.goal.metric}", head, rows)
