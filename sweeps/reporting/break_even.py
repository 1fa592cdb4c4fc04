"""The picture that says why a variant wins or loses: accept length against the cost of a cycle."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from sweeps.config import Config
from sweeps.factors import best_plain_step, factors_of
from sweeps.intervals import Interval, interval_of, quotient
from sweeps.naming import short
from sweeps.phrases import figure
from sweeps.ranking import Standing
from sweeps.reporting.parts import Cell, Chart, Key, Palette, Section, Table, ranged
from sweeps.reporting.story import Story
from sweeps.reporting.svg import Mark, Plot, around
from sweeps.results import Outcome, TrialResult
from sweeps.search.roles import DRAFT_TOKENS

GAINS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
"""Speed-ups whose lines are drawn."""


@dataclass(frozen=True, slots=True)
class Point:
    """A variant on one host, over its starts."""

    config: Config
    cost: Interval
    """A cycle in steps of the best plain decode: also the accept length of break-even."""
    accept: Interval
    trials: tuple[int, ...]
    outcome: Outcome
    draft_tokens: int | None
    is_bound: bool = False
    """Its accept length is only known to be at most this."""

    @property
    def gain(self) -> float:
        """Return the rate over that of the best plain decode."""
        return self.accept.value / self.cost.value

    @property
    def verdict(self) -> str:
        """Say how it stands to plain decode, as far as its interval can tell."""
        gain = quotient(self.accept, self.cost)
        if self.is_bound or (gain.high is not None and gain.high < 1):
            return "it loses"
        if gain.low is not None and gain.low > 1:
            return "it wins"
        return "a tie, as far as its interval can tell"


def points_of(results: Sequence[TrialResult]) -> list[Point]:
    """Return every variant whose factors are known, or bounded where it was stopped."""
    steps = {host: best_plain_step(results, host) for host in {r.host for r in results}}
    groups: dict[tuple[str, str], list[Point]] = {}
    for result in results:
        step = steps[result.host]
        if step is not None and (point := _of_trial(result, step)) is not None:
            groups.setdefault((result.host, result.config.variant), []).append(point)
    return [_joined(group) for group in groups.values()]


def _of_trial(result: TrialResult, step: Standing) -> Point | None:
    factors, cycle = factors_of(result, step), result.estimates.get("cycle_ms")
    if cycle is None:
        return None
    plain_step = Interval(step.value, step.low, step.high)
    cost = quotient(interval_of(cycle), plain_step)
    accept, is_bound = Interval(1.0, 1.0, 1.0), False
    if factors is not None:
        accept = factors.accept_length
    elif not result.config.is_plain:
        if result.outcome is not Outcome.STOPPED or result.bound is None:
            return None
        accept, is_bound = Interval(result.bound * cycle.value / 1000, None, None), True
    most = factors.most_per_step if factors else result.effective.get(DRAFT_TOKENS)
    tokens = most if type(most) is int and not result.config.is_plain else None
    numbers = (result.number,)
    return Point(result.config, cost, accept, numbers, result.outcome, tokens, is_bound)


def _joined(group: Sequence[Point]) -> Point:
    """Average the starts of a variant; those that ran to their end alone, if there are any."""
    firm = [p for p in group if not p.is_bound] or group
    whole = [p for p in firm if p.outcome.has_rate] or firm
    return replace(
        whole[0],
        cost=_mean([p.cost for p in whole]),
        accept=_mean([p.accept for p in whole]),
        trials=tuple(number for p in whole for number in p.trials),
    )


def _mean(parts: Sequence[Interval]) -> Interval:
    """Average over starts; the ends are averaged too, which is no narrower than the truth."""
    lows, highs = [p.low for p in parts], [p.high for p in parts]
    return Interval(fmean(p.value for p in parts), _fmean(lows), _fmean(highs))


def _fmean(ends: Sequence[float | None]) -> float | None:
    known = [end for end in ends if end is not None]
    return fmean(known) if len(known) == len(ends) else None


def section(story: Story) -> Section | None:
    """Draw it; None where no speculative variant has both factors."""
    points = points_of(story.results)
    drafted = [point for point in points if not point.config.is_plain]
    if not drafted:
        return None
    return Section(
        "break-even",
        "Why: accept length against the cost of a cycle",
        lead=tuple(_lead(drafted)),
        charts=(_chart(story, points),),
        tables=(_table(story, points),),
    )


def _lead(points: Sequence[Point]) -> Iterator[str]:
    yield (
        "A draft-and-verify cycle costs more than a plain step, and brings more tokens. On the bold"
        " line the two balance; what lies above it is faster than the best plain decode, what lies"
        " below is slower. Left is a cheap cycle, up is a draft that guesses well."
    )
    for algorithm in dict.fromkeys(point.config.algorithm for point in points):
        ours = [p for p in points if p.config.algorithm == algorithm]
        ours = [p for p in ours if not p.is_bound] or ours
        best = max(ours, key=lambda p: p.gain)
        yield f"Best of {algorithm}, {_reason(best)}"
        widest = max(ours, key=lambda p: (p.draft_tokens or 0, p.gain))
        if (widest.draft_tokens or 0) > (best.draft_tokens or 0):
            yield f"The longest drafts of {algorithm}, {_reason(widest)}"


def _reason(point: Point) -> str:
    tokens = f"{point.draft_tokens} draft tokens: " if point.draft_tokens else ""
    most = "at most " if point.is_bound else ""
    return (
        f"{tokens}a cycle costs {figure(point.cost.value)} plain steps, so it needs"
        f" {figure(point.cost.value)} tokens a cycle to break even and gets"
        f" {most}{figure(point.accept.value)}: {most}{figure(point.gain)} x plain decode,"
        f" {point.verdict}."
    )


def _chart(story: Story, points: Sequence[Point]) -> Chart:
    palette = Palette(story.results)
    costs = [e for p in points for e in (p.cost.value, p.cost.high or p.cost.value)]
    accepts = [e for p in points for e in (p.accept.value, p.accept.high or p.accept.value)]
    across = (max(0.0, min(p.cost.value for p in points) - 0.15), around(costs)[1])
    plot = Plot.of(across, (min(0.8, *accepts), around([*accepts, 1.5])[1]), right=64)
    plot.frame(
        f"{story.word}cycle, in steps of the best plain decode",
        f"{story.word}accept length, tokens",
    )
    for gain in GAINS:
        _iso(plot, gain)
    best = story.answer.standing.config if story.answer else None
    for point in sorted(points, key=lambda p: p.config == best):
        _draw(plot, point, palette.css(point.config), is_best=point.config == best)
    title = f"{story.word}Accept length against cycle cost, {len(points)} variants"
    desc = "Each variant is a point with 95 % intervals; lines join equal speed-ups."
    legend = (
        *palette.legend(), Key("ink", "diamond", "recommended"),
        *([Key("ink", "ring", "stopped early or cut off")] * any(map(_is_short, points))),
        *([Key("ink", "down", "stopped in its step probe: at most")]
          * any(point.is_bound for point in points)),
    )  # fmt: skip
    return Chart(plot.svg("fig-even", title, desc, emulated=story.emulated), legend)


def _is_short(point: Point) -> bool:
    return point.outcome is not Outcome.MEASURED and not point.is_bound


def _iso(plot: Plot, gain: float) -> None:
    """Draw a line of equal speed-up as far as it crosses the frame, with its name at the end."""
    start = max(plot.x.low, plot.y.low / gain)
    end = min(plot.x.high, plot.y.high / gain)
    if end <= start:
        return
    plot.path([(start, gain * start), (end, gain * end)], "even" if gain == 1 else "iso")
    name = "break-even" if gain == 1 else f"{gain:g} x"
    leaves_right = end >= plot.x.high
    at = plot.x(end) + (4 if leaves_right else -4)
    height = plot.y(gain * end) + (4 if leaves_right else 12)
    plot.note(at, height, name, "iso-name", "start" if leaves_right else "end")


def _draw(plot: Plot, point: Point, css: str, *, is_best: bool) -> None:
    shape = "square" if point.config.is_plain else "dot"
    if point.outcome is not Outcome.MEASURED:
        shape = "down" if point.is_bound else "ring"
    at = (point.cost.value, point.accept.value)
    plot.bars((point.cost.low, point.cost.high), (point.accept.low, point.accept.high), at, css)
    tip = (
        f"{short(point.config)}: cycle {ranged(*_ends(point.cost))} plain steps, accept length"
        f" {_accept(point)}, {_gain(point)} plain decode"
    )
    mark = Mark(css, tip, point.trials[0], point.config.variant, "diamond" if is_best else shape)
    plot.mark(mark, *at)
    if is_best:
        is_right = plot.x.share(at[0]) > 0.5
        place, anchor = (-11, "end") if is_right else (11, "start")
        plot.note(plot.x(at[0]) + place, plot.y(at[1]) - 9, "recommended", "called", anchor)


def _ends(part: Interval) -> tuple[float, float | None, float | None]:
    return part.value, part.low, part.high


def _accept(point: Point) -> str:
    if point.is_bound:
        return f"at most {figure(point.accept.value)}"
    return ranged(*_ends(point.accept))


def _gain(point: Point) -> str:
    return f"{'at most ' if point.is_bound else ''}{figure(point.gain)} x"


def _table(story: Story, points: Sequence[Point]) -> Table:
    rows = tuple(
        (
            Cell(short(p.config)),
            Cell(_accept(p), p.trials, p.accept.value),
            Cell(ranged(*_ends(p.cost)), (), p.cost.value),
            Cell(_gain(p), (), p.gain),
            Cell(p.outcome.value),
        )
        for p in sorted(points, key=lambda p: -p.gain)
    )
    head = ("variant", "accept length", "break-even (cycle / plain step)", "speed-up", "outcome")
    return Table(f"{story.word}factors of every variant, fastest first", head, rows)
