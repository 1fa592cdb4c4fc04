"""The user interface of MLflow: that it starts, shows the runs, and is gone afterwards."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Queue

import psutil
import pytest

from orchestrator.sqlite_address import sqlite_uri
from orchestrator.tracking.ui import UiError, serve_ui, ui_command
from orchestrator.tracking.ui_view import runs_url
from sweeps.results import Outcome
from tests.attacks import attack
from tests.orchestrator.tracking import stores
from tests.orchestrator.tracking.browser import Page, open_browser
from tests.orchestrator.tracking.sessions import stop_session
from tests.patience import GIVE_UP_S
from tests.ports import free_port

READY_S = GIVE_UP_S
"""On a machine that does much else; alone it takes 15 s."""

pytestmark = pytest.mark.timeout(READY_S + 120)
EXPANDER = '[col-id="attributes.`Run Name`"] button[data-component-id*="runnamecellrenderer"]'
ROWS = """
    Array.from({length: 100}, (_, index) =>
        [...document.querySelectorAll(`.ag-row[row-index="${index}"]`)]
            .map(part => part.innerText.replaceAll("\\n", " ")).join(" ")
    ).filter(Boolean).join("\\n")
"""
NAMES = [f"EMULATED ngram n4 · LL #{number}" for number in range(3)]
AXES = {"speculative_algorithm": False, "speculative_num_draft_tokens": True, "NCCL_PROTO": False}


@dataclass(frozen=True)
class Ui:
    """A server that is up."""

    address: str
    experiment_id: str
    run_ids: frozenset[str]
    sweep_run: str

    def page(self, *parts: str) -> str:
        """Return the address of a page of the experiment."""
        return "/".join([f"{self.address}/#/experiments/{self.experiment_id}/runs", *parts])


def _processes_of(store: str) -> list[psutil.Process]:
    """List the processes that name a store on their command line or hold it as their setting."""
    found = []
    for process in psutil.process_iter():
        try:
            told = [*process.cmdline(), *process.environ().values()]
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if store in told and process.pid != os.getpid():
            found.append(process)
    return found


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """Serve a store with one sweep of three trials; nothing may be left of the server."""
    folder = tmp_path_factory.mktemp("ui")
    uri = stores.new_store(folder)
    writer = stores.writer(uri, folder)
    writer.sweep_started(replace(stores.SWEEP, axes=AXES))
    for number, outcome in enumerate([Outcome.MEASURED, Outcome.MEASURED, Outcome.HUNG]):
        rate = {"decode_tok_s": stores.estimate(100.0 + number, 99.0, 105.0)}
        estimates = rate if outcome.has_rate else {}
        writer.trial_started(stores.card(number))
        writer.trial_ended(stores.result(number, outcome, estimates), folder / "none")
    writer.sweep_ended("finished", stores.REVIEW)
    assert writer.close(60.0)
    runs = stores.runs(uri) + stores.runs(uri, "sweep")
    stop, ready, port = threading.Event(), Queue[str](), free_port()

    def serve() -> None:
        try:
            serve_ui(
                uri, folder / "artifacts", port, folder / "ui.log", ready.put, stop=stop,
                ready_deadline_s=READY_S,
            )  # fmt: skip
        except UiError as error:
            ready.put(str(error))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        address = ready.get(timeout=READY_S)
        assert address.startswith("http://127.0.0.1:"), address
        assert (processes := _processes_of(uri))
        assert not [process for process in processes if uri in " ".join(process.cmdline())]
        run_ids = [run.info.run_id for run in runs]
        yield Ui(address, runs[0].info.experiment_id, frozenset(run_ids), run_ids[-1])
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()
    assert _processes_of(uri) == []


@attack("7: the store's address, with its password, in a command line of the UI")
@pytest.mark.slow
def test_the_runs_are_served(ui: Ui) -> None:
    request = urllib.request.Request(
        f"{ui.address}/api/2.0/mlflow/runs/search",
        json.dumps({"experiment_ids": [ui.experiment_id], "max_results": 10}).encode(),
        {"Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as answer:
        runs = json.load(answer)["runs"]
    assert {run["info"]["run_id"] for run in runs} == ui.run_ids
    assert {run["info"]["run_name"] for run in runs} == {*NAMES, "EMULATED ngram"}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Return the page of a browser, where there is one."""
    binary = shutil.which("chromium")
    if binary is None:
        pytest.skip("there is no chromium on the PATH to look with")
    with open_browser(binary, tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Page:
    """Return the page with nothing on it of the test before."""
    browser.open("about:blank")
    browser.wait_for("document.URL == 'about:blank'")
    return browser


def _rows(page: Page) -> list[str]:
    """Return the text of each row of the table, from top to bottom."""
    return str(page.evaluate(ROWS)).splitlines()


@pytest.mark.slow
def test_a_person_sees_the_trials_under_their_sweep(ui: Ui, page: Page, tmp_path: Path) -> None:
    page.open(f"{ui.address}/#/experiments/{ui.experiment_id}/runs")
    page.wait_for("document.body.innerText.includes('EMULATED ngram')")
    assert len(_rows(page)) == 1
    page.wait_for(f"(b => b && (b.click(), true))(document.querySelector('{EXPANDER}'))")
    page.wait_for("document.body.innerText.includes('LL #0')")
    page.screenshot(tmp_path / "nested.png")
    sweep, *trials = _rows(page)
    assert "EMULATED ngram" in sweep
    assert len(trials) == len(NAMES)
    for name, row in zip(reversed(NAMES), trials, strict=True):
        assert name in row


@pytest.mark.slow
def test_the_view_of_a_sweep_shows_rates_best_first(ui: Ui, page: Page, tmp_path: Path) -> None:
    page.open(runs_url(ui.address, ui.experiment_id))
    page.wait_for("document.body.innerText.includes('winner')")
    page.wait_for(f"document.querySelectorAll('.ag-row').length >= {len(NAMES)}")
    page.screenshot(tmp_path / "ranked.png")
    best, second, *_ = _rows(page)
    for text in (NAMES[1], "101.0 ±3.0 EMULATED", "★"):
        assert text in best
    assert NAMES[0] in second and "★" not in second


@pytest.mark.slow
def test_the_charts_of_a_sweep_are_those_that_explain_it(
    ui: Ui, page: Page, tmp_path: Path
) -> None:
    page.open(f"{runs_url(ui.address, ui.experiment_id)}&compareRunsMode=CHART")
    for text in ("The sweep", "Parallel Coordinates", "config...tokens", "NGRAM"):
        page.wait_for(f"document.body.innerText.includes('{text}')")
    page.screenshot(tmp_path / "charts.png")
    assert not page.evaluate("document.body.innerText.includes('decode_tok_s_low')")


@pytest.mark.slow
def test_the_sweep_s_page_tells_its_story_and_holds_its_files(
    ui: Ui, page: Page, tmp_path: Path
) -> None:
    page.open(ui.page(ui.sweep_run))
    page.wait_for("document.body.innerText.includes('Run ngram n4.')")
    assert page.evaluate("document.body.innerText.includes('emulated')")
    page.screenshot(tmp_path / "sweep.png")
    page.open(ui.page(ui.sweep_run, "artifacts"))
    page.wait_for("document.body.innerText.includes('review')")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_an_owner_that_ends(tmp_path: Path, number: signal.Signals) -> None:
    uri = stores.new_store(tmp_path)
    script = (
        "import sys; from pathlib import Path; from orchestrator.tracking.ui import serve_ui; "
        "uri, folder, port = sys.argv[1:]; folder = Path(folder); "
        "serve_ui(uri, folder, int(port), folder / 'ui.log', lambda a: print(a, flush=True), "
        f"ready_deadline_s={READY_S})"
    )
    argv = [sys.executable, "-c", script, uri, str(tmp_path), str(free_port())]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline().startswith("http://127.0.0.1:")
        owner.send_signal(number)
        assert owner.wait(60) == (0 if number is signal.SIGTERM else -signal.SIGKILL)
    until_s = time.monotonic() + 60  # a guard that lost its owner needs a moment
    while _processes_of(uri) and time.monotonic() < until_s:
        time.sleep(0.1)
    assert _processes_of(uri) == []


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UiError, match=f"port {port} cannot be used"):
            serve_ui("sqlite:////none", tmp_path, port, tmp_path / "ui.log", pytest.fail)


@pytest.mark.slow
def test_a_server_that_dies_tells_why(tmp_path: Path) -> None:
    uri = sqlite_uri(tmp_path / "none" / "mlflow.db")
    (tmp_path / "none").write_text("no folder")
    with pytest.raises(UiError, match=r"ended with \d+\n(.|\n)*FileExistsError"):
        serve_ui(uri, tmp_path, free_port(), tmp_path / "ui.log", pytest.fail)
    assert _processes_of(uri) == []


def test_the_command_is_the_light_form(tmp_path: Path) -> None:
    store = "postgresql://sam:canary@db/mlflow"
    command = ui_command(store, tmp_path / "a b", 5001)
    assert command.argv == (
        sys.executable, "-m", "mlflow", "server",
        "--default-artifact-root", f"file://{tmp_path}/a%20b",
        "--host", "127.0.0.1", "--port", "5001", "--workers", "1",
    )  # fmt: skip
    assert command.env["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"
    assert command.env["MLFLOW_BACKEND_STORE_URI"] == store


def test_a_stop_reaches_what_its_parent_left_behind() -> None:
    """A member that ignores the question, and whose parent is gone, is ended with the session."""
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True)"
    parent = (
        "import subprocess, sys, time; "
        f"subprocess.Popen([sys.executable, '-c', {stubborn + '; time.sleep(600)'!r}]); "
        "time.sleep(600)"
    )
    argv = [sys.executable, "-c", parent]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
    assert server.stdout is not None
    with server.stdout:
        assert server.stdout.readline() == b"up\n"
        (child,) = psutil.Process(server.pid).children()
        server.kill()
        server.wait()
        stop_session(server, grace_s=0.2)
    # It may still wait to be collected by whoever adopts orphans.
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
