"""The report in a real browser: no error, nothing fetched, accessible in light and in dark."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_core_python.selenium import Axe
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

from tests.sweeps.reporting.test_page import made_page

pytestmark = pytest.mark.slow

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
WIDE, NARROW = (1280, 1000), (390, 800)


@pytest.fixture(scope="module")
def browser() -> Iterator[WebDriver]:
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no Chromium")
    options = Options()
    options.binary_location = program
    for flag in FLAGS:
        options.add_argument(flag)
    logs = {"browser": "ALL", "performance": "ALL"}
    options.set_capability("goog:loggingPrefs", logs)
    made = webdriver.Chrome(options=options, service=Service(driver))
    made.set_page_load_timeout(120)
    made.set_script_timeout(300)
    yield made
    made.quit()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(made_page(), encoding="utf-8")
    return path.as_uri()


def _open(browser: WebDriver, address: str, size: tuple[int, int] = WIDE) -> None:
    browser.set_window_size(*size)
    browser.get(address)


def _scheme(browser: WebDriver, scheme: str) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    told = {"features": [feature]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", told)


def test_it_opens_without_an_error_and_asks_nobody(browser: WebDriver, address: str) -> None:
    browser.get_log("performance")  # type: ignore[attr-defined] # what came before
    _open(browser, address)
    assert browser.get_log("browser") == []  # type: ignore[attr-defined] # Chrome's
    told = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]  # type: ignore[attr-defined]
    asked = [
        m["params"]["request"]["url"] for m in told if m["method"] == "Network.requestWillBeSent"
    ]
    assert {url for url in asked if not url.startswith("data:")} == {address}


@pytest.mark.parametrize(
    ("scheme", "rules"),
    # A scheme changes colors and nothing else.
    [("light", None), ("dark", {"runOnly": ["color-contrast", "link-in-text-block"]})],
)
def test_axe_finds_nothing_serious(
    browser: WebDriver, address: str, scheme: str, rules: dict[str, Any] | None
) -> None:
    _scheme(browser, scheme)
    _open(browser, address)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    found: dict[str, Any] = Axe().run(browser, options=rules)
    serious = [
        (one["id"], one["nodes"][0]["html"][:120], one["nodes"][0]["failureSummary"])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_a_narrow_page_does_not_scroll_sideways(browser: WebDriver, address: str) -> None:
    _open(browser, address, NARROW)
    wide, seen = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= seen


def test_a_mark_tells_itself_and_leads_to_its_trial(browser: WebDriver, address: str) -> None:
    _open(browser, address)
    browser.execute_script(
        "const mark = document.querySelector('#history .m[data-t=\"3\"]');"
        "mark.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));"
    )
    assert "trial 3" in str(
        browser.execute_script("return document.getElementById('tip').innerText")
    )
    assert browser.execute_script("return document.querySelector('#t3').classList.contains('on')")
    browser.execute_script(
        "document.querySelector('#history .m[data-t=\"3\"]')"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert browser.current_url.endswith("#t3")


def test_tables_sort_and_filter(browser: WebDriver, address: str) -> None:
    _open(browser, address)
    browser.execute_script("document.querySelectorAll('.trials th button')[4].click()")
    order = browser.execute_script(
        "return Array.from(document.querySelectorAll('.trials tbody td:nth-child(5)'))"
        ".map(cell => parseFloat(cell.dataset.k)).filter(k => !isNaN(k))"
    )
    assert order == sorted(order)
    assert len(order) > 10
    shown = browser.execute_script(
        "const field = document.getElementById('filter'); field.value = 'infeasible';"
        "field.dispatchEvent(new Event('input'));"
        "return document.querySelectorAll('.trials tbody tr:not([hidden])').length"
    )
    assert shown == 1


def test_a_keyboard_reaches_the_answer_first_and_opens_tables(
    browser: WebDriver, address: str
) -> None:
    _open(browser, address)
    browser.switch_to.active_element.send_keys(Keys.TAB)
    assert str(browser.switch_to.active_element.get_attribute("href")).endswith("#answer")
    browser.execute_script("document.querySelector('#break-even summary').focus()")
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.execute_script("return document.querySelector('#break-even details').open")


def test_printed_it_keeps_figures_and_opens_tables(browser: WebDriver, address: str) -> None:
    _open(browser, address)
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert len(printed["data"]) > 100_000
    opened = browser.execute_script(
        "return Array.from(document.querySelectorAll('details')).filter(d => d.open).length"
    )
    assert opened > 5
