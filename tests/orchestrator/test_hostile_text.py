"""Hostile text in every field of a result, a host and a log: no page runs any of it."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from selenium.webdriver.remote.webdriver import WebDriver

from orchestrator.tracking.review import review_of
from orchestrator.tracking.run_content import result_note
from orchestrator.watching.page import Board, serve_page
from orchestrator.watching.sweep_status import EndedTrial, RunningTrial, SweepStatus
from sweeps.reporting.markdown import markdown
from sweeps.reporting.page import Beside, page
from sweeps.reporting.plain_text import plain_text
from sweeps.reporting.story import Story
from sweeps.results import Outcome, Phase, TrialResult
from tests.attacks import attack
from tests.orchestrator.test_report_in_browser import browser
from tests.sweeps.reporting.test_page import _story, _trials

__all__ = ["browser"]

pytestmark = pytest.mark.slow

ATTACK = (
    "\"'></title></svg></style></code><script>window.hit=1</script>"
    '<img src=x onerror="window.hit=1"><svg onload="window.hit=1"><a href="javascript:hit=1">x</a>'
    "\n\n# H\n\n[x](javascript:window.hit=1) ![y](x) `{{7*7}}` ${window.hit=1} &lt;b&gt; | a |"
)
ENUMS = {str(one) for kind in (Outcome, Phase) for one in kind} | {"unknown", "same", "NGRAM"}


def _attacked(data: Any, name: str = "") -> Any:
    """Put the attack into each text of plain data; what is an enum or an id stays one."""
    if isinstance(data, dict):
        return {key: _attacked(value, key) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_attacked(value, name) for value in data]
    is_kept = not isinstance(data, str) or data in ENUMS or name in ("trial", "variant")
    return data if is_kept else data + ATTACK


def _results() -> list[TrialResult]:
    made = []
    for one in _trials():
        data = _attacked(one.as_data())
        data |= {"notes": [ATTACK], "quality_note": ATTACK, "dirty": ATTACK, "why": ATTACK}
        data["start_phase_s"] = {ATTACK: 1.0}
        if data["reason"]:
            data |= {"reason": ATTACK, "signature": ATTACK}
        data["config"] |= {"NCCL_ALGO": ATTACK}
        made.append(TrialResult.from_data(data))
    return made


@pytest.fixture(scope="module")
def story() -> Story:
    told = {"name": ATTACK, "status": ATTACK, "created_at": ATTACK, "trouble": ATTACK}
    made = _story(_results(), **told)
    return replace(made, about=replace(made.about, sweep=f"t-1{ATTACK}"))


def _clean(browser: WebDriver, address: str) -> None:
    browser.get(address)
    assert browser.execute_script("return window.hit === undefined")
    found = browser.execute_script(
        "return [document.querySelectorAll('img').length,"
        " document.querySelectorAll('a[href^=javascript]').length,"
        " document.querySelectorAll('[onload], [onerror]').length]"
    )
    assert found == [0, 0, 0]
    assert browser.execute_script("return document.documentElement.innerText").count("hit=1") > 3


def _report(story: Story) -> str:
    beside = Beside(facts=[(ATTACK, [(ATTACK, ATTACK)])], spools={1: ATTACK}, made_at=ATTACK)
    return page(story, beside)


@attack("3: script in every text of a result, seen in report.html")
def test_a_report_runs_none_of_it(browser: WebDriver, story: Story, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(_report(story), encoding="utf-8")
    browser.get_log("browser")  # type: ignore[attr-defined] # what came before
    _clean(browser, path.as_uri())
    assert browser.execute_script("return document.scripts.length") == 1
    assert browser.execute_script("return document.documentElement.classList.contains('scripted')")
    # The policy had nothing to forbid: the text was no markup in the first place.
    assert browser.get_log("browser") == []  # type: ignore[attr-defined] # Chrome's


@attack("3: script that escaping would have missed, in report.html")
def test_the_policy_of_a_report_stops_what_would_slip_through(
    browser: WebDriver, story: Story, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    slipped = "<script>window.hit=1</script><img src=x onerror='window.hit=1'><main"
    path.write_text(_report(story).replace("<main", slipped, 1), encoding="utf-8")
    browser.get(path.as_uri())
    assert browser.execute_script("return document.scripts.length") == 2
    assert browser.execute_script("return window.hit === undefined")
    assert browser.execute_script("return document.documentElement.classList.contains('scripted')")


@attack("3: script and links in Markdown, for MLflow and pull requests")
def test_notes_in_markdown_hold_text_alone(
    browser: WebDriver, story: Story, tmp_path: Path
) -> None:
    plain = dict(story.results[0].config)
    notes = [markdown(story), review_of(story, plain).note, *map(result_note, story.results)]
    render = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table").render
    for number, note in enumerate(notes):
        body = render(note)
        assert "<script" not in body and "<img" not in body and "<a " not in body
        assert "<h1>H" not in body and "<code>" not in body
        path = tmp_path / f"{number}.html"
        path.write_text(f"<!doctype html><meta charset=utf-8>{body}", encoding="utf-8")
        browser.get(path.as_uri())
        assert browser.execute_script("return window.hit === undefined")


@pytest.mark.parametrize(
    "text",
    ["# a", "- a", "+ a", "1. a", "1) a", "= a", "a *b* _c_ __d__", "`a`", "<b>a</b>", "a|b",
     "&lt;b&gt; &#60;", "[a](b)", "![a](b)", "~~a~~", "\\*a\\*", "a\n\nb", "---", "> a", "$a$",
     "decode_tok_s", "* a", "***", "    a"],
)  # fmt: skip
def test_a_text_reads_in_markdown_as_it_is(text: str) -> None:
    render = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render
    body = render(plain_text(text)).strip()
    assert body.startswith("<p>") and body.endswith("</p>")
    inner = body[3:-4]
    assert "<" not in inner
    read = inner.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert read == " ".join(text.split())


def _status() -> SweepStatus:
    ended = EndedTrial(
        trial="t-1", number=1, name=ATTACK, purpose=ATTACK, outcome=ATTACK, reason=ATTACK,
        value=1.0, low=0.5, high=1.5, provisional=False, bound=None, accept_length=1.0,
    )  # fmt: skip
    running = RunningTrial(
        trial="t-2", number=2, name=ATTACK, purpose=ATTACK, why=ATTACK, host=ATTACK, phase=ATTACK,
        detail=ATTACK, elapsed_s=1.0, silent_s=30.0, tok_s=1.0, low=0.5, high=1.5,
        accept_length=1.0, steps_per_s=1.0, tokens=1, curve=(),
    )  # fmt: skip
    return SweepStatus(
        sweep=ATTACK, name=ATTACK, status="running", emulated=False, hosts=(ATTACK,),
        metric=ATTACK, unit=ATTACK, created_at=ATTACK, done=1, planned=2, outcomes={ATTACK: 1},
        gpu_hours=1.0, left_s=1.0, leader=ended, plain=ended, spent_gpu_hours={ATTACK: 1.0},
        saved_gpu_hours={ATTACK: 1.0}, running=(running,), ended=(ended,), warnings=(ATTACK,),
    )  # fmt: skip


@pytest.fixture
def live_address() -> Iterator[str]:
    ready, stop = threading.Event(), threading.Event()
    addresses: list[str] = []

    def told(address: str) -> None:
        addresses.append(address)
        ready.set()

    serving = threading.Thread(target=serve_page, args=(Board(_status), 0, told, stop))
    serving.start()
    try:
        assert ready.wait(60)
        yield addresses[0]
    finally:
        stop.set()
        serving.join(30)


@attack("3: script in every text of a sweep, seen in the live page")
def test_the_live_page_runs_none_of_it(browser: WebDriver, live_address: str) -> None:
    browser.get(live_address)
    browser.execute_async_script(
        "const done = arguments[0]; const look = () =>"
        " document.querySelectorAll('#ended tr').length ? done() : setTimeout(look, 50); look();"
    )
    assert browser.execute_script("return window.hit === undefined")
    assert browser.execute_script("return document.querySelectorAll('img, [onload]').length") == 0
    assert "window.hit=1" in browser.execute_script("return document.body.innerText")
