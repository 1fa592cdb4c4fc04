"""A real sweep in another process, watched from the command line and in a browser."""

import itertools
import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.watching.sweep_status import SweepStatus
from tests.orchestrator.tracking.browser import open_browser
from tests.orchestrator.tracking.sessions import stop_session
from tests.patience import GIVE_UP_S

pytestmark = pytest.mark.slow

ORCHESTRATOR = (sys.executable, "-m", "orchestrator")
SWEEP_S = GIVE_UP_S


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a sweep of two trials with servers; it is known to watchers when this returns."""
    folder = tmp_path_factory.mktemp("watched")
    argv = (
        *ORCHESTRATOR, "sweep", "search_spaces/ngram.py", "--engine", "emulated",
        "--driver", "serial", "--time-scale", "60", "--trials", "2", "--state-dir", str(folder),
    )  # fmt: skip
    with (folder / "out").open("wb") as out:
        sweep = subprocess.Popen(argv, stdout=out, stderr=out, start_new_session=True)
    try:
        while not list(folder.glob("sweeps/*/trials/*/spool.jsonl")):
            assert sweep.poll() is None, (folder / "out").read_text()
        yield folder
    finally:
        stop_session(sweep)


@pytest.fixture(scope="module")
def page_address(state_dir: Path) -> Iterator[str]:
    """Serve the page of the sweep."""
    argv = (*ORCHESTRATOR, "watch", "--state-dir", str(state_dir), "--port", "0")
    watch = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert watch.stdout is not None
    with watch.stdout:
        try:
            yield watch.stdout.readline().split()[1]
        finally:
            watch.terminate()
            assert watch.wait(30) in (0, -15)
            stop_session(watch)


def test_a_browser_shows_it_live_and_from_this_machine_alone(
    state_dir: Path, page_address: str, tmp_path: Path
) -> None:
    binary = shutil.which("chromium")
    if binary is None:
        pytest.skip("there is no chromium on the PATH to look with")
    with open_browser(binary, tmp_path / "profile") as page:
        page.open(page_address)
        page.wait_for("document.querySelectorAll('.trial').length == 1", SWEEP_S)
        page.wait_for("document.querySelectorAll('.trial svg').length >= 2", SWEEP_S)
        told = page.evaluate("document.body.innerText")
        assert "EMULATED" in told and "plain" in told
        page.wait_for("document.querySelectorAll('#ended tr').length >= 1", SWEEP_S)
        assert page.evaluate("document.title").endswith("ngram")
        loaded = "performance.getEntriesByType('resource').map(e => e.name).join(' ')"
        names = str(page.evaluate(loaded)).split()
        assert names and all(name.startswith(page_address) for name in names)


def test_a_foreign_name_is_refused(page_address: str) -> None:
    request = urllib.request.Request(f"{page_address}/status.json", headers={"Host": "evil.test"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with pytest.raises(urllib.error.HTTPError, match="400"):
        opener.open(request, timeout=SWEEP_S)
    with opener.open(f"{page_address}/status.json", timeout=SWEEP_S) as answer:
        assert SweepStatus.from_data(json.load(answer)).name == "ngram"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_following_tells_each_change_to_the_end(state_dir: Path) -> None:
    argv = (
        *ORCHESTRATOR, "status", "--state-dir", str(state_dir), "--follow", "--json",
        "--period", "0.3",
    )  # fmt: skip
    told = subprocess.run(argv, capture_output=True, text=True, timeout=SWEEP_S, check=False)
    assert told.returncode == 0, told.stderr
    looks = [SweepStatus.from_data(json.loads(line)) for line in told.stdout.splitlines()]
    assert looks[-1].status == "finished"
    assert (looks[-1].done, looks[-1].running) == (2, ())
    assert all(one != other for one, other in itertools.pairwise(looks))
    last = subprocess.run(
        (*argv[:6], "--json"), capture_output=True, text=True, timeout=SWEEP_S, check=False
    )
    assert SweepStatus.from_data(json.loads(last.stdout)).ended == looks[-1].ended
