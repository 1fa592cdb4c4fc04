"""What is kept of a server that hung or died: everything that can be had, in time, no secrets."""

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra import evidence
from infra.evidence import Subject, find_py_spy, keep_evidence
from infra.gpus import Gpu, GpuProcess
from infra.host import Command, Process
from infra.local_host import LocalHost
from tests.infra.trees import wait_ready

SECRET = "hf_abcdefghijk"
# A root that listens and a scheduler below it, which is hung in a function that has a name.
_SERVER = """
import os, socket, sys, time
sys.path[:0] = [{packages!r}]
import setproctitle
def stuck_in_nccl():
    print("ready", flush=True)
    time.sleep(600)
server = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    setproctitle.setproctitle("sglang::scheduler_TP0")
    stuck_in_nccl()
stuck_in_nccl()
"""


class _Gpus:
    """One device; may never answer."""

    def __init__(self, *, stuck: bool = False) -> None:
        self.released = threading.Event()
        if not stuck:
            self.released.set()

    def list_gpus(self) -> tuple[Gpu, ...]:
        self.released.wait()
        return (Gpu(0, "GPU-1", "H200", 100, 40),)

    def gpu_processes(self) -> tuple[GpuProcess, ...]:
        return (GpuProcess(4711, 0, 40),)


@pytest.fixture
def server(tmp_path: Path, sweep: str) -> Iterator[Process]:
    """Lend a small tree that hangs."""
    packages = str(Path(psutil.__file__).parent.parent)
    code = _SERVER.format(packages=packages)
    argv = (sys.executable, "-I", "-c", code, "--api-key", "sesame-open", "--port", "1")
    env = {"HF_TOKEN": SECRET, "NCCL_PROTO": "LL", "TOKENIZERS_PARALLELISM": "true"}
    log_path = tmp_path / "server.log"
    process = LocalHost().start(Command(argv, env, log_path, sweep, "t1", grace_s=0.1))
    try:
        wait_ready(log_path)
        yield process
    finally:
        process.stop()


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_text()


def test_all_of_a_hanging_tree_is_kept_without_its_secrets(server: Process, tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    tail = ["loading", f"token is {SECRET}", "ServerArgs(api_key='sesame', port=1)", "true story"]
    files = keep_evidence(folder, Subject(server.pid, tail), _Gpus())
    assert {"log_tail.txt", "processes.txt", "environment.json", "sockets.txt"} <= set(files)
    assert {"shared_memory.txt", "gpus.txt", f"stacks/{server.pid}.txt"} <= set(files)
    assert _read(folder, "log_tail.txt").splitlines() == [
        "loading", "token is [redacted]", "ServerArgs(api_key='[redacted]', port=1)", "true story",
    ]  # fmt: skip
    root, scheduler = _read(folder, "processes.txt").splitlines()
    assert f"pid={server.pid} " in root
    assert "--api-key [redacted] --port 1" in root
    assert f"ppid={server.pid} " in scheduler
    assert "title=sglang::scheduler_TP0" in scheduler
    for column in ("state=", "cpu_s=", "rss_mib=", "wchan="):
        assert column in scheduler
    environments = json.loads(_read(folder, "environment.json"))
    assert len(environments) == 2, "the root's and a scheduler's"
    for environment in environments.values():
        assert (environment["HF_TOKEN"], environment["NCCL_PROTO"]) == ("[redacted]", "LL")
    assert "LISTEN 127.0.0.1:" in _read(folder, "sockets.txt")
    assert "pid=4711 used=40" in _read(folder, "gpus.txt")
    assert "MiB free of" in _read(folder, "shared_memory.txt")
    everything = "".join(path.read_text() for path in folder.rglob("*.txt"))
    assert SECRET not in everything


def test_stacks_tell_where_it_hangs(server: Process, tmp_path: Path) -> None:
    if find_py_spy() is None:
        pytest.skip("py-spy is not installed")
    keep_evidence(tmp_path / "evidence", Subject(server.pid))
    stacks = [path.read_text() for path in (tmp_path / "evidence/stacks").iterdir()]
    if any("Permission denied" in text for text in stacks):
        pytest.skip("this user may not trace processes")
    assert sum("stuck_in_nccl" in text for text in stacks) == 2


def test_of_a_server_that_is_gone_there_is_still_its_log(tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    files = keep_evidence(folder, Subject(2**22 - 1, ["the end"]))
    assert _read(folder, "log_tail.txt") == "the end\n"
    assert not [name for name in files if name.startswith("stacks/")]


def test_processes_that_left_the_tree_are_named_by_their_pids(tmp_path: Path) -> None:
    keep_evidence(tmp_path / "evidence", Subject(2**22 - 1, (), (os.getpid(),)))
    assert f"pid={os.getpid()} " in _read(tmp_path / "evidence", "processes.txt")


def test_a_driver_that_never_answers_costs_no_more_than_the_limit(tmp_path: Path) -> None:
    gpus = _Gpus(stuck=True)
    files = keep_evidence(tmp_path / "evidence", Subject(2**22 - 1, ["x"]), gpus, limit_s=0.5)
    assert not gpus.released.is_set()
    gpus.released.set()
    assert {"log_tail.txt", "cut_off.txt"} <= set(files)
    assert "gpus.txt" not in files


def test_the_second_evidence_of_a_trial_does_not_cover_the_first(tmp_path: Path) -> None:
    for text in ("one", "two"):
        keep_evidence(tmp_path / "evidence", Subject(2**22 - 1, [text]))
    assert _read(tmp_path / "evidence", "log_tail.txt") == "one\n"
    assert _read(tmp_path / "evidence-2", "log_tail.txt") == "two\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evidence", "evidence-2"]


def test_where_nothing_can_be_written_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert keep_evidence(tmp_path / "file" / "evidence", Subject(os.getpid())) == ()


def test_a_tool_that_hangs_is_given_up(
    server: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = tmp_path / "py-spy"
    hanging.write_text("#!/bin/sh\nexec sleep 600\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(evidence, "find_py_spy", lambda: str(hanging))
    monkeypatch.setattr(evidence, "_STACK_LIMIT_S", 0.1)
    keep_evidence(tmp_path / "evidence", Subject(server.pid, ["x"]), _Gpus())
    assert "timed out" in _read(tmp_path / "evidence", f"stacks/{server.pid}.txt")
    assert "pid=4711" in _read(tmp_path / "evidence", "gpus.txt")
