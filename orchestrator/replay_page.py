"""How a replay is shown: a table of settings, accept length over tokens, and what it comes to."""

from collections.abc import Callable

from rich.table import Table

from orchestrator.plain_console import plain_console
from orchestrator.replaying import Report, Row
from sweeps.drafting.ngram import NgramShape
from sweeps.results import Estimate

HARDLY = 1.1
"""Under this accept length hardly any host gains: two tokens cost more than one."""
CHEAP_TOKENS = 4


def print_replay(report: Report, plain_tok_s: float | None) -> None:
    """Print the whole page."""
    console = plain_console()
    here = report.circumstances
    console.print(
        f"{'EMULATED ' if here and here.emulated else ''}{report.source.name}: "
        f"{report.requests} requests, {report.output_tokens:,} tokens"
        + (f" of {here.model}" if here else "")
    )
    console.print(_settings(report, plain_tok_s))
    console.print(_curve(report.best))
    for line in conclusions(report, plain_tok_s):
        console.print(line)


def conclusions(report: Report, plain_tok_s: float | None) -> list[str]:
    """Answer whether it is worth the bother, as far as text alone can tell."""
    best = report.best
    if best.warm is None:
        return ["There is too little text to tell."]
    if best.warm.value < HARDLY:
        return [
            f"Hardly worth the bother: even {best.shape.draft_tokens} draft tokens come to only "
            f"{best.warm.value:.2f} tokens a step on this text."
        ]
    cheap = max(
        (r for r in report.rows if r.shape.draft_tokens <= CHEAP_TOKENS),
        key=lambda row: row.break_even or 0.0,
        default=best,
    )
    rows = [cheap] if cheap is best else [cheap, best]
    said = [_verdict(row, plain_tok_s) for row in rows]
    return [*said, "What a step takes on your host, a sweep measures; text cannot tell it."]


def _verdict(row: Row, plain_tok_s: float | None) -> str:
    assert row.warm is not None, "the best rows have text"
    limit = f"less than {row.warm.value:.2f} plain decode steps"
    if plain_tok_s:
        limit += f", {1000 * row.warm.value / plain_tok_s:.1f} ms"
    return f"{row.shape.draft_tokens} draft tokens gain where a verify step takes {limit}."


def _settings(report: Report, plain_tok_s: float | None) -> Table:
    shapes = [row.shape for row in report.rows]
    columns: dict[str, Callable[[NgramShape], str]] = {
        "draft tokens": lambda s: str(s.draft_tokens),
        "breadth": lambda s: str(s.max_breadth),
        "depth": lambda s: str(s.window.longest if s.window else s.depth),
        "match": lambda s: "PROB" if s.by_likelihood else "BFS",
    }
    shown = {
        name: cell
        for name, cell in columns.items()
        if name == "draft tokens" or len({cell(s) for s in shapes}) > 1
    }
    table = Table(caption="A verify step that takes longer loses to plain decode.")
    unit = "ms" if plain_tok_s else "plain steps"
    for name in (*shown, "accept cold", "accept warm", f"break-even, {unit}"):
        table.add_column(name, justify="right")
    for row in report.rows:
        cells = [cell(row.shape) for cell in shown.values()]
        table.add_row(*cells, _interval(row.cold), _interval(row.warm), _limit(row, plain_tok_s))
    return table


def _limit(row: Row, plain_tok_s: float | None) -> str:
    if row.break_even is None:
        return ""
    return f"{1000 * row.break_even / plain_tok_s:.1f}" if plain_tok_s else f"{row.break_even:.2f}"


def _curve(row: Row) -> Table:
    table = Table()
    table.add_column("tokens since the flush", justify="right")
    table.add_column(f"accept with {row.shape.draft_tokens} draft tokens", justify="right")
    for point in row.curve:
        span = f"{point.from_tokens:,} to {point.to_tokens:,}"
        table.add_row(span, _interval(point.accept))
    return table


def _interval(found: Estimate | None) -> str:
    if found is None:
        return ""
    mark = "~" if found.provisional else ""
    if found.low is None or found.high is None:
        return f"{mark}{found.value:.3f}"
    return f"{mark}{found.value:.3f} ±{(found.high - found.low) / 2:.3f}"
