"""Draws a sweep that runs elsewhere: a live table on a terminal, lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from orchestrator.plain_console import plain_console
from orchestrator.remote.following import View
from orchestrator.watching.following import picture
from orchestrator.watching.sweep_status import SweepStatus
from orchestrator.watching.wording import news


@contextmanager
def view_of(host: str) -> Iterator[View]:
    """Lend what fits the terminal, or the lack of one."""
    console = plain_console()
    if not console.is_terminal:
        yield Lines(host)
        return
    table = LiveView(host, console)
    with Live(
        console=console, get_renderable=table.picture, refresh_per_second=4, redirect_stdout=False
    ) as live:
        table.live = live
        yield table
    sys.stdout.write(table.summary)


class Lines:
    """A line for each piece of news."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._before: SweepStatus | None = None

    def output(self, text: str) -> None:
        """Print it as it came."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def status(self, seen: SweepStatus) -> None:
        """Print what has changed."""
        # The command prints its warnings itself.
        seen = replace(seen, warnings=())
        self.output("".join(f"{line}\n" for line in news(self._before, seen)))
        self._before = seen

    def blind(self, why: str) -> None:
        """Say that we are cut off, and that the sweep is not."""
        self.output(f"{blind_text(self._host, why)}\n")

    def heard(self, after_s: float) -> None:
        """Say that we are back."""
        self.output(f"{self._host} is heard again, after {after_s:.0f} s\n")


class LiveView:
    """The table of `status --follow`, and below it since when nothing was heard."""

    live: Live

    def __init__(self, host: str, console: Console) -> None:
        self._host, self._console = host, console
        self._seen: SweepStatus | None = None
        self._why, self._since_s = "", 0.0
        self.summary = ""

    def output(self, text: str) -> None:
        """Print it above the table; below, where the sweep has ended and this is its summary."""
        if self._seen is not None and not self._seen.is_running:
            self.summary += text
        else:
            self.live.console.print(Text(text.rstrip("\n")), soft_wrap=True)

    def status(self, seen: SweepStatus) -> None:
        """Draw it from now on."""
        self._seen = replace(seen, warnings=())

    def blind(self, why: str) -> None:
        """Say so below what was seen last."""
        self._why, self._since_s = why, time.monotonic()

    def heard(self, after_s: float) -> None:
        """Say nothing more of it."""
        self._why = ""

    def picture(self) -> RenderableType:
        """Draw what is known now."""
        seen = self._seen
        known = picture(seen) if seen else Text(f"{self._host}: the sweep has not begun yet")
        if not self._why:
            return known
        age = f"{time.monotonic() - self._since_s:.0f} s ago; above is what was known then"
        return Group(known, Text(f"{blind_text(self._host, self._why)} ({age})", "yellow"))


def blind_text(host: str, why: str) -> str:
    """Say that the follower sees nothing, which is no matter to the sweep."""
    return f"{host} is not heard ({why}); the sweep goes on there; trying again"
