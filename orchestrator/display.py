"""Shows a running sweep: a live table on a terminal, plain lines elsewhere."""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from orchestrator.events import Follower, SweepStart, Tally
from orchestrator.job import TrialJob, TrialProgress
from orchestrator.wording import (
    accept_text,
    headline,
    length_so_far,
    phase_text,
    progress_text,
    rate_text,
    tally_text,
)
from sweeps.naming import label, short
from sweeps.results import Outcome, TrialResult
from sweeps.values import Value

ROWS_SHOWN = 15

QUIET_WALL_S = 10.0
"""How long plain lines stay silent before they say what goes on."""

_STYLES = {
    Outcome.MEASURED: "green",
    Outcome.PARTIAL: "yellow",
    Outcome.STOPPED: "cyan",
    Outcome.INFEASIBLE: "magenta",
    Outcome.HUNG: "red",
    Outcome.FAILED: "red",
    Outcome.CANCELLED: "dim",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A trial in the table. One that runs has no outcome."""

    number: str
    phase: str
    rate: str
    accept_length: str
    what: str
    outcome: str = ""


def drawn(title: str, rows: Iterable[Row], footer: str) -> RenderableType:
    """Draw trials, what is above them and what is below."""
    table = Table(title=title, title_justify="left", expand=True)
    for name in ("trial", "phase", "tok/s", "accept length", "configuration"):
        table.add_column(name, no_wrap=name != "configuration")
    for row in rows:
        style = _STYLES[Outcome(row.outcome)] if row.outcome else "bold"
        table.add_row(
            row.number, Text(row.phase, style), row.rate, row.accept_length, Text(row.what)
        )
    return Group(table, Text(footer))


def follower_for(console: Console) -> Follower:
    """Choose the live table where there is a terminal to draw it on."""
    return LiveTable(console) if console.is_terminal else PlainLines(console)


class LiveTable:
    """A table of the last trials, what runs, and the sum of it all, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=4, transient=False)
        self._ended: deque[TrialResult] = deque(maxlen=ROWS_SHOWN)
        self._running: dict[str, tuple[TrialJob, TrialProgress | None]] = {}
        self._title = ""
        self._plain: Mapping[str, Value] = {}
        self._tally: Tally | None = None

    def sweep_started(self, start: SweepStart) -> None:
        """Draw the empty table."""
        self._title = headline(start)
        self._plain = start.sweep.space.plain()
        self._live.start()

    def trial_started(self, job: TrialJob) -> None:
        """Add a row."""
        self._running[job.trial] = (job, None)
        self._draw()

    def progress(self, progress: TrialProgress, tally: Tally) -> None:
        """Bring the row of a running trial up to date."""
        job, _ = self._running[progress.trial]
        self._running[progress.trial] = (job, progress)
        self._tally = tally
        self._draw()

    def trial_ended(self, result: TrialResult, tally: Tally) -> None:
        """Turn a running row into a finished one."""
        self._running.pop(result.trial, None)
        self._ended.append(result)
        self._tally = tally
        self._draw()

    def sweep_ended(self, status: str) -> None:
        """Leave the last picture standing."""
        self._draw()
        self._live.stop()

    def _draw(self) -> None:
        self._live.update(self._picture())

    def _picture(self) -> RenderableType:
        rows = [
            Row(
                str(result.number), result.outcome.value, rate_text(result),
                accept_text(result), label(result.config, self._plain), result.outcome.value,
            )
            for result in self._ended
        ]  # fmt: skip
        for job, progress in self._running.values():
            phase = phase_text(progress) if progress else "admitted"
            what = f"{label(job.config, self._plain)} ({job.why or job.purpose.value})"
            rows.append(
                Row(
                    str(job.number), phase, progress_text(progress), length_so_far(progress), what
                )
            )  # fmt: skip
        return drawn(self._title, rows, tally_text(self._tally))


class PlainLines:
    """A line for each thing that happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._numbers: dict[str, int] = {}
        self._said_s = time.monotonic()

    def sweep_started(self, start: SweepStart) -> None:
        """Print the headline."""
        self._say(headline(start))

    def trial_started(self, job: TrialJob) -> None:
        """Print what is tried."""
        self._numbers[job.trial] = job.number
        why = f" ({job.why})" if job.why else ""
        self._say(f"trial {job.number:3d} {job.purpose.value}: {short(job.config)}{why}")

    def progress(self, progress: TrialProgress, tally: Tally) -> None:
        """Print a sign of life where nothing was said for a while: a start can take minutes."""
        if time.monotonic() - self._said_s < QUIET_WALL_S:
            return
        parts = [f"{phase_text(progress)}, {progress.elapsed_s:.0f} s", progress_text(progress)]
        self._say(f"trial {self._numbers[progress.trial]:3d} " + "  ".join(filter(None, parts)))

    def trial_ended(self, result: TrialResult, tally: Tally) -> None:
        """Print how it ended."""
        parts = [f"trial {result.number:3d} {result.outcome.value}", rate_text(result)]
        if accept := accept_text(result):
            parts.append(f"accept length {accept}")
        if result.reason:
            parts.append(result.reason)
        self._say("  ".join(part for part in parts if part))
        self._say(f"          {tally_text(tally)}")

    def sweep_ended(self, status: str) -> None:
        """Print the end."""
        self._say(f"sweep {status}")

    def _say(self, line: str) -> None:
        self._said_s = time.monotonic()
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
