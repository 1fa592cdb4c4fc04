"""Cold against warm: how accept length grows while a server generates, after a flush."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweeps.config import Config
from sweeps.naming import short
from sweeps.phrases import figure
from sweeps.reporting.parts import Cell, Chart, Key, Section, Table, ranged
from sweeps.reporting.story import Story
from sweeps.reporting.svg import Mark, Plot, around
from sweeps.results import Estimate, Phase, TrialResult
from sweeps.search.roles import drafting_of

SHOWN = 4
"""Trials whose curves are drawn."""
AFTER_FLUSH = (Phase.COLD.value, Phase.SETTLING.value, Phase.MEASURING.value)
_LENGTH, _COLD = "accept_length", "accept_length_cold"


@dataclass(frozen=True, slots=True)
class Answered:
    """A request that finished: in which pass, with how many tokens, in how many verify steps."""

    phase: str
    output_tokens: int
    verify_steps: int

    @property
    def accept_length(self) -> float:
        """Return tokens per verify step, without the token of the prefill."""
        return (self.output_tokens - 1) / self.verify_steps


def chosen(story: Story) -> tuple[int, ...]:
    """Return the trials whose curves are drawn: the fastest of each algorithm, each with other
    drafts, since accept length depends on nothing else."""
    with_both = [r for r in story.results if r.may_lead and _COLD in r.estimates
                 and not r.config.is_plain and _LENGTH in r.estimates]  # fmt: skip
    with_both.sort(key=lambda r: -(r.value("decode_tok_s") or 0.0))
    drafts: dict[Config, TrialResult] = {}
    for result in with_both:
        drafts.setdefault(drafting_of(result.config), result)
    firsts: dict[str | None, int] = {}
    for result in drafts.values():
        firsts.setdefault(result.config.algorithm, result.number)
    rest = [r.number for r in drafts.values() if r.number not in firsts.values()]
    return tuple([*firsts.values(), *rest][:SHOWN])


def section(story: Story, answers: Mapping[int, Sequence[Answered]]) -> Section | None:
    """Draw it; `answers` are of the chosen trials, in order. None where no cold pass was made."""
    both = [r for r in story.results if _COLD in r.estimates and _LENGTH in r.estimates
            and not r.config.is_plain]  # fmt: skip
    if not both:
        return None
    drawn = {number: rows for number, rows in answers.items() if len(rows) > 1}
    return Section(
        "cache",
        "Cold against warm",
        lead=tuple(_lead(both)),
        charts=(_chart(story, drawn),) if drawn else (),
        tables=(_table(story, both),),
    )


def _lead(both: Sequence[TrialResult]) -> Iterator[str]:
    yield (
        "An n-gram drafter learns from what a server generates. After a flush the cold pass is"
        " sent; then the server generates until accept length stands still, and only then it is"
        " measured. No prompt is sent twice."
    )
    best = max(both, key=_growth)
    share = f"{_growth(best) - 1:+.0%}".replace("%", " %")
    yield (
        f"The largest change is {share}: {short(best.config)}, accept length"
        f" {figure(best.value(_COLD) or 0)} cold and {figure(best.value(_LENGTH) or 0)} warm."
    )


def _growth(result: TrialResult) -> float:
    cold, warm = result.value(_COLD), result.value(_LENGTH)
    return warm / cold if cold and warm else 1.0


def _chart(story: Story, answers: Mapping[int, Sequence[Answered]]) -> Chart:
    by_number = {r.number: r for r in story.results}
    totals = [sum(a.output_tokens for a in rows) for rows in answers.values()]
    lengths = [a.accept_length for rows in answers.values() for a in rows]
    plot = Plot.of((0.0, max(totals) * 1.02), around(lengths))
    plot.frame("tokens generated since the flush", f"{story.word}accept length of a request")
    legend = []
    for index, (number, rows) in enumerate(answers.items()):
        result, css = by_number[number], f"k{index}"
        _draw(plot, result, rows, css)
        legend.append(Key(css, "dot", f"trial {number}: {short(result.config)}"))
    title = f"{story.word}Accept length of each request since the flush"
    desc = "Rings are the cold pass, small dots generated warm-up, large dots the measured pass."
    chart = plot.svg("fig-cache", title, desc, emulated=story.emulated)
    return Chart(chart, tuple(legend), desc)


def _draw(plot: Plot, result: TrialResult, rows: Sequence[Answered], css: str) -> None:
    generated, line = 0, []
    for row in rows:
        generated += row.output_tokens
        line.append((float(generated), row.accept_length))
        shape = "ring" if row.phase == Phase.COLD.value else "dot"
        size = 2.5 if row.phase == Phase.SETTLING.value else 4.0
        tip = f"trial {result.number}, {row.phase}: {figure(row.accept_length)} after {generated:,}"
        plot.mark(Mark(css, tip, result.number, result.config.variant, shape, size), *line[-1])
    plot.path(line, f"thin {css}")


def _table(story: Story, both: Sequence[TrialResult]) -> Table:
    rows = tuple(
        (
            Cell(short(r.config), (r.number,)),
            Cell(_told(r.estimates[_COLD]), (), r.value(_COLD)),
            Cell(_told(r.estimates[_LENGTH]), (), r.value(_LENGTH)),
            Cell(f"{_growth(r):.2f} x", (), _growth(r)),
            Cell(_rate(r, "decode_tok_s_cold"), (), r.value("decode_tok_s_cold")),
            Cell(_rate(r, "decode_tok_s"), (), r.value("decode_tok_s")),
        )
        for r in sorted(both, key=lambda r: -_growth(r))
    )
    head = ("variant", "accept length, cold", "warm", "warm / cold", "tok/s, cold", "warm")
    return Table(f"{story.word}cold and warm cache, every trial with both", head, rows)


def _rate(result: TrialResult, metric: str) -> str:
    value = result.value(metric)
    return "" if value is None else figure(value)


def _told(estimate: Estimate) -> str:
    return ranged(estimate.value, estimate.low, estimate.high)
