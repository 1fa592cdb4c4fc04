"""How a sweep that runs elsewhere is drawn, also while it is not heard."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from rich.live import Live

from orchestrator.remote.view import Lines, LiveView
from tests.orchestrator.remote.sample import SEEN


def test_lines_tell_what_is_new_and_whether_the_host_is_heard(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = Lines("gpu1")
    lines.output("Continuing s\n")
    lines.status(SEEN)
    lines.blind("the connection was lost")
    lines.heard(12.3)
    lines.status(replace(SEEN, status="finished"))
    told = capsys.readouterr().out.splitlines()
    assert told[:2] == ["Continuing s", "EMULATED sweep s on gpu1: running"]
    assert told[2].startswith("trial   0 measured: plain  33.6")
    assert told[4:] == [
        "gpu1 is not heard (the connection was lost); the sweep goes on there; trying again",
        "gpu1 is heard again, after 12 s",
        "EMULATED sweep s on gpu1: finished",
    ]


def test_a_table_says_since_when_it_is_old_and_the_summary_comes_below_it() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=150)
    view = LiveView("gpu1", console)
    with Live(console=console, get_renderable=view.picture, auto_refresh=False) as view.live:
        assert "has not begun yet" in _drawn(view)
        view.output("Continuing s\n")
        view.status(SEEN)
        assert "EMULATED sweep s on gpu1: running" in _drawn(view)
        assert "WARNING of the driver" not in _drawn(view)
        view.blind("the connection was lost")
        assert "gpu1 is not heard (the connection was lost)" in _drawn(view)
        assert "above is what was known then" in _drawn(view)
        view.heard(3.0)
        assert "not heard" not in _drawn(view)
        view.status(replace(SEEN, status="finished"))
        view.output("best  plain\n")
    assert view.summary == "best  plain\n"
    printed = console.file
    assert isinstance(printed, io.StringIO)
    assert "Continuing s" in printed.getvalue()


def _drawn(view: LiveView) -> str:
    console = Console(file=io.StringIO(), width=150)
    console.print(view.picture())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
