"""The process tree of an emulated server: how it starts, and how all of it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from infra.emulated.life.ranks import DETACHED_TITLE, Ranks, Tree
from tests.infra.emulated.serving import LIMIT_S, Served, serve

pytestmark = pytest.mark.slow

FAST = 2000.0
STUCK_IN_WEIGHTS = "[start.durations_s]\nweights = 1e9"
SMALL = ("--tp-size", "2")
SMALL_TREE = 5
"""The resource tracker, two schedulers, the detokenizer and the root."""


def wait_for(condition: Callable[[], object], what: str) -> None:
    until = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.01)


def wait_for_log(served: Served, text: str) -> None:
    wait_for(lambda: text in served.log(), f"{text} in:\n{served.log()}")


def tree(served: Served) -> dict[str, psutil.Process]:
    """Return the processes of a server by their titles, once they have them."""
    root = psutil.Process(served.process.pid)
    found: dict[str, psutil.Process] = {}

    def titled() -> bool:
        found.clear()
        for process in root.children(recursive=True):
            found[" ".join(process.cmdline()).strip()] = process
        return sum(title.startswith("sglang::") for title in found) == SMALL_TREE - 2

    wait_for(titled, f"the titles of the tree, not {list(found)}")
    return found


def one(processes: dict[str, psutil.Process], part: str) -> psutil.Process:
    [process] = [process for title, process in processes.items() if part in title]
    return process


def is_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def wait_until_gone(processes: dict[str, psutil.Process]) -> None:
    wait_for(lambda: all(map(is_gone, processes.values())), f"the end of {processes}")


def exit_code(served: Served) -> int:
    return served.process.wait(LIMIT_S)


def test_the_tree_looks_as_sglangs_and_every_signal_ends_all_of_it(sweep: str) -> None:
    signals = {signal.SIGTERM: 0, signal.SIGQUIT: -9, signal.SIGKILL: -9, signal.SIGINT: -2}
    with ExitStack() as stack:
        servers = {
            number: stack.enter_context(serve(*SMALL, scale=FAST, ORCH_SWEEP=sweep))
            for number in signals
        }
        for number, served in servers.items():
            served.wait_ready()
            processes = tree(served)
            assert len(processes) + 1 == SMALL_TREE
            assert {t for t in processes if t.startswith("sglang::")} == {
                "sglang::scheduler_TP0",
                "sglang::scheduler_TP1",
                "sglang::detokenizer",
            }
            assert one(processes, "from multiprocessing.resource_tracker import main")
            assert "infra.emulated" in psutil.Process(served.process.pid).cmdline()
            for process in processes.values():
                assert process.environ()["ORCH_SWEEP"] == sweep
                process.send_signal(signal.SIGINT)
            served.process.send_signal(number)
            assert exit_code(served) == signals[number], served.log()
            wait_until_gone(processes)


def test_old_versions_die_with_their_tree_after_draining() -> None:
    with serve(*SMALL, scale=FAST, EMULATED_VERSION="0.5.15") as served:
        served.wait_ready()
        processes = tree(served)
        served.process.terminate()
        assert exit_code(served) == -signal.SIGKILL
        wait_until_gone(processes)
        assert "Gracefully exiting" in served.log()
        assert "Schedulers still alive" not in served.log()


def test_a_lost_scheduler_ends_new_versions_and_hangs_old_ones() -> None:
    with (
        serve(*SMALL, scale=FAST) as new,
        serve(*SMALL, scale=FAST, EMULATED_VERSION="0.5.9") as old,
    ):
        old.wait_ready()
        one(tree(old), "TP1").kill()
        new.wait_ready()
        processes = tree(new)
        one(processes, "TP1").kill()
        assert exit_code(new) == -signal.SIGKILL
        wait_until_gone(processes)
        assert "Subprocess scheduler_1" in new.log()
        assert "SIGQUIT received" in new.log()
        left = tree_of(old)
        assert any(hangs(old) for _ in range(100)), "it hangs once it has missed its rank"
        assert old.process.poll() is None
        assert all(not is_gone(process) for process in left)


def tree_of(served: Served) -> list[psutil.Process]:
    found = psutil.Process(served.process.pid).children(recursive=True)
    return [process for process in found if not is_gone(process)]


def hangs(served: Served) -> bool:
    """Tell whether a request is not answered."""
    try:
        ask_once(served)
    except TimeoutError:
        return True
    return False


def ask_once(served: Served) -> None:
    connection = served.open("POST", "/generate", {"text": "x", "sampling_params": {}})
    assert connection.sock is not None
    connection.sock.settimeout(0.3)
    try:
        connection.getresponse()
    finally:
        connection.close()


def test_what_dies_while_loading() -> None:
    with (
        serve(*SMALL, scale=FAST, world=STUCK_IN_WEIGHTS) as asked,
        serve(*SMALL, scale=FAST, world=STUCK_IN_WEIGHTS) as new,
        serve(*SMALL, scale=FAST, world=STUCK_IN_WEIGHTS, EMULATED_VERSION="0.5.9") as old,
        serve(*SMALL, scale=FAST, world=STUCK_IN_WEIGHTS, EMULATED_VERSION="0.5.9") as first,
    ):
        for served in (asked, new, old, first):
            wait_for_log(served, "Load weight begin")
        started = tree(asked), tree(new), tree(old), tree(first)
        asked.process.terminate()
        for processes, rank in zip(started[1:], ("TP0", "TP1", "TP0"), strict=True):
            one(processes, rank).kill()
        assert exit_code(asked) == -signal.SIGTERM
        assert exit_code(new) == 1
        assert "Rank 0 scheduler died during initialization (exit code: -9)" in new.log()
        assert exit_code(first) == 1
        assert "Rank 0 scheduler is dead." in first.log()
        assert "Exit code: -9" in first.log()
        assert old.process.poll() is None, "it waits for the first rank alone"
        old.process.terminate()
        assert exit_code(old) == -signal.SIGTERM
        for processes in started:
            wait_until_gone(processes)


def test_a_root_that_dies_before_its_children_have_started_leaves_orphans() -> None:
    code = (
        "import time; from infra.emulated.life.ranks import Ranks, Tree;"
        "ranks = Ranks(Tree(2, start_s=60)); print(1, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as root:
        assert root.stdout is not None
        assert root.stdout.readline()
        children = psutil.Process(root.pid).children()
        try:
            assert len(children) == SMALL_TREE - 1
            assert not any("sglang::" in " ".join(child.cmdline()) for child in children)
            root.kill()
            wait_for(lambda: children[-1].ppid() != root.pid, "another parent")
            assert not any(map(is_gone, children))
        finally:
            os.killpg(root.pid, signal.SIGKILL)


def test_a_start_dies_as_told() -> None:
    coded = '[start]\ndie_in = "graphs"\nexit_code = 3\nlast_line = "gone"'
    with (
        serve(*SMALL, scale=FAST, world=coded) as early,
        serve(*SMALL, scale=FAST, world='[start]\ndie_in = "warm_up"') as late,
    ):
        assert exit_code(early) == 3
        assert "Capture target decode CUDA graph begin." in early.log()
        assert early.log().endswith("gone\n")
        assert exit_code(late) == -signal.SIGKILL
        assert "Uvicorn running on http://127.0.0.1:" in late.log()
        assert "fired up" not in late.log()


def test_a_hang_in_the_warm_up_ends_by_sigterm() -> None:
    with serve(*SMALL, scale=FAST, world='[start]\nhang_in = "warm_up"') as served:
        wait_for_log(served, "Uvicorn running")
        processes = tree(served)
        assert served.ask("GET", "/health").status == 503
        served.process.terminate()
        assert exit_code(served) == 0
        wait_until_gone(processes)
        assert "fired up" not in served.log()


def test_memory_runs_out_while_graphs_are_captured() -> None:
    rule = '[[oom]]\nmoment = "graphs"\nmem_fraction_from = 0.9'
    with serve("--mem-fraction-static", "0.93", scale=FAST, world=rule) as served:
        assert exit_code(served) == -signal.SIGKILL
        assert "Capture cuda graph failed: CUDA out of memory." in served.log()
        assert "Memory pool end" in served.log()


def test_detached_children_outlive_the_tree_and_keep_the_port(tmp_path: Path) -> None:
    echo_path = tmp_path / "echo.json"
    world = (
        "[processes]\ndetached = 2\ndetached_keep_port = true\nworkers_ignore_sigterm = true\n"
        f'echo_path = "{echo_path}"'
    )
    sweep = f"life-{uuid.uuid4().hex}"
    with serve(*SMALL, scale=FAST, world=world, ORCH_SWEEP=sweep) as served:
        try:
            served.wait_ready()
            processes = tree(served)
            wait_for(lambda: len(detached_of(sweep)) == 2, "the detached children")
            left = detached_of(sweep)
            assert all(os.getsid(p.pid) != served.process.pid for p in left)
            for process in [*processes.values(), *left]:
                process.terminate()
            assert served.ask("GET", "/health").status == 200
            served.process.terminate()
            assert exit_code(served) == 0
            wait_until_gone(processes)
            assert not any(map(is_gone, left))
            with socket.socket() as probe, pytest.raises(OSError, match="in use"):
                probe.bind(("127.0.0.1", served.port))
        finally:
            for process in detached_of(sweep):
                process.kill()
    echoed = json.loads(echo_path.read_text())
    assert echoed["argv"][-2:] == [*SMALL]
    assert echoed["env"]["ORCH_SWEEP"] == sweep


def detached_of(sweep: str) -> list[psutil.Process]:
    """Return the detached processes that carry a tag."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            title = " ".join(process.cmdline()).strip()
            if title == DETACHED_TITLE and process.environ().get("ORCH_SWEEP") == sweep:
                found.append(process)
    return found


def test_a_tree_is_asked_killed_and_aborted_by_its_root() -> None:
    with Ranks(Tree(tp_size=3)) as ranks:
        assert ranks.look() is None
        ranks.abort(0)
        wait_for(ranks.look, "the loss")
        loss = ranks.look()
        assert loss is not None
        assert (loss.name, loss.rank, loss.exit_code) == ("scheduler_0", 0, -signal.SIGABRT)
        before = ranks.noticed
        ranks.kill_one()
        assert (before, ranks.noticed) == (True, False)
        assert ranks.shut_down(LIMIT_S) == ()
    with Ranks(Tree(tp_size=1, release_s=LIMIT_S)) as slow:
        [pid] = slow.scheduler_pids
        alone = psutil.Process(pid)
        wait_for(lambda: " ".join(alone.cmdline()).strip() == "sglang::scheduler", "its title")
        assert slow.shut_down(0.0) == (pid,)
    assert not psutil.pid_exists(pid)
