"""The wait for a server: when it is ready, and by which verdict it ends when it never is."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest

from infra.sglang.quoting import last_lines
from infra.sglang.start_log import StartPhase
from orchestrator.simulation import simulated_tools
from orchestrator.starting import (
    PORT_IN_USE,
    WORKER_LOST,
    Patience,
    StartFailure,
    refuse_if_answering,
)
from orchestrator.tools import local_tools
from sweeps.hosts import EngineName, HostSpec
from sweeps.launch import Deadlines, LaunchPlan
from sweeps.results import Outcome
from sweeps.values import Value
from tests.infra.trees import wait_until
from tests.orchestrator.starts import (
    EnoughError,
    Start,
    emulated,
    scripted,
    simulated,
)
from tests.ports import free_port

pytestmark = pytest.mark.slow

P = StartPhase
QUIET = Deadlines(start_s=1e6, phase_s=60.0)
FOREVER = Deadlines(start_s=1e8, phase_s=1e8)
LINES = {
    P.SPAWN: "launching",
    P.DISTRIBUTED_INIT: "[t TP0] Init torch distributed begin.",
    P.WEIGHTS: "[t TP0] Load weight begin. avail mem=139.00 GB",
    P.MEMORY_POOL: "[t TP0] Memory pool end. avail mem=9.00 GB",
    P.GRAPHS: "[t TP0] Capture cuda graph begin. avail mem=9.00 GB",
    P.WARM_UP: "[t] INFO:     Uvicorn running on http://127.0.0.1:1",
    P.FIRST_TOKEN: "[t] The server is fired up and ready to roll!",
}
SAY = "import sys, time\ndef say(line):\n    print(line, flush=True)\n"


def _writes(*lines: str, then: str = "time.sleep(600)") -> str:
    return SAY + "".join(f"say({line!r})\n" for line in lines) + then


def _failure(start: Start) -> StartFailure:
    with pytest.raises(StartFailure) as caught:
        start.wait()
    return caught.value


@pytest.mark.parametrize("phase", list(StartPhase))
def test_a_silent_phase_is_hung_at_its_deadline_by_name(tmp_path: Path, phase: StartPhase) -> None:
    lines = [LINES[p] for p in list(StartPhase)[: list(StartPhase).index(phase) + 1]]
    with scripted(tmp_path, _writes(*lines), QUIET, scale=25.0) as start:
        failure = _failure(start)
        waited_s = start.attendant.waited_in_s(phase)
    assert (failure.outcome, failure.phase) == (Outcome.HUNG, phase)
    assert failure.reason.startswith(f"hung in {phase.value}: nothing new in its log for 60 s")
    assert failure.reason.endswith(last_lines(lines)[-1])
    assert " | ".join(last_lines(lines)) in failure.reason
    assert failure.signature == f"hung_{phase.name.lower()}"
    assert not failure.retry
    # A look that saw it came at most one poll late, and one that judged it at the deadline.
    assert 60.0 - 2 * start.patience.poll_s <= waited_s


def test_the_rank_that_fell_silent_is_named(tmp_path: Path) -> None:
    """The process of one has its title already, and no line of it ever came."""
    loads = [f"[2026-01-01 00:00:00 TP{rank}] Load weight begin." for rank in (0, 1, 2, 3)]
    ends = [f"[2026-01-01 00:00:01 TP{rank}] Load weight end." for rank in (0, 1, 3)]
    child = "os.execv('/bin/sleep', ['sglang::scheduler_TP4', '600'])"
    then = f"import os\nif os.fork() == 0:\n    {child}\ntime.sleep(600)"
    with scripted(tmp_path, _writes(*loads, *ends, then=then), QUIET) as start:
        failure = _failure(start)
    assert (
        "TP2 and TP4 fell silent while 3 other ranks came to `Load weight end.`" in failure.reason
    )
    assert "TP2 said last: Load weight begin." in failure.reason


def test_the_verdict_falls_at_the_deadline_and_not_a_poll_later(tmp_path: Path) -> None:
    limits = replace(QUIET, start_s=30.0)
    with scripted(tmp_path, _writes("launching"), limits) as start:
        start.patience = replace(start.patience, poll_s=1e9)
        failure = _failure(start)
    assert "not ready 30 s after its start" in failure.reason
    assert len(start.attendant.at_s) == 2, "one look at the start, and one at the deadline"


def test_lines_that_only_repeat_do_not_keep_a_start_alive_but_a_moving_bar_does(
    tmp_path: Path,
) -> None:
    loop = "for n in range(10**6):\n    say({})\n    time.sleep(0.01)\n"
    limits = replace(QUIET, start_s=90.0)
    with scripted(tmp_path, SAY + loop.format("'[t TP0] waiting'"), limits) as start:
        assert "nothing new" in _failure(start).reason
    with scripted(tmp_path, SAY + loop.format("f'shards: {n}/64'"), limits) as start:
        assert "not ready 90 s" in _failure(start).reason


def test_a_death_is_seen_at_the_next_look_whatever_the_health_request_does(tmp_path: Path) -> None:
    # It takes connections and never answers, so the first health request hangs.
    die = tmp_path / "die"
    listen = (
        "import os, socket\ns = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    time.sleep(600)\n"
        f"while not os.path.exists({str(die)!r}): time.sleep(0.01)\n"
        "say('RuntimeError: boom')\nos._exit(3)\n"
    )
    with _on_port(tmp_path, SAY + listen) as start:
        start.patience = replace(start.patience, poll_s=0.25, least_poll_wall_s=0.25)
        root = psutil.Process(start.process.pid)
        alive: list[bool] = []

        def look() -> None:
            alive.append(root.is_running())
            if len(alive) == 2:
                die.touch()

        start.attendant.on_look = look
        failure = _failure(start)
    assert failure.signature == "crashed"
    assert failure.reason == "the server crashed: RuntimeError: boom (in spawn)"
    # Two looks of half a second: within a second of the death.
    assert alive.count(False) <= 2
    assert 2 * Patience().poll_s <= 1.0


@contextmanager
def _on_port(folder: Path, code: str) -> Iterator[Start]:
    """Start a script at life's own pace that is told its port."""
    port = free_port()
    with scripted(folder, f"import sys\nsys.argv[1:] = ['{port}']\n" + code, QUIET, scale=1) as it:
        it.plan = replace(it.plan, port=port)
        yield it


@pytest.mark.parametrize(
    ("lines", "code", "outcome", "signature", "retry"),
    [
        (["error: unrecognized arguments: --x"], 2, Outcome.INFEASIBLE, "refused_flags", False),
        ([LINES[P.WEIGHTS], "torch.OutOfMemoryError: CUDA out of memory."], 1, Outcome.INFEASIBLE,
         "oom_load", False),
        ([LINES[P.GRAPHS], "torch.OutOfMemoryError: CUDA out of memory."], 1, Outcome.INFEASIBLE,
         "oom_capture", False),
        (["RuntimeError: NCCL error: unhandled system error"], 1, Outcome.FAILED,
         "nccl_system_error", True),
        (["goodbye"], 3, Outcome.FAILED, "", False),
    ],
)  # fmt: skip
def test_a_death_is_explained_by_what_was_written_and_the_phase(
    tmp_path: Path, lines: list[str], code: int, outcome: Outcome, signature: str, retry: bool
) -> None:
    with scripted(tmp_path, _writes(*lines, then=f"sys.exit({code})"), QUIET) as start:
        failure = _failure(start)
    assert (failure.outcome, failure.signature, failure.retry) == (outcome, signature, retry)
    assert failure.reason.endswith(f"(in {failure.phase.value})")


@pytest.mark.parametrize(
    ("lines", "signature"),
    [
        (["[t TP0] Scheduler hit an exception: Traceback", "ValueError: x"] + ["frame"] * 900,
         "settings_refused"),
        (["[t] ERROR: [Errno 98] error while attempting to bind on address ('127.0.0.1', 1): "
          "address already in use"], "port_in_use"),
    ],
)  # fmt: skip
def test_a_server_that_announces_its_end_and_lives_on_is_not_waited_for(
    tmp_path: Path, lines: list[str], signature: str
) -> None:
    with scripted(tmp_path, _writes(*lines), QUIET) as start:
        failure = _failure(start)
        assert start.process.poll() is None
    assert start.attendant.at_s[-1] - start.attendant.at_s[0] < QUIET.phase_s
    assert failure.signature == signature


def test_an_order_ends_the_wait_at_the_next_look(tmp_path: Path) -> None:
    with scripted(tmp_path, _writes("launching"), QUIET) as start:
        start.attendant.enough = 3
        with pytest.raises(EnoughError):
            start.wait()
    assert len(start.attendant.at_s) == 4


def test_waiting_takes_less_than_a_hundredth_of_a_core(tmp_path: Path) -> None:
    with scripted(tmp_path, _writes(LINES[P.WEIGHTS]), QUIET, scale=1.0) as start:
        start.patience = Patience()
        start.attendant.enough = 2
        with pytest.raises(EnoughError):
            start.wait()  # what is imported and compiled at the first use is not the waiting
        start.attendant.enough = 14
        wall_s, cpu_s = time.monotonic(), time.process_time()
        with pytest.raises(EnoughError):
            start.wait()
        share = (time.process_time() - cpu_s) / (time.monotonic() - wall_s)
    assert share < 0.01


def _plan(port: int, rendezvous_port: int | None = None) -> LaunchPlan:
    return LaunchPlan((), (), (), "127.0.0.1", port, rendezvous_port=rendezvous_port)


def test_nothing_is_launched_where_something_answers_already() -> None:
    tools = local_tools(HostSpec(engine=EngineName.EMULATED))
    port, free = free_port(), free_port()
    with socket.create_server(("127.0.0.1", port)):
        for plan in (_plan(port), _plan(free, rendezvous_port=port)):
            with pytest.raises(StartFailure, match=str(port)) as caught:
                refuse_if_answering(plan, tools)
            assert (caught.value.signature, caught.value.retry) == (PORT_IN_USE, True)
        refuse_if_answering(_plan(free), tools)
    refuse_if_answering(_plan(port), simulated_tools())


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


def test_the_health_of_another_program_on_the_port_proves_nothing(tmp_path: Path) -> None:
    with scripted(tmp_path, _writes(LINES[P.WEIGHTS]), QUIET) as start:
        with HTTPServer(("127.0.0.1", start.plan.port), _Healthy) as stranger:
            thread = threading.Thread(target=stranger.serve_forever, args=(0.01,))
            thread.start()
            failure = _failure(start)
            stranger.shutdown()
            thread.join()
        assert start.process.poll() is None
    assert (failure.outcome, failure.signature) == (Outcome.FAILED, PORT_IN_USE)
    assert failure.retry
    assert "another program answers" in failure.reason


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.5.4", "0.5.23"])
def test_eight_ranks_become_ready_with_every_phase_told(tmp_path: Path, version: str) -> None:
    settings: dict[str, Value] = {
        "speculative_algorithm": "NGRAM",
        "speculative_num_draft_tokens": 4,
    }
    with emulated(tmp_path, version=version, settings=settings) as start:
        report = start.wait()
        assert start.process.poll() is None
        assert report.workers.verdict() == ""
    assert set(report.phase_s) >= set(StartPhase) - {P.FIRST_TOKEN}
    assert report.total_s == pytest.approx(sum(report.phase_s.values()))
    assert report.phase_s[P.WEIGHTS] > 0
    assert 0 < report.log_bytes <= start.log_path.stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize(
    ("health", "ready"), [("early", True), ("late", True), ("hanging", False), ("unhealthy", False)]
)
def test_readiness_takes_health_and_a_token(tmp_path: Path, health: str, ready: bool) -> None:
    world = f'[health]\n"/health" = "{health}"\n[start.durations_s]\nwarm_up = 120\n'
    limits = Deadlines(start_s=20_000.0, phase_s=240.0)
    with emulated(tmp_path, world, deadlines=limits) as start:
        if ready:
            report = start.wait()
            assert "fired up and ready" in start.log_path.read_text()
            assert report.phase_s[P.WARM_UP] > 0.5 * 120  # looks come late on a busy machine
        else:
            failure = _failure(start)
            assert failure.outcome is Outcome.HUNG
            assert "nothing new in its log" in failure.reason
            assert len(start.attendant.at_s) > 10, "it looked while the request hung"


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["spawn", "distributed_init", "weights", "graphs", "warm_up"])
def test_an_emulated_server_that_dies_is_named_by_its_phase(tmp_path: Path, phase: str) -> None:
    world = f'[start]\ndie_in = "{phase}"\nlast_line = "RuntimeError: NCCL error: invalid usage"\n'
    with emulated(tmp_path, world) as start:
        failure = _failure(start)
    assert (failure.outcome, failure.signature) == (Outcome.INFEASIBLE, "nccl_invalid_usage")
    assert failure.phase.name == phase.upper()


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["distributed_init", "weights", "graphs"])
def test_the_rank_of_an_emulated_server_that_hangs_alone_is_named(
    tmp_path: Path, phase: str
) -> None:
    world = f'[start]\nhang_in = "{phase}"\nhang_rank = 3'
    limits = Deadlines(start_s=1e6, phase_s=400.0)
    with emulated(tmp_path, world, deadlines=limits) as start:
        failure = _failure(start)
    assert failure.outcome is Outcome.HUNG
    assert "TP3 fell silent while 7 other ranks came to `" in failure.reason


@pytest.mark.slow
@pytest.mark.parametrize(("version", "lost"), [("0.5.9", True), ("0.5.23", False)])
def test_a_worker_that_is_killed_while_loading_is_missed_where_the_root_waits_on(
    tmp_path: Path, version: str, lost: bool
) -> None:
    world = "[start.durations_s]\nweights = 1e7\n"
    with emulated(tmp_path, world, version=version, deadlines=FOREVER) as start:
        victims: list[int] = []

        def kill_one() -> None:
            if start.attendant.phases[-1:] == [P.WEIGHTS] and not victims:
                victims.append(_schedulers(start.process.pid)[3])
                os.kill(victims[0], signal.SIGKILL)

        start.attendant.on_look = kill_one
        failure = _failure(start)
        assert (start.process.poll() is None) is lost
    assert failure.outcome is Outcome.FAILED
    assert failure.retry
    if lost:
        assert failure.signature == WORKER_LOST
        assert f"sglang::scheduler_TP3 (pid {victims[0]})" in failure.reason
    else:
        assert failure.signature == "host_out_of_memory"


@pytest.mark.slow
def test_a_worker_that_is_killed_while_serving_is_told_after_its_grace(tmp_path: Path) -> None:
    with emulated(tmp_path, version="0.5.9") as start:
        workers = start.wait().workers
        victim = _schedulers(start.process.pid)[5]
        assert workers.verdict() == ""
        os.kill(victim, signal.SIGKILL)
        looks = [workers.verdict()]

        def told() -> str:
            looks.append(workers.verdict())
            return looks[-1]

        wait_until(told, "the verdict")
        assert start.process.poll() is None
    assert f"sglang::scheduler_TP5 (pid {victim})" in looks[-1]
    assert looks[0] == "", "the root has a while to notice it itself"


def _schedulers(root_pid: int) -> list[int]:
    found: dict[str, int] = {}

    def all_titled() -> bool:
        for process in psutil.Process(root_pid).children(recursive=True):
            title = " ".join(process.cmdline()).strip()
            if title.startswith("sglang::scheduler"):
                found[title] = process.pid
        return len(found) == 8

    wait_until(all_titled, "eight schedulers")
    return [found[title] for title in sorted(found)]


def test_a_simulated_server_is_waited_for_without_a_log(tmp_path: Path) -> None:
    with simulated(tmp_path) as start:
        report = start.wait()
    assert report.total_s > 60
    assert report.workers.verdict() == ""
