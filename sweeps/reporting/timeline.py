"""What a host did over the hours of a sweep, and the ledger of its GPU-hours."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sweeps.idling import gaps_s
from sweeps.ledger import IDLE, MEASURING, STARTING, STOPPING, WARMING, activity
from sweeps.naming import short
from sweeps.phrases import counted, figure
from sweeps.reporting.parts import Cell, Chart, Key, Section, Table
from sweeps.reporting.story import Story
from sweeps.reporting.svg import WIDTH, Plot, el, joined
from sweeps.results import TrialResult

KINDS: Mapping[str, str] = {
    STARTING: "t-start", WARMING: "t-warm", MEASURING: "t-measure", STOPPING: "t-stop",
    IDLE: "t-idle",
}  # fmt: skip
"""What a host does, and the class that colours it."""
_LANE = 46


@dataclass(frozen=True, slots=True)
class Span:
    """What a host did for a while."""

    kind: str
    start_s: float
    end_s: float
    trial: int | None = None

    @property
    def length_s(self) -> float:
        """Return how long it took."""
        return self.end_s - self.start_s


def spans_of(results: Sequence[TrialResult], clock_scale: float | None) -> list[Span]:
    """Lay the trials of one host out in its own seconds; `clock_scale` as in `ClockScales`."""
    spans: list[Span] = []
    now_s, gaps = 0.0, gaps_s(results, clock_scale)
    for result in sorted(results, key=lambda r: r.number):
        if gap_s := gaps.get(result.number):
            spans.append(Span(IDLE, now_s, now_s + gap_s))
            now_s += gap_s
        for phase, took_s in result.phase_s.items():
            if took_s > 0:
                spans.append(Span(activity(phase), now_s, now_s + took_s, result.number))
                now_s += took_s
    return spans


def section(story: Story) -> Section | None:
    """Draw it; None before any trial ended."""
    if not story.results:
        return None
    scales = story.about.clock_scales
    hosts = dict.fromkeys(r.host for r in story.results)
    lanes = {
        host: spans_of([r for r in story.results if r.host == host], scales.get(host))
        for host in hosts
    }
    return Section(
        "hours",
        "Where the hours went",
        lead=tuple(_lead(story)),
        charts=tuple(chart for chart in (_chart(story, lanes), _bar(story)) if chart),
        tables=(_table(story), _starts(story)),
    )


def _lead(story: Story) -> Iterator[str]:
    book = story.ledger
    starting = book.spent.get(STARTING, 0.0)
    if book.total:
        share = f"{starting / book.total:.0%}".replace("%", " %")
        yield (
            f"{story.word}{figure(book.total)} {book.unit} over"
            f" {counted(story.count, 'trial')}; {share} of them went into starting servers."
        )
    for name, hours in book.saved.items():
        yield f"Saved by {name}, by estimate: {story.word}{figure(hours)} {book.unit}."
    if any(scale is None for scale in story.about.clock_scales.values()):
        yield "The clock was simulated: trials are laid end to end, and idle time is not known."


def _chart(story: Story, lanes: Mapping[str, Sequence[Span]]) -> Chart | None:
    longest_s = max((spans[-1].end_s for spans in lanes.values() if spans), default=0.0)
    if longest_s <= 0:
        return None
    height = 58 + _LANE * len(lanes)
    plot = Plot.of((0.0, longest_s / 3600), (0.0, 1.0), height=height, left=90)
    bottom = plot.y.start
    for tick in plot.x.ticks():
        plot.line(plot.x(tick), bottom, plot.x(tick), plot.y.end, "grid")
        plot.note(plot.x(tick), bottom + 18, f"{tick:g}", "tick", "middle")
    middle = (plot.x.start + plot.x.end) / 2
    plot.note(middle, height - 6, f"{story.word}hours of the host", "name", "middle")
    by_number = {r.number: r for r in story.results}
    for lane, (host, spans) in enumerate(lanes.items()):
        top = plot.y.end + _LANE * lane + 4
        plot.note(plot.x.start - 8, top + 18, host, "rowname", "end")
        plot.parts += [el("path", d=_boxes(plot, spans, kind, top), css=css)
                       for kind, css in KINDS.items()]  # fmt: skip
        plot.parts += _targets(plot, spans, by_number, top)
    title = f"{story.word}What each host did, over its hours"
    desc = "Bars from left to right in time; the ledger below sums them up."
    svg = plot.svg("fig-timeline", title, desc, emulated=story.emulated)
    known = {span.kind for spans in lanes.values() for span in spans}
    legend = tuple(Key(css, "box", kind) for kind, css in KINDS.items() if kind in known)
    return Chart(svg, legend)


def _boxes(plot: Plot, spans: Sequence[Span], kind: str, top: float) -> str:
    """Draw all spans of a kind as one path: thousands of them stay small."""
    drawn = []
    for span in spans:
        if span.kind == kind:
            left, right = plot.x(span.start_s / 3600), plot.x(span.end_s / 3600)
            drawn.append(f"M{left:.1f} {top:.0f}h{max(right - left, 0.3):.1f}v28h-"
                         f"{max(right - left, 0.3):.1f}z")  # fmt: skip
    return "".join(drawn) or "M0 0"


def _targets(
    plot: Plot, spans: Sequence[Span], by_number: Mapping[int, TrialResult], top: float
) -> Iterator[Markup]:
    """Yield one unseen box a trial, which tells it and leads to its row."""
    ends: dict[int, tuple[float, float]] = {}
    for span in spans:
        if span.trial is not None:
            start_s = ends.get(span.trial, (span.start_s, 0.0))[0]
            ends[span.trial] = (start_s, span.end_s)
    for number, (start_s, end_s) in ends.items():
        result = by_number[number]
        left, right = plot.x(start_s / 3600), plot.x(end_s / 3600)
        tip = f"trial {number}, {short(result.config)}: {figure(end_s - start_s)} s"
        box = el("rect", x=left, y=top, width=max(right - left, 0.3), height=28, css="target")
        yield el("g", box + el("title", tip), css="m", data_t=number,
                 data_v=result.config.variant)  # fmt: skip


def _bar(story: Story) -> Chart | None:
    book = story.ledger
    if not book.total:
        return None
    parts, at = [], 0.0
    for name, hours in book.spent.items():
        wide = WIDTH * hours / book.total
        tip = f"{story.word}{name}: {figure(hours)} {book.unit}"
        box = el("rect", x=at, y=4.0, width=max(0.0, wide - 1), height=26.0, css=_css(name))
        parts.append(el("g", box + el("title", tip), css="m"))
        at += wide
    head = el("title", f"{story.word}{book.unit} by what they were spent on", id="fig-ledger-t")
    svg = el("svg", head + joined(parts), viewBox=f"0 0 {WIDTH} 34", role="img",
             aria_labelledby="fig-ledger-t", css="chart bar")  # fmt: skip
    spent = book.spent.items()
    legend = tuple(Key(_css(name), "box", f"{name} {figure(hours)}") for name, hours in spent)
    return Chart(svg, legend, f"{story.word}{book.unit} by what they were spent on")


def _css(name: str) -> str:
    return KINDS.get(name, f"t-{name.split()[0]}")


def _table(story: Story) -> Table:
    spent = [
        (Cell(name), Cell(figure(hours), (), hours), Cell(_share(hours, story.ledger.total)))
        for name, hours in story.ledger.spent.items()
    ]
    saved = [
        (Cell(f"saved by {name}, by estimate"), Cell(figure(hours), (), hours), Cell(""))
        for name, hours in story.ledger.saved.items()
    ]
    head = ("spent on", story.ledger.unit, "share")
    return Table(f"{story.word}ledger", head, (*spent, *saved))


def _share(hours: float, total: float) -> str:
    return f"{hours / total:.0%}".replace("%", " %") if total else ""


def _starts(story: Story) -> Table:
    """Tell the phases of each start, as the server's log has them."""
    rows = tuple(
        (
            Cell(short(r.config), (r.number,)),
            Cell(figure(r.phase_s.get("starting", 0.0)), (), r.phase_s.get("starting", 0.0)),
            Cell(", ".join(f"{name} {figure(s)}" for name, s in r.start_phase_s.items())),
        )
        for r in story.results
        if r.phase_s
    )
    head = ("variant", "start, s", "of which, s")
    return Table(f"{story.word}how long each server took to start", head, rows)
