"""Shows on a terminal how a sweep stands, once or for as long as it runs."""

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from orchestrator.watching import wording
from orchestrator.watching.sweep_status import SweepStatus

if TYPE_CHECKING:
    from rich.console import RenderableType

ROWS_SHOWN = 15


def print_status(seen: SweepStatus) -> None:
    """Show where a sweep stands, in a table and a few lines."""
    from orchestrator.plain_console import plain_console

    plain_console().print(picture(seen))


def follow(looks: Iterable[SweepStatus]) -> SweepStatus:
    """Show each look as it comes, in place where there is a terminal; return the last one."""
    from rich.live import Live

    from orchestrator.plain_console import plain_console

    console = plain_console()
    if not console.is_terminal:
        return _say_news(looks)
    with Live(console=console, refresh_per_second=4) as live:
        last = None
        for last in looks:
            live.update(picture(last))
    assert last is not None, "the first look comes at once"
    return last


def follow_as_json(looks: Iterable[SweepStatus]) -> SweepStatus:
    """Print each look as a line of JSON; return the last one."""
    last = None
    for last in looks:
        sys.stdout.write(json.dumps(last.as_data()) + "\n")
        sys.stdout.flush()
    assert last is not None, "the first look comes at once"
    return last


def picture(seen: SweepStatus) -> "RenderableType":
    """Draw what runs, what has ended last, and the sum of it."""
    from orchestrator.display import Row, drawn

    rows = [
        Row(
            str(one.number), one.outcome, wording.value_text(one, seen.unit),
            wording.length_text(one.accept_length), one.name, one.outcome,
        )
        for one in seen.ended[-ROWS_SHOWN:]
    ]  # fmt: skip
    rows += [
        Row(
            str(one.number), wording.phase_text(one), wording.rate_text(one),
            wording.length_text(one.accept_length), f"{one.name} ({one.why or one.purpose})",
        )
        for one in seen.running
    ]  # fmt: skip
    lines = [f"{seen.word}{wording.sum_text(seen)}"]
    if spent := wording.ledger_text(seen):
        lines.append(f"hours  {spent}")
    return drawn(wording.title(seen), rows, "\n".join([*lines, *seen.warnings]))


def _say_news(looks: Iterable[SweepStatus]) -> SweepStatus:
    before = None
    for seen in looks:
        for line in wording.news(before, seen):
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        before = seen
    assert before is not None, "the first look comes at once"
    return before
