"""The watcher of a node, beside real processes that do not end when they are asked."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.cluster import node_watch
from tests.infra.trees import wait_until

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
NODE = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2] == "deaf" else signal.SIG_DFL)
agent = subprocess.Popen([sys.executable, "-c", "import time; " + sys.argv[3] + "time.sleep(600)"])
pathlib.Path(sys.argv[1]).write_text(f"{agent.pid}")
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("REFUSED_S", "_LOOK_S", "ORPHAN_S"):
        monkeypatch.setattr(node_watch, name, 0.2)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def _agent(told: Path) -> psutil.Process:
    wait_until(lambda: told.exists() and told.read_text(), "the agent")
    return psutil.Process(int(told.read_text()))


@pytest.mark.slow
def test_nothing_of_a_node_is_left_once_its_head_is_gone(tmp_path: Path) -> None:
    head, told = socket.create_server(("127.0.0.1", 0)), tmp_path / "pid"
    agents: list[psutil.Process] = []

    def lose_head() -> None:
        agents.append(_agent(told))
        head.close()

    losing = threading.Thread(target=lose_head)
    losing.start()
    words = [sys.executable, "-c", NODE, str(told), "deaf", DEAF]
    code = node_watch.main([f"127.0.0.1:{head.getsockname()[1]}", *words])
    losing.join()
    assert code == -signal.SIGKILL
    assert not agents[0].is_running()


def test_a_node_ends_when_its_watcher_is_told_to(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    agents: list[psutil.Process] = []

    def tell() -> None:
        agents.append(_agent(told))
        os.kill(os.getpid(), signal.SIGTERM)

    with socket.create_server(("127.0.0.1", 0)) as head:
        telling = threading.Thread(target=tell)
        telling.start()
        words = [sys.executable, "-c", NODE, str(told), "polite", ""]
        code = node_watch.main([f"127.0.0.1:{head.getsockname()[1]}", *words])
        telling.join()
    assert code == -signal.SIGTERM
    assert not agents[0].is_running()
