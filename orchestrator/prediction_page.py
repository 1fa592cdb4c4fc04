"""What `predict` prints: sentences, a table by draft length, and the surface of the space."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.plain_console import plain_console
from sweeps.config import Config
from sweeps.intervals import Interval
from sweeps.naming import abbreviated
from sweeps.phrases import figure
from sweeps.prediction.cells import Cell
from sweeps.prediction.prediction import Prediction
from sweeps.prediction.words import algorithms, best_by_width, percents, sentences
from sweeps.search.roles import serving_of
from sweeps.values import show

STYLES: Mapping[str, str] = {
    "gains": "green", "open": "yellow", "loses": "red", "dominated": "dim",
}  # fmt: skip
MOST_SERVINGS = 6
WIDE = 120
_MARKS: Mapping[str, str] = {"gains": "+", "open": "?", "loses": "-", "dominated": "x"}


def print_prediction(prediction: Prediction, name: str, console: Console | None = None) -> None:
    """Show a prediction, a prior as one."""
    page = console or _page()
    word = "EMULATED host, " if prediction.emulated else ""
    page.print(f"prediction for {name}: {word}{prediction.basis}", highlight=False, markup=False)
    for algorithm in algorithms(prediction.cells):
        page.print(_by_width(prediction, algorithm))
        page.print(_surface(prediction, algorithm))
    for sentence in sentences(prediction):
        page.print(sentence, highlight=False, markup=False)


def _page() -> Console:
    """Return where it is shown; what is no terminal gets tables in full."""
    page = plain_console(soft_wrap=True)
    return page if page.is_terminal else plain_console(soft_wrap=True, width=WIDE)


def _by_width(prediction: Prediction, algorithm: str) -> Table:
    """Return a row for each draft length at the default settings of communication."""
    word = "a prior; " if prediction.trials == 0 else ""
    about = f"{algorithm} by draft length ({word}* measured; worth: expected gain, % per GPU-hour)"
    table = Table(title=about, title_justify="left")
    for head in ("drafts", "accept length", "break-even", "tok/s", "gain on plain %", "", "worth"):
        table.add_column(head, justify="right", no_wrap=True)
    widths = best_by_width(prediction.cells, algorithm, serving_of(prediction.plain))
    for width, cell in widths.items():
        table.add_row(
            str(width) + ("*" if cell.measured else ""), _ranged(cell.accept),
            _ranged(cell.break_even), _ranged(cell.tok_s), percents(cell.speed_up),
            Text(cell.verdict, STYLES[cell.verdict]), f"{100 * cell.gain_per_gpu_hour:.2f}",
        )  # fmt: skip
    return table


def _surface(prediction: Prediction, algorithm: str) -> Table:
    """Draw tok/s over draft length and settings of communication."""
    servings = _servings(prediction, algorithm)
    table = Table(
        title="tok/s by draft length and communication: + gains, ? open, - loses, x never can",
        title_justify="left",
    )  # fmt: skip
    table.add_column("draft tokens", justify="right")
    columns = [best_by_width(prediction.cells, algorithm, serving) for serving in servings]
    for serving in servings:
        table.add_column(_named(serving, prediction.plain), justify="right")
    plain = {serving_of(c.config): c for c in prediction.cells if c.config.is_plain}
    table.add_row("plain", *(_cell(plain.get(serving)) for serving in servings))
    for width in sorted({width for column in columns for width in column}):
        table.add_row(str(width), *(_cell(column.get(width)) for column in columns))
    return table


def _servings(prediction: Prediction, algorithm: str) -> Sequence[Config]:
    """Return the settings that are shown: the default, then the fastest."""
    ranked = dict.fromkeys(
        serving_of(cell.config) for cell in prediction.cells if cell.config.algorithm == algorithm
    )
    default = serving_of(prediction.plain)
    return [default, *(serving for serving in ranked if serving != default)][:MOST_SERVINGS]


def _named(serving: Config, plain: Config) -> str:
    changed = [(n, v) for n, v in serving.items() if plain.get(n) != v]
    return " ".join(f"{abbreviated(n)}={show(v)}" for n, v in changed) or "default"


def _cell(cell: Cell | None) -> Text:
    if cell is None:
        return Text("")
    if cell.config.is_plain:
        return Text(f"{cell.tok_s.value:.1f}  ")
    return Text(f"{cell.tok_s.value:.1f} {_MARKS[cell.verdict]}", STYLES[cell.verdict])


def _ranged(interval: Interval) -> str:
    if interval.low is None or interval.high is None or interval.low == interval.high:
        return figure(interval.value)
    return f"{figure(interval.value)} ({figure(interval.low)}-{figure(interval.high)})"
