"""What a report is made of: sections of sentences, charts and tables, as plain data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sweeps.config import Config
from sweeps.phrases import figure
from sweeps.results import TrialResult

SERIES = 5
"""Colours besides that of plain decode."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Words of a table, and the numbers of the trials that they come from."""

    text: str
    trials: tuple[int, ...] = ()
    key: float | None = None
    """What the column is sorted by; None: by the words."""


Row = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    open: bool = False
    """Shown at once, not behind a summary."""


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a legend."""

    css: str
    shape: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture as SVG."""

    svg: Markup
    legend: tuple[Key, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page. What is empty is not shown."""

    key: str
    title: str
    lead: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    bullets: tuple[str, ...] = ()


class Palette:
    """Colours by algorithm, in the order of their first trials; plain decode is always grey."""

    def __init__(self, results: Iterable[TrialResult]) -> None:
        names = dict.fromkeys(r.config.algorithm for r in results if not r.config.is_plain)
        self._css: Mapping[str | None, str] = {
            name: f"s{index % SERIES}" for index, name in enumerate(names)
        }

    def css(self, config: Config) -> str:
        """Return the class of a configuration."""
        return self._css.get(config.algorithm, "plain")

    def legend(self) -> tuple[Key, ...]:
        """Return an entry for each algorithm."""
        algorithms = (Key(css, "dot", str(name)) for name, css in self._css.items())
        return (Key("plain", "square", "plain decode"), *algorithms)


def ranged(value: float, low: float | None, high: float | None) -> str:
    """Write a number with its 95 % interval, in a table or a tip."""
    if low is None or high is None:
        return f"{figure(value)} (no interval)"
    return figure(value) if low == high else f"{figure(value)} ({figure(low)} to {figure(high)})"


def numbers_of(results: Sequence[TrialResult]) -> dict[str, int]:
    """Return the number of each trial by its id."""
    return {result.trial: result.number for result in results}
