"""What a cycle takes by its width, and how much of that single changes account for."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sweeps.config import Config
from sweeps.naming import abbreviated, short
from sweeps.phrases import counted, figure, listed
from sweeps.reporting.contrasts import Contrast, contrasts_of
from sweeps.reporting.cost_curves import Curve, cost_curves
from sweeps.reporting.parts import Cell, Chart, Key, Section, Table, numbers_of, ranged
from sweeps.reporting.story import Story
from sweeps.reporting.svg import Mark, Plot, around
from sweeps.results import Estimate, TrialResult
from sweeps.search.roles import Role, role_of, serving_of, width_of

CYCLE = "cycle_ms"
NAMED = 4
"""Settings of communication that get a colour of their own; the rest share one."""
ROWS = 24
"""Contrasts in the table, the largest first."""


def section(story: Story) -> Section | None:
    """Draw it; None where no step was timed."""
    timed = [r for r in story.results if CYCLE in r.estimates]
    if not timed:
        return None
    contrasts = contrasts_of(story.results, CYCLE)
    return Section(
        "cycles",
        "What a cycle takes, and what that is attributed to",
        lead=(*_lead(story, contrasts),),
        charts=(_chart(story, timed),),
        tables=(_cycle_table(story, timed), *_contrast_tables(story, contrasts)),
    )


def _lead(story: Story, contrasts: Sequence[Contrast]) -> Iterator[str]:
    yield (
        "A step of plain decode verifies one token, a cycle as many as are drafted. A change counts"
        " as the cause of a difference only where two trials differ in it alone."
    )
    communication = [c for c in contrasts if role_of(c.axis) is Role.COMMUNICATION]
    shown = sorted((c for c in communication if c.is_shown), key=lambda c: c.ratio)
    if shown and shown[0].ratio < 1:
        yield _attributed(story, shown[0])
    if not contrasts:
        yield "Unattributed: no two trials differ in one setting alone."
    elif not communication:
        yield "Unattributed: no two trials differ in one setting of communication alone."
    else:
        without = sorted({abbreviated(c.axis) for c in communication} - _movers(shown))
        yield (
            f"{counted(len(shown), 'change').capitalize()} of communication of"
            f" {len(communication)} moved a cycle beyond its interval."
            + (f" Without an effect that shows: {listed(without)}." if without else "")
            + " What no contrast accounts for stays unattributed: compute, memory and launches of a"
            " verify are not told apart here."
        )


def _movers(shown: Sequence[Contrast]) -> set[str]:
    return {abbreviated(contrast.axis) for contrast in shown}


def _attributed(story: Story, found: Contrast) -> str:
    before, after = found.before.value, found.after.value
    share = f"{1 - found.ratio:.0%}".replace("%", " %")
    return (
        f"Attributed to communication: {found.change} takes {share} off a cycle, from"
        f" {story.word}{figure(before)} to {figure(after)} ms ({short(found.rest)})."
    )


def _served(config: Config) -> str:
    """Name the settings of communication."""
    kept = {n: v for n, v in config.items() if role_of(n) is Role.COMMUNICATION}
    return short(Config.of(kept)).removeprefix("plain").strip() or "defaults"


def _chart(story: Story, timed: Sequence[TrialResult]) -> Chart:
    served = {r.number: _served(r.config) for r in timed}
    common = [name for name, _ in Counter(served.values()).most_common(NAMED)]
    css = {name: f"k{index}" for index, name in enumerate(common)}
    widths = [_width(r) for r in timed]
    cycles = [r.estimates[CYCLE] for r in timed]
    highest = around([c.high or c.value for c in cycles])
    low, high = min(widths) * 0.85, max(widths) * 1.2
    plot = Plot.of((low, high), highest, log_x=True)
    ticks = sorted(set(widths)) if len(set(widths)) < 12 else None
    plot.frame("tokens that a step verifies", f"{story.word}time of a step, ms", x_ticks=ticks)
    for name, curve in _curves(story, timed, served, common, widths).items():
        _draw_curve(plot, curve, css[name])
    for result in timed:
        _draw(plot, result, css.get(served[result.number], "plain"))
    legend = [Key(colour, "dot", name) for name, colour in css.items()]
    if len(set(served.values())) > NAMED:
        legend.append(Key("plain", "dot", "other settings"))
    title = f"{story.word}Time of a step by the tokens that it verifies"
    desc = (
        "Colours are settings of communication; bands are the fitted cost with its 95 % interval."
    )
    svg = plot.svg("fig-cycles", title, desc, emulated=story.emulated)
    return Chart(svg, tuple(legend), _NOTE)


def _width(result: TrialResult) -> int:
    """Return the tokens of a step as the server has them, else as the configuration asks."""
    tokens = result.effective.get("speculative_num_draft_tokens")
    if result.config.is_plain or type(tokens) is not int:
        return width_of(result.config)
    return tokens


_NOTE = (
    "Squares: plain decode. Lines with bands: one cost model, fitted to all steps of the sweep, of"
    " parts that cannot be negative; what it fits is not thereby attributed. The axis across is"
    " logarithmic."
)


def _curves(
    story: Story,
    timed: Sequence[TrialResult],
    served: Mapping[int, str],
    names: Sequence[str],
    widths: Sequence[int],
) -> dict[str, Curve]:
    """Fit the settings that have a colour, at every width between the least and the most."""
    first: dict[str, Config] = {}
    for result in timed:
        first.setdefault(served[result.number], serving_of(result.config))
    return cost_curves(story, {n: first[n] for n in names}, range(min(widths), max(widths) + 1))


def _draw_curve(plot: Plot, curve: Curve, css: str) -> None:
    """Draw it as far as the frame reaches."""
    top = plot.y.high
    points = [p for p in zip(curve.widths, curve.low, curve.middle, curve.high, strict=True)
              if p[2] <= top]  # fmt: skip
    if len(points) < 2:
        return
    upper = [(width, min(high, top)) for width, _, _, high in points]
    lower = [(width, low) for width, low, _, _ in reversed(points)]
    plot.area([*upper, *lower], css)
    plot.path([(width, middle) for width, _, middle, _ in points], f"thin {css}")


def _draw(plot: Plot, result: TrialResult, css: str) -> None:
    cycle = result.estimates[CYCLE]
    at = (_width(result), cycle.value)
    plot.bars(None, (cycle.low, cycle.high), at, css)
    tip = f"trial {result.number}, {short(result.config)}: {_told(cycle)} ms"
    shape = "square" if result.config.is_plain else "dot"
    plot.mark(Mark(css, tip, result.number, result.config.variant, shape, 4), *at)


def _told(estimate: Estimate) -> str:
    return ranged(estimate.value, estimate.low, estimate.high)


def _cycle_table(story: Story, timed: Sequence[TrialResult]) -> Table:
    rows = tuple(
        (
            Cell(str(_width(r)), (), _width(r)),
            Cell(_told(r.estimates[CYCLE]), (r.number,), r.estimates[CYCLE].value),
            Cell(r.config.algorithm or "plain"),
            Cell(_served(r.config)),
        )
        for r in sorted(timed, key=lambda r: (_width(r), r.estimates[CYCLE].value))
    )
    head = ("tokens a step", "ms", "algorithm", "communication")
    return Table(f"{story.word}time of a step, every trial", head, rows)


def _contrast_tables(story: Story, contrasts: Sequence[Contrast]) -> Iterator[Table]:
    largest = sorted(contrasts, key=lambda c: -abs(c.ratio - 1))[:ROWS]
    if not largest:
        return
    numbers = numbers_of(story.results)
    rows = tuple(
        (
            Cell(c.change),
            Cell(short(c.rest)),
            Cell(figure(c.before.value), tuple(numbers[t] for t in c.before.used), c.before.value),
            Cell(figure(c.after.value), tuple(numbers[t] for t in c.after.used), c.after.value),
            Cell(ranged(c.ratio, c.low, c.high), (), c.ratio),
            Cell("shown" if c.is_shown else "not shown"),
        )
        for c in largest
    )
    head = ("one change", "all else", "before, ms", "after, ms", "ratio", "effect")
    yield Table(f"{story.word}pairs of trials that differ in one setting alone", head, rows)
