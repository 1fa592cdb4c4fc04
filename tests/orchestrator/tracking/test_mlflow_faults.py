"""What a real MLflow store holds after it was away, locked, refused files, or its driver died."""

import base64
import contextlib
import logging
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from orchestrator.tracking.mlflow_store import DIED
from orchestrator.tracking.mlflow_writer import MlflowWriter, check_store, load_mlflow
from orchestrator.tracking.seam import Sample
from sweeps.values import Value
from tests.orchestrator.tracking import stores
from tests.orchestrator.tracking.servers import Server, serving
from tests.patience import GIVE_UP_S

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CLOSE_S = GIVE_UP_S
REQUEST_S = 2


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Return an empty store."""
    return stores.new_store(tmp_path)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve an empty store."""
    folder = tmp_path_factory.mktemp("server")
    with serving(stores.new_store(folder), folder) as server:
        yield server


def _wait(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + CLOSE_S
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert condition()


def _tell_of_trial(writer: MlflowWriter, number: int, folder: Path, samples: int = 50) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "plan.json").write_text("{}")
    writer.trial_started(stores.card(number))
    for second in range(samples):
        writer.progress(f"t{number}", Sample(float(second), 100.0 * number + second))
    estimates = {"decode_tok_s": stores.estimate(100.0 * number)}
    writer.trial_ended(stores.result(number, estimates=estimates), folder)


def _assert_all_once(uri: str, numbers: list[int], samples: int = 50) -> None:
    reader = stores.client(uri)
    runs = stores.runs(uri)
    assert [run.data.tags["trial"] for run in runs] == [f"t{number}" for number in numbers]
    for run, number in zip(runs, numbers, strict=True):
        assert run.info.status == "FINISHED"
        final = reader.get_metric_history(run.info.run_id, "decode_tok_s")
        assert [point.value for point in final] == [100.0 * number]
        series = reader.get_metric_history(run.info.run_id, "tok_s_so_far")
        told = [(second, 100.0 * number + second) for second in range(samples)]
        assert sorted((point.step, point.value) for point in series) == told
        assert "plan.json" in [file.path for file in reader.list_artifacts(run.info.run_id)]


def test_a_server_that_hangs_delays_nobody_and_has_all_once_afterwards(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", str(REQUEST_S))
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    writer = stores.writer(server.uri, tmp_path, tmp_path / "outbox.jsonl")
    writer.sweep_started(stores.SWEEP)
    _tell_of_trial(writer, 1, tmp_path / "1")
    _wait(lambda: writer.waiting == 0)
    slowest_s = 0.0
    with server.stopped():
        for number in (2, 3, 4):
            began_s = time.monotonic()
            _tell_of_trial(writer, number, tmp_path / str(number))
            slowest_s = max(slowest_s, time.monotonic() - began_s)
        _wait(lambda: writer.failures >= 3)
        assert writer.waiting > 0
    # A whole trial is told in less than one request takes to fail.
    assert slowest_s < REQUEST_S / 2
    _wait(lambda: writer.waiting == 0)
    _tell_of_trial(writer, 5, tmp_path / "5")
    writer.sweep_ended("finished")
    assert writer.close(CLOSE_S)
    _assert_all_once(server.uri, [1, 2, 3, 4, 5])
    (parent,) = stores.runs(server.uri, "sweep")
    assert parent.data.metrics["trials"] == 5.0
    assert parent.data.tags["best_observed_trial"] == "t5"


def test_files_go_through_a_server_and_are_tried_beforehand(server: Server, tmp_path: Path) -> None:
    assert check_store(server.uri, tmp_path, "preflight") is None


def test_a_reader_that_holds_a_lock_for_long_fails_nobody(uri: str, tmp_path: Path) -> None:
    writer = stores.writer(uri, tmp_path, tmp_path / "outbox.jsonl")
    writer.sweep_started(stores.SWEEP)
    _tell_of_trial(writer, 1, tmp_path / "1")
    _wait(lambda: writer.waiting == 0)
    with contextlib.closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM runs").fetchone()
        _tell_of_trial(writer, 2, tmp_path / "2")
        threading.Event().wait(12)
        assert writer.waiting > 0
        reader.execute("ROLLBACK")
    writer.sweep_ended("finished")
    assert writer.close(CLOSE_S)
    assert writer.refused == 0
    _assert_all_once(uri, [1, 2])


_DRIVER = """
import os, signal, sys
from pathlib import Path
from sweeps.values import Value
from tests.orchestrator.tracking import stores
from tests.orchestrator.tracking.test_mlflow_faults import _tell_of_trial
folder = Path(sys.argv[1])
writer = stores.writer("http://127.0.0.1:9", folder, folder / "outbox.jsonl")
writer.sweep_started(stores.SWEEP)
for number in (1, 2):
    _tell_of_trial(writer, number, folder / str(number))
writer.trial_started(stores.card(3))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_driver_told_is_sent_by_the_next_one_and_nothing_runs_on(
    uri: str, tmp_path: Path
) -> None:
    argv = [sys.executable, "-c", _DRIVER, str(tmp_path)]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    writer = stores.writer(uri, tmp_path, tmp_path / "outbox.jsonl")
    writer.close_stale(["s1"])
    _wait(lambda: writer.waiting == 0)
    (parent,) = stores.runs(uri, "sweep")
    *ended, killed = stores.runs(uri)
    for run in (parent, killed):
        assert (run.info.status, run.data.tags["reason"]) == ("KILLED", DIED)
    assert [run.info.status for run in ended] == ["FINISHED", "FINISHED"]
    writer.sweep_started(stores.SWEEP)
    _tell_of_trial(writer, 3, tmp_path / "3")
    assert writer.close(CLOSE_S)
    _assert_all_once(uri, [1, 2, 3])
    assert stores.runs(uri, "sweep")[0].info.status == "RUNNING"


def test_a_run_that_was_made_twice_becomes_one(uri: str, tmp_path: Path) -> None:
    """As by a server that makes a run long after the client asked again."""
    writer = stores.writer(uri, tmp_path)
    writer.sweep_started(stores.SWEEP)
    _tell_of_trial(writer, 1, tmp_path / "1")
    _wait(lambda: writer.waiting == 0)
    (run,) = stores.runs(uri)
    reader = stores.client(uri)
    tags = {n: run.data.tags[n] for n in ("kind", "trial", "sweep", "number", "mlflow.parentRunId")}
    reader.create_run(run.info.experiment_id, tags=tags)
    assert len(stores.runs(uri)) == 2
    writer.sweep_ended("finished")
    assert writer.close(CLOSE_S)
    _assert_all_once(uri, [1])


def test_files_that_are_not_taken_cost_no_number(uri: str, tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("not a folder")
    writer = stores.writer(uri, tmp_path)
    writer.sweep_started(stores.SWEEP)
    _tell_of_trial(writer, 1, tmp_path / "1")
    writer.sweep_ended("finished")
    assert not writer.close(CLOSE_S)
    assert writer.refused == 1
    (run,) = stores.runs(uri)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["decode_tok_s"] == 100.0
    assert str(tmp_path / "1") in run.data.tags["files_missing"]
    said = check_store(uri, tmp_path / "artifacts", stores.EXPERIMENT)
    assert said is not None
    assert str(tmp_path / "artifacts") in said


def test_any_name_of_a_metric_passes_and_the_original_is_kept(uri: str, tmp_path: Path) -> None:
    names = ["sglang:gen_throughput", "a:b", "a_b", "p@99", "x(s)", "y" * 300, "a//b", "é"]
    writer = stores.writer(uri, tmp_path)
    writer.sweep_started(stores.SWEEP)
    estimates = {name: stores.estimate(float(n)) for n, name in enumerate(names)}
    writer.trial_ended(stores.result(1, estimates=estimates), tmp_path / "none")
    assert writer.close(CLOSE_S)
    (run,) = stores.runs(uri)
    found = {}
    for sent, value in run.data.metrics.items():
        found[run.data.tags.get(f"name.{sent}", sent)] = value
    assert {name: found[name] for name in names} == {n: float(i) for i, n in enumerate(names)}
    assert run.data.metrics["sglang_gen_throughput"] == 0.0


def test_a_long_command_is_a_file_and_all_else_is_there(uri: str, tmp_path: Path) -> None:
    writer = stores.writer(uri, tmp_path)
    writer.sweep_started(stores.SWEEP)
    argv = tuple(f"--flag-{n}=xxxxxxxx" for n in range(600))
    effective: dict[str, Value] = {"tp_size": 8, **{f"f{n}": "ü" * 5_000 for n in range(130)}}
    writer.trial_ended(replace(stores.result(1, effective=effective), argv=argv), tmp_path / "none")
    assert writer.close(CLOSE_S)
    (run,) = stores.runs(uri)
    assert run.data.params["effective.tp_size"] == "8"
    assert run.data.params["effective.f129"] == "ü" * 5_000
    assert " ".join(argv).startswith(run.data.tags["command"][:100])
    reader = stores.client(uri)
    path = reader.download_artifacts(run.info.run_id, "values/command.txt", str(tmp_path))
    assert Path(path).read_text() == " ".join(argv)


def test_a_clock_that_is_set_back_keeps_order(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_ns = time.time_ns()
    clock_ns = iter(range(real_ns, 0, -3_600_000_000_000))
    monkeypatch.setattr(time, "time_ns", lambda: next(clock_ns, 0))
    for _ in range(2):
        writer = stores.writer(uri, tmp_path, tmp_path / "outbox.jsonl")
        writer.sweep_started(stores.SWEEP)
        _tell_of_trial(writer, 1, tmp_path / "1")
        writer.sweep_ended("finished")
        assert writer.close(CLOSE_S)
    (run,) = stores.runs(uri)
    series = stores.client(uri).get_metric_history(run.info.run_id, "tok_s_so_far")
    stamps: dict[int, list[int]] = {}
    for point in sorted(series, key=lambda point: point.timestamp):
        stamps.setdefault(point.step, []).append(point.timestamp)
    firsts = [at[0] for _, at in sorted(stamps.items())]
    assert firsts == sorted(firsts)
    (parent,) = stores.runs(uri, "sweep")
    for ended in (run, parent):
        assert ended.info.status == "FINISHED"
        assert ended.info.start_time <= ended.info.end_time


def test_no_secret_reaches_the_store(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canary0123456789")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "canary-password")
    leak = "hf_canary0123456789 canary-password"
    folder = tmp_path / "trial"
    folder.mkdir()
    (folder / "server.log").write_text(f"started with {leak}\n")
    writer = stores.writer(uri, tmp_path, tmp_path / "outbox.jsonl")
    writer.sweep_started(replace(stores.SWEEP, name=leak, params={"a": leak}, tags={"b": leak}))
    result = stores.result(1, effective={"c": leak, "api_key": "abc"}, reason=leak)
    writer.trial_ended(replace(result, argv=("--api-key", "hidden", leak)), folder)
    assert writer.close(CLOSE_S)
    (folder / "server.log").unlink()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "server.log" for path in files)
    for path in files:
        for secret in ("hf_canary0123456789", "canary-password", "hidden"):
            assert secret.encode() not in path.read_bytes(), path
    assert "canary" not in caplog.text


class _Gate(BaseHTTPRequestHandler):
    """A server that lets nobody in, and notes who came."""

    came: ClassVar[list[str]] = []

    def do_GET(self) -> None:  # named by the base class
        """Refuse."""
        self.came.append(self.headers.get("Authorization", ""))
        body = b'{"error_code": "UNAUTHENTICATED", "message": "who are you?"}'
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_a_server_that_lets_nobody_in_loses_nothing_and_no_password_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "orchestrator")
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "sam")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "canary-password")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Gate)
    serve = threading.Thread(target=server.serve_forever)
    serve.start()
    try:
        address = f"http://sam:canary-password@127.0.0.1:{server.server_port}"
        writer = stores.writer(address, tmp_path, tmp_path / "outbox.jsonl")
        writer.sweep_started(stores.SWEEP)
        _tell_of_trial(writer, 1, tmp_path / "1")
        _wait(lambda: writer.failures >= 6)
        assert not writer.close(CLOSE_S)
        said = check_store(address, tmp_path, stores.EXPERIMENT)
    finally:
        server.shutdown()
        server.server_close()
        serve.join()
    assert (writer.refused, writer.waiting > 0) == (0, True)
    assert f"Basic {base64.b64encode(b'sam:canary-password').decode()}" in _Gate.came
    assert said is not None
    assert "canary" not in caplog.text + said


def test_a_store_whose_maker_was_killed_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "state" / "mlflow.db"
    code = "import sys; from orchestrator.tracking.mlflow_writer import *; load_mlflow(sys.argv[1])"
    words = [sys.executable, "-c", code, f"sqlite:///{path}"]
    with subprocess.Popen(words) as maker:

        def is_half_made() -> bool:
            return any(one.stat().st_size for one in path.parent.glob(f".*/{path.name}"))

        _wait(lambda: is_half_made() or maker.poll() is not None)
        maker.kill()
    assert is_half_made()
    assert not path.exists()
    api = load_mlflow(f"sqlite:///{path}")
    assert api.client.search_experiments()
    assert [one.name for one in path.parent.iterdir()] == [path.name]
