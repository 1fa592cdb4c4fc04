"""What was predicted of each trial before its start, against what it measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from sweeps.intervals import Interval
from sweeps.naming import short
from sweeps.phrases import counted, listed
from sweeps.prediction.words import disagreement
from sweeps.reporting.parts import Cell, Chart, Key, Palette, Section, Table, ranged
from sweeps.reporting.story import Story
from sweeps.reporting.svg import Mark, Plot, around
from sweeps.results import Estimate, TrialResult

RATE = "decode_tok_s"


@dataclass(frozen=True, slots=True)
class Pair:
    """A trial that was predicted and measured."""

    result: TrialResult
    predicted: Interval
    measured: Estimate

    @property
    def error(self) -> float:
        """Return by what fraction the prediction was too high."""
        return self.predicted.value / self.measured.value - 1

    @property
    def trouble(self) -> str:
        """Say that the intervals do not meet; empty where they do."""
        return disagreement(self.predicted, self.measured)


def section(story: Story, predicted: Mapping[int, Interval]) -> Section | None:
    """Draw it; None where no trial was predicted."""
    pairs = [
        Pair(result, predicted[result.number], result.estimates[RATE])
        for result in story.results
        if result.number in predicted and result.outcome.has_rate and RATE in result.estimates
    ]
    if not pairs:
        return None
    return Section(
        "foretold",
        "Predicted before the start, against measured",
        lead=tuple(_lead(story, pairs)),
        charts=(_chart(story, pairs),),
        tables=(_table(story, pairs),),
    )


def _lead(story: Story, pairs: Sequence[Pair]) -> Iterator[str]:
    held = sum(_holds(pair) for pair in pairs)
    middle = median(abs(pair.error) for pair in pairs)
    yield (
        f"{counted(len(pairs), 'trial').capitalize()} had a prediction before the start."
        f" {story.word}In the median it was {middle:.1%} off, and {held} of the intervals hold what"
        " was measured. What was predicted is never reported as a result."
    ).replace("%", " %")
    wrong = [pair for pair in pairs if pair.trouble]
    if wrong:
        said = [f"trial {p.result.number} ({short(p.result.config)}): {p.trouble}" for p in wrong]
        yield f"{story.word}Beyond both intervals: {listed(said)}."
    else:
        yield "No measurement disagrees with its prediction beyond both intervals."


def _holds(pair: Pair) -> bool:
    low, high = pair.predicted.low, pair.predicted.high
    return low is not None and high is not None and low <= pair.measured.value <= high


def _chart(story: Story, pairs: Sequence[Pair]) -> Chart:
    palette = Palette(story.results)
    ends = around([end for p in pairs for part in (p.predicted, p.measured) for end in _ends(part)])
    plot = Plot.of(ends, ends, right=64)
    plot.frame(f"{story.word}predicted, tok/s", f"{story.word}measured, tok/s")
    plot.path([(ends[0], ends[0]), (ends[1], ends[1])], "even")
    for pair in pairs:
        config, number = pair.result.config, pair.result.number
        at = pair.predicted.value, pair.measured.value
        css = palette.css(config)
        plot.bars(
            (pair.predicted.low, pair.predicted.high), (pair.measured.low, pair.measured.high),
            at, css,
        )  # fmt: skip
        tip = f"trial {number}, {short(config)}: predicted {_ranged(pair.predicted)}"
        tip += f" tok/s, measured {_ranged(pair.measured)}"
        shape = "cross" if pair.trouble else "square" if config.is_plain else "dot"
        plot.mark(Mark(css, tip, number, config.variant, shape, 4), *at)
    title = f"{story.word}Predicted against measured tok/s of {counted(len(pairs), 'trial')}"
    desc = "Each trial is a point with 95 % intervals; on the bold line the two are equal."
    crossed = [Key("ink", "cross", "beyond both intervals")] * any(p.trouble for p in pairs)
    return Chart(
        plot.svg("fig-foretold", title, desc, emulated=story.emulated),
        (*palette.legend(), *crossed),
    )


def _ends(part: Interval | Estimate) -> tuple[float, float]:
    low, high = part.low, part.high
    return part.value if low is None else low, part.value if high is None else high


def _ranged(part: Interval | Estimate) -> str:
    return ranged(part.value, part.low, part.high)


def _table(story: Story, pairs: Sequence[Pair]) -> Table:
    rows = tuple(
        (
            Cell(short(p.result.config), (p.result.number,)),
            Cell(_ranged(p.predicted), (), p.predicted.value),
            Cell(_ranged(p.measured), (), p.measured.value),
            Cell(f"{100 * p.error:+.1f} %", (), p.error),
            Cell("beyond both intervals" if p.trouble else "within" if _holds(p) else "near"),
        )
        for p in pairs
    )
    head = ("variant", "predicted, tok/s", "measured, tok/s", "error", "verdict")
    return Table(f"{story.word}predictions and what came of them", head, rows)
