"""The objective over two axes of an algorithm: the best trial in each cell."""

from collections.abc import Sequence

from markupsafe import Markup

from sweeps.naming import abbreviated, short
from sweeps.phrases import figure
from sweeps.reporting.parts import Cell, Chart, Table
from sweeps.reporting.story import Story
from sweeps.reporting.svg import BOTTOM, LEFT, TOP, WIDTH, Plot, el
from sweeps.results import Outcome, TrialResult
from sweeps.values import Value, show

MOST_LEVELS = 16
_CELL = 34
_STOPS = ((0, 34, 78), (53, 69, 108), (102, 105, 112), (148, 142, 119), (200, 184, 102),
          (254, 232, 56))  # fmt: skip
"""Cividis, which people see alike whatever their colour vision."""


def surface(story: Story, algorithm: str, axes: Sequence[str]) -> tuple[Chart, Table] | None:
    """Draw one over two axes; None where they make no grid that can be read."""
    if len(axes) != 2:
        return None
    across, up = axes
    cells = _cells(story, algorithm, across, up)
    columns, rows = (_ordered({place[k] for place in cells}) for k in (0, 1))
    if not (1 < len(columns) <= MOST_LEVELS and 1 < len(rows) <= MOST_LEVELS):
        return None
    chart = _chart(story, algorithm, (across, up), (columns, rows), cells)
    return chart, _table(story, algorithm, (across, up), cells)


def _cells(
    story: Story, algorithm: str, across: str, up: str
) -> dict[tuple[Value, Value], tuple[float, TrialResult]]:
    sign = 1 if story.about.goal.higher_is_better else -1
    best: dict[tuple[Value, Value], tuple[float, TrialResult]] = {}
    for result in story.results:
        config, value = result.config, _value(story, result)
        if config.algorithm != algorithm or value is None or not {across, up} <= set(config):
            continue
        place = (config[across], config[up])
        worth = (result.outcome.has_rate, sign * value)
        known = best.get(place)
        if known is None or worth > (known[1].outcome.has_rate, sign * known[0]):
            best[place] = (value, result)
    return best


def _value(story: Story, result: TrialResult) -> float | None:
    if result.outcome is Outcome.STOPPED:
        return result.bound
    return result.value(story.about.goal.metric) if result.may_lead else None


def _ordered(values: set[Value]) -> list[Value]:
    """Order numbers by size, after what is unset, words by the alphabet."""
    return sorted(values, key=lambda v: (v is not None, isinstance(v, str), _rank(v), show(v)))


def _rank(value: Value) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _chart(
    story: Story,
    algorithm: str,
    axes: tuple[str, str],
    grid: tuple[list[Value], list[Value]],
    cells: dict[tuple[Value, Value], tuple[float, TrialResult]],
) -> Chart:
    columns, rows = grid
    left, height = LEFT + 60, TOP + _CELL * len(rows) + BOTTOM
    plot = Plot.of((0, len(columns)), (0, len(rows)), height=height, left=left)
    wide = min(110.0, (WIDTH - left - 20) / len(columns))
    low, high = (pick(value for value, _ in cells.values()) for pick in (min, max))
    for i, column in enumerate(columns):
        plot.note(left + wide * (i + 0.5), height - 34, show(column), "tick", "middle")
    plot.note(left + wide * len(columns) / 2, height - 12, abbreviated(axes[0]), "name", "middle")
    for j, row in enumerate(rows):
        top = TOP + _CELL * j
        plot.note(left - 8, top + _CELL / 2 + 4, show(row), "tick", "end")
        for i, column in enumerate(columns):
            found = cells.get((column, row))
            at = (left + wide * i, top, wide)
            plot.parts.append(
                _empty(*at) if found is None else _filled(story, *at, *found, low, high)
            )
    plot.note(16, TOP - 10, f"{abbreviated(axes[1])} ↓", "name")
    title = f"{story.word}{algorithm}: best {story.about.goal.metric} by {' and '.join(axes)}"
    desc = "A grid of the two axes; the table below it has the same numbers."
    svg = plot.svg(f"fig-surface-{algorithm.lower()}", title, desc, emulated=story.emulated)
    note = f"{story.word}{algorithm}, {story.about.goal.metric} in {story.unit}"
    return Chart(svg, (), note)


def _empty(x: float, y: float, wide: float) -> Markup:
    return el("rect", x=x + 1, y=y + 1, width=wide - 2, height=_CELL - 2, css="empty")


def _filled(
    story: Story, x: float, y: float, wide: float, value: float, result: TrialResult,
    low: float, high: float,
) -> Markup:  # fmt: skip
    share = (value - low) / (high - low) if high > low else 1.0
    share = share if story.about.goal.higher_is_better else 1 - share
    red, green, blue = _colour(share)
    ink = "light" if 0.299 * red + 0.587 * green + 0.114 * blue < 130 else "dark"
    sign = "≤ " if result.outcome is Outcome.STOPPED else ""
    words = f"{sign}{figure(value)}"
    tip = f"trial {result.number}, {short(result.config)}: {words} {story.unit}"
    box = el("rect", x=x + 1, y=y + 1, width=wide - 2, height=float(_CELL - 2),
             fill=f"rgb({red},{green},{blue})")  # fmt: skip
    written = el("text", words, x=x + wide / 2, y=y + _CELL / 2 + 4,
                 text_anchor="middle", css=f"incell {ink}")  # fmt: skip
    told = box + (written if wide > 38 else Markup("")) + el("title", tip)
    return el("g", told, css="m", data_t=result.number, data_v=result.config.variant)


def _colour(share: float) -> tuple[int, int, int]:
    at = share * (len(_STOPS) - 1)
    index = min(int(at), len(_STOPS) - 2)
    part = at - index
    one, other = _STOPS[index], _STOPS[index + 1]
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(one, other, strict=True))
    return red, green, blue


def _table(
    story: Story,
    algorithm: str,
    axes: tuple[str, str],
    cells: dict[tuple[Value, Value], tuple[float, TrialResult]],
) -> Table:
    rows = tuple(
        (
            Cell(show(column), (), _rank(column)),
            Cell(show(row), (), _rank(row)),
            Cell(figure(value), (result.number,), value),
            Cell("bound" if result.outcome is Outcome.STOPPED else result.outcome.value),
        )
        for (column, row), (value, result) in cells.items()
    )
    head = (*axes, f"{story.about.goal.metric}, {story.unit}", "is")
    return Table(f"{story.word}{algorithm}: the best trial in each cell", head, rows)
