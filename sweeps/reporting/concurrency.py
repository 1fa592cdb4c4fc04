"""Who wins at each concurrency, and where speculation stops paying."""

from collections.abc import Iterator

from sweeps.naming import short
from sweeps.phrases import figure
from sweeps.ranking import Standing
from sweeps.reporting.parts import Cell, Chart, Section, Table, numbers_of, ranged
from sweeps.reporting.story import Story
from sweeps.reporting.svg import Mark, Plot, around


def section(story: Story) -> Section | None:
    """Draw it where several loads were measured; else say that one was."""
    if story.about.workload is None:
        return None
    several = len(story.loads) > 1
    return Section(
        "concurrency",
        "By concurrency: where speculation stops paying",
        lead=tuple(_lead(story)),
        charts=(_chart(story),) if several else (),
        tables=(_table(story),) if story.loads else (),
    )


def _lead(story: Story) -> Iterator[str]:
    asked = story.about.workload.concurrency if story.about.workload else 1
    rated = [result.config.is_plain for result in story.results if result.may_lead]
    if all(rated) or not any(rated):
        what = "speculation" if any(rated) else "plain decode"
        yield f"No {what} was measured, so nothing is compared at any concurrency."
    elif len(story.loads) < 2:
        yield (
            f"Both plain decode and speculation were measured at {asked} at a time only; nothing is"
            " known of other loads. Workload(concurrencies=(4, 16)) would measure them."
        )
    elif story.crossing is not None:
        yield f"Speculation stops paying at {story.crossing} at a time."
    elif any(load.verdict == "speculation" for load in story.loads):
        yield "Speculation pays at the highest concurrency that was measured."
    else:
        yield "Speculation does not pay at any concurrency that was measured."


def _chart(story: Story) -> Chart:
    table = story.loads
    ends = [e for one in table for e in (one.gain - one.gain_half_width,
                                         one.gain + one.gain_half_width)]  # fmt: skip
    counts = [float(load.concurrency) for load in table]
    plot = Plot.of((counts[0] * 0.8, counts[-1] * 1.25), around([*ends, 1.0]), log_x=True,
                   height=300, right=48)  # fmt: skip
    plot.frame("requests at a time", f"{story.word}gain over plain", x_ticks=counts)
    at = plot.y(1.0)
    plot.line(plot.x.start, at, plot.x.end, at, "even")
    plot.note(plot.x.end + 5, at + 4, "plain", "iso-name")
    plot.path([(load.concurrency, load.gain) for load in table], "thin s0")
    numbers = numbers_of(story.results)
    for load in table:
        low, high = load.gain - load.gain_half_width, load.gain + load.gain_half_width
        plot.bars(None, (low, high), (load.concurrency, load.gain), "s0")
        best = load.speculative
        tip = f"{load.concurrency} at a time: {ranged(load.gain, low, high)} x; {load.verdict}"
        mark = Mark("s0", tip, numbers[best.used[0]], best.variant)
        plot.mark(mark, load.concurrency, load.gain)
    title = f"{story.word}Best speculation over best plain decode, by concurrency"
    desc = "Points above the bold line: speculation pays."
    return Chart(plot.svg("fig-loads", title, desc, emulated=story.emulated))


def _table(story: Story) -> Table:
    numbers = numbers_of(story.results)
    rows = tuple(
        (
            Cell(str(load.concurrency), (), load.concurrency),
            Cell(load.verdict),
            Cell(f"{load.gain:.3f} ± {load.gain_half_width:.3f}", (), load.gain),
            _best(numbers, load.speculative, load.remark),
            _best(numbers, load.plain),
        )
        for load in story.loads
    )
    head = ("at a time", "wins", "ratio", "best speculation", "best plain decode")
    return Table(f"{story.word}the best of both kinds at each load", head, rows, open=True)


def _best(numbers: dict[str, int], standing: Standing, remark: str = "") -> Cell:
    words = f"{figure(standing.value)} tok/s: {short(standing.config)}{remark}"
    return Cell(words, tuple(numbers[trial] for trial in standing.used))
