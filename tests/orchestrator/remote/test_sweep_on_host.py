"""Sweeps on a host behind a real sshd: cut links, killed followers and drivers, and the results.

O-48, O-49, O-51 of the cases: what is started there outlives us, what we no longer want ends, and a
link that is lost costs nothing but sight.
"""

import json
import os
import random
import signal
import sqlite3
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from infra.reaper import all_tags
from orchestrator.exit_codes import BAD_INPUT, DONE, INTERRUPTED, NOT_READY
from orchestrator.state import State
from tests.infra.ssh.lan import INNER, Lan
from tests.orchestrator.remote.sending import DEADLINE_S, Desk, results, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CUTS = 2
SECRET = "hf-secret-of-mine"
SWEEP = ("--host", "gpu1", "--driver", "serial")
BEHIND = ("--host", INNER, "--driver", "serial")
"""Through a jump host."""


@pytest.fixture
def desk(
    lan: Lan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Desk]:
    """Lend a desk with an own state on the host; what it started there is ended."""
    host = getattr(request, "param", "gpu1")
    root, secrets = lan[host].folder / tmp_path.name, {"HF_TOKEN": "env:MY_HUB_TOKEN"}
    made = Desk.at(tmp_path / "desk", lan, root, host, secrets=secrets)
    monkeypatch.setenv("MY_HUB_TOKEN", SECRET)
    yield made
    for note in made.notes():
        for process in (note.launcher, note.driver):
            if process and not process.is_gone():
                os.kill(process.pid, signal.SIGKILL)


def test_a_sweep_outlives_cut_links_and_its_follower_and_is_fetched_once(
    desk: Desk, lan: Lan
) -> None:
    space = desk.space("cuts", trials=8)
    luck = random.Random(8)
    with desk.typed("sweep", space, *SWEEP) as typed:
        typed.wait_for("trial   0")
        for number in range(1, CUTS + 1):
            desk.node.cut()
            try:
                typed.wait_for("is not heard", number)
                time.sleep(luck.uniform(0.2, 1.0))
            finally:
                desk.node.mend()
            typed.wait_for("is heard again", number)
        typed.process.kill()
    assert desk.note().is_running
    # From another folder, as from another machine that knows the host.
    other = Desk.at(desk.folder.parent / "other", lan, desk.place.root)
    _its_page_is_shown_here(other)
    with other.typed("attach", "--host", "gpu1") as attached:
        attached.wait_for("EMULATED sweep cuts-")
        assert attached.ends() == DONE, attached.text
        assert "best   " in attached.text
    assert len(desk.notes()) == 1
    there = results(desk.place.state)
    assert [one["outcome"] for one in there.values()] == ["measured"] * 8
    assert results(other.fetched) == there
    _is_whole_and_points_here(other.fetched)
    code, text = other.run("fetch", "--host", "gpu1")
    assert (code, "nothing is new" in text) == (DONE, True), text
    code, text = other.run("export", "--state-dir", str(other.fetched), "--allow-emulated")
    assert code == DONE, text
    _its_mlflow_is_shown_here_and_ends_with_us(other)


def _its_mlflow_is_shown_here_and_ends_with_us(desk: Desk) -> None:
    with desk.typed("ui", "--host", "gpu1") as typed:
        typed.wait_for("Ctrl-C ends")
        address = typed.text.partition("MLflow UI: ")[2].partition("/#")[0]
        with urllib.request.urlopen(f"{address}/health", timeout=DEADLINE_S) as answer:
            assert answer.status == 200
        assert _servers_of(desk)
        typed.process.send_signal(signal.SIGINT)
        assert typed.ends() == DONE
    until(lambda: not _servers_of(desk), lambda: f"left: {_servers_of(desk)}")


def _its_page_is_shown_here(desk: Desk) -> None:
    with desk.typed("watch", "--host", "gpu1") as typed:
        typed.wait_for("Ctrl-C ends")
        address = typed.text.partition("watch: ")[2].split()[0]
        with urllib.request.urlopen(f"{address}/events", timeout=DEADLINE_S) as stream:
            seen = json.loads(stream.readline().removeprefix(b"data: "))
        assert seen["name"] == "cuts"
        assert seen["emulated"]
        typed.process.send_signal(signal.SIGINT)
        assert typed.ends() == DONE


def _servers_of(desk: Desk) -> list[int]:
    lines = (
        (one.pid, " ".join(one.info["cmdline"] or ())) for one in psutil.process_iter(["cmdline"])
    )
    return [pid for pid, line in lines if "mlflow" in line and str(desk.place.state) in line]


def _is_whole_and_points_here(fetched: Path) -> None:
    """What was copied from under its writer is sound, and MLflow finds its artifacts."""
    for name in ("study.db", "mlflow.db"):
        with closing(sqlite3.connect(fetched / name)) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with closing(sqlite3.connect(fetched / "mlflow.db")) as store:
        uris = [uri for (uri,) in store.execute("SELECT artifact_uri FROM runs")]
    assert len(uris) >= 5
    folders = [Path(uri.removeprefix("file://")) for uri in uris]
    assert all(folder.is_relative_to(fetched) for folder in folders)
    assert any(folder.is_dir() for folder in folders)


@pytest.mark.parametrize("desk", [INNER], indirect=True)
def test_a_killed_driver_is_told_and_its_sweep_goes_on_until_it_is_stopped(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOT_FOR_HOSTS", "stays here")
    space = desk.space("killed", trials=40)
    with desk.typed("sweep", space, *BEHIND) as typed:
        typed.wait_for("trial  ")
        driver = desk.note().driver
        assert driver is not None
        environ = psutil.Process(driver.pid).environ()
        assert environ["HF_TOKEN"] == SECRET
        assert "NOT_FOR_HOSTS" not in environ
        # Whoever else may come is told who is there.
        code, text = desk.run("sweep", space, *BEHIND)
        assert code == NOT_READY, text
        assert f"{INNER} is busy with a sweep of killed.py, started by" in text
        os.kill(driver.pid, signal.SIGKILL)
        assert typed.ends() == NOT_READY, typed.text
        assert "its driver was killed by signal 9" in typed.text
    swept = set(State(desk.place.state).sweep_ids())
    until(lambda: not swept & all_tags().keys(), lambda: f"left: {all_tags()}")
    before = results(desk.place.state)
    with desk.typed("sweep", space, *BEHIND) as typed:
        typed.wait_for("Continuing killed-")
        typed.wait_for("trial  ")
        typed.process.send_signal(signal.SIGINT)
        assert typed.ends() == INTERRUPTED
        assert f"The sweep goes on on {INNER}" in typed.text
    assert desk.note().is_running
    assert desk.run("stop", "--host", INNER)[0] == DONE
    assert not desk.note().is_running
    code, text = desk.run("attach", "--host", INNER)
    assert code == INTERRUPTED, text
    assert len(results(desk.fetched)) > len(before)
    assert not swept & all_tags().keys()
    files = [path for path in desk.place.root.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in files)
    _an_edit_is_met_there_with_advice_in_the_words_that_were_typed(desk, space)


def _an_edit_is_met_there_with_advice_in_the_words_that_were_typed(desk: Desk, space: str) -> None:
    path = desk.folder / space
    path.write_text(path.read_text().replace('"LL"', '"Simple"'))
    code, text = desk.run("sweep", space, *BEHIND)
    assert code == BAD_INPUT, text
    assert f"sweep {space} {' '.join(BEHIND)} --continue" in text


def test_what_the_host_refuses_is_told_here(desk: Desk) -> None:
    path = desk.folder / desk.space("bad", trials=2)
    path.write_text(path.read_text().replace("NCCL_PROTO", "NCCL_PROTOO"))
    code, text = desk.run("sweep", path.name, *SWEEP)
    assert code == BAD_INPUT, text
    assert "NCCL_PROTOO" in text
    assert "Traceback" not in text
    assert desk.run("stop", "--host", "gpu1")[0] == DONE
