"""The table of a screening, for people."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress
from rich.table import Table

from orchestrator.plain_console import plain_console
from orchestrator.screening import Screening, sizes_of
from sweeps.hosts import HostSpec
from sweeps.screening import Place, Screened
from sweeps.values import show

_SHOWN_TROUBLE_CHARS = 60


def print_screening(found: Screening) -> None:
    """Show the settings of a host, best first, and what the table does not say."""
    console = plain_console(highlight=False)
    word = "EMULATED host" if found.emulated else "Host"
    table = Table(title=f"{word} {found.host}: one all-reduce in µs")
    table.add_column("setting", overflow="fold")
    table.add_column("of default", justify="right")
    for size in _shown(sizes_of(found.screened)):
        table.add_column(f"{size / 1024:g} KiB", justify="right")
    for place in found.places:
        table.add_row(*_row(place, found))
    console.print(table)
    for name in found.not_screened:
        console.print(f"{name} was not screened: only a server of SGLang shows what it does.")
    console.print(
        "An all-reduce is a part of a step: a sweep measures what becomes of tok/s. It takes these "
        "times for a start, and no setting that hangs or fails here."
    )


def _row(place: Place, found: Screening) -> list[str]:
    default = found.screened[0].setting
    changed = [f"{n}={show(v)}" for n, v in place.screened.setting.items() if v != default[n]]
    text = ", ".join(changed) or "all defaults"
    if place.ratio == math.inf:
        return [text, place.screened.trouble[:_SHOWN_TROUBLE_CHARS]]
    times_us = {r.size_bytes: r.median_us for r in place.screened.reductions}
    shown = _shown(list(times_us))
    return [text, f"{place.ratio:.3f}", *(f"{times_us[size]:.1f}" for size in shown)]


def _shown(sizes: list[int]) -> list[int]:
    """Pick the smallest, a middle and the largest: the rest is in the file."""
    return [sizes[0], sizes[len(sizes) // 2], sizes[-1]] if len(sizes) > 3 else sizes


@contextmanager
def teller() -> Iterator[Callable[[HostSpec, Screened, int], None]]:
    """Show the progress of a screening on the error output, a bar for each host."""
    console = plain_console(stderr=True, highlight=False)
    with Progress(console=console, transient=True) as progress:
        bars = {}

        def tell(host: HostSpec, screened: Screened, most: int) -> None:
            word = "EMULATED " if host.emulated else ""
            if host.name not in bars:
                bars[host.name] = progress.add_task(f"{word}{host.name}", total=most)
            progress.advance(bars[host.name])
            if screened.trouble:
                console.print(f"{screened.setting}: {screened.trouble}")

        yield tell
