"""What the servers of one emulated host share, and how long a start takes on it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import pytest

from infra.emulated import smi
from infra.emulated.arguments import Emulation
from infra.emulated.life.gpu_view import EmulatedGpuView
from infra.emulated.life.host_folder import GpuMemory, Holding, HostFolder
from infra.emulated.life.launch import gpu_indices
from infra.emulated.life.loading import (
    Caches,
    Launch,
    StartTimes,
    plan_start,
    read_caches,
    runs_out,
)
from infra.emulated.life.phase_lines import Graphs, PhaseLines
from infra.emulated.scenario import OomMoment, OutOfMemory, PageCache, StartPhase, StartWorld
from infra.emulated.settings import make_settings
from infra.emulated.truth import TRUTHS
from infra.process_id import started_ticks
from sweeps.values import Value
from tests.infra.emulated.serving import LIMIT_S, serve
from tests.infra.emulated.test_life import wait_for

BASE: dict[str, Value] = {"model_path": "m", "tp_size": 8}
TRUTH = TRUTHS["M"]
GIB = 2**30


@pytest.fixture
def folder(tmp_path: Path) -> HostFolder:
    return HostFolder(tmp_path)


def launch(**changes: Value) -> Launch:
    given = {**BASE, **changes}
    settings = make_settings(given, {}, "0.5.23")
    return Launch((), given, settings, Emulation(TRUTH))


@contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Lend a process that does nothing."""
    argv = [sys.executable, "-I", "-S", "-c", f"import time; time.sleep({LIMIT_S})"]
    with subprocess.Popen(argv) as process:
        try:
            yield process
        finally:
            process.kill()


def holding(pid: int, gpu: int, held_bytes: int, release_s: float = 0.0) -> Holding:
    ticks = started_ticks(pid)
    assert ticks is not None
    return Holding(pid, ticks, gpu, held_bytes, release_s)


def test_memory_comes_back_with_the_process_or_late(folder: HostFolder) -> None:
    view = EmulatedGpuView(folder, TRUTH.gpu, 2)
    with sleeper() as prompt, sleeper() as late:
        folder.hold(holding(prompt.pid, 0, 5 * GIB))
        folder.hold(holding(late.pid, 1, 6 * GIB, release_s=LIMIT_S))
        assert [p.pid for p in view.gpu_processes()] == [prompt.pid, late.pid]
        for process in (prompt, late):
            process.kill()
        # Not reaped: a process that waits for its parent holds nothing.
        wait_for(lambda: folder.used_bytes(0) == 0, "the release")
    assert folder.used_bytes(1) == 6 * GIB
    assert view.gpu_processes() == ()


def test_late_memory_is_released_in_the_end(folder: HostFolder) -> None:
    with sleeper() as process:
        folder.hold(holding(process.pid, 0, GIB, release_s=0.3))
        process.kill()
    assert folder.used_bytes(0) == GIB
    wait_for(lambda: folder.used_bytes(0) == 0, "the release")


def test_another_process_under_the_same_pid_holds_nothing(folder: HostFolder) -> None:
    folder.hold(Holding(os.getpid(), 1, 0, GIB))
    assert folder.used_bytes(0) == 0


def test_memory_is_taken_only_where_there_is_enough_on_every_gpu(folder: HostFolder) -> None:
    def memory(pid: int, gpus: tuple[int, ...]) -> GpuMemory:
        holders = tuple((pid, gpu) for gpu in gpus)
        return GpuMemory(folder, holders, capacity_bytes=10 * GIB, release_s=0)

    with sleeper() as other:
        assert memory(other.pid, (1, 2)).take(7 * GIB).free_bytes == 10 * GIB
        own = memory(os.getpid(), (0, 1))
        refused = own.take(4 * GIB)
        assert refused.free_bytes == 3 * GIB
        assert [held.pid for held in refused.others] == [other.pid]
        assert folder.used_bytes(0) == 0
        own.take(3 * GIB)
        assert [folder.used_bytes(gpu) // GIB for gpu in range(3)] == [3, 10, 7]
        own.hold(GIB)
        assert folder.used_bytes(0) == GIB


def test_a_host_remembers_models_and_kernels(folder: HostFolder) -> None:
    wide = launch(speculative_num_draft_tokens=8)
    assert read_caches(launch(), None) == Caches()
    assert read_caches(launch(), folder) == Caches(weights_cold=True, kernels_cold=True)
    folder.keep_weights("m")
    folder.keep_kernels(launch().kernels_key)
    assert read_caches(launch(), folder) == Caches()
    assert read_caches(launch(mem_fraction_static=0.8), folder) == Caches()
    assert read_caches(wide, folder) == Caches(kernels_cold=True)


def planned(world: StartWorld | None = None, caches: Caches | None = None) -> StartTimes:
    return plan_start(TRUTH, launch().settings, 1, world or StartWorld(), caches or Caches())


def test_cold_caches_cost_weights_and_the_first_request() -> None:
    warm, cold = planned(), planned(caches=Caches(weights_cold=True, kernels_cold=True))
    assert cold.weights_s > 2 * warm.weights_s
    assert cold.warm_up_s > 5 * warm.warm_up_s
    assert cold.graphs_s == warm.graphs_s
    assert planned(StartWorld(page_cache=PageCache.COLD)).weights_s == cold.weights_s
    forced = planned(StartWorld(page_cache=PageCache.WARM), Caches(weights_cold=True))
    assert forced.weights_s == warm.weights_s


def test_a_world_sets_durations_and_stretches_them_all() -> None:
    told = planned(StartWorld(durations_s={StartPhase.GRAPHS: 7.0}, slow_factor=3.0))
    plain = planned()
    assert told.graphs_s == 21.0
    others = [f.name for f in fields(StartTimes) if f.name not in ("graphs_s", "graph_sizes")]
    assert all(getattr(told, n) == pytest.approx(3 * getattr(plain, n)) for n in others)


def test_out_of_memory_rules_of_a_start() -> None:
    settings = launch(mem_fraction_static=0.9).settings
    rule = OutOfMemory(OomMoment.GRAPHS, running_requests_from=16, mem_fraction_from=0.9)
    assert runs_out(rule, OomMoment.GRAPHS, settings, 16)
    assert not runs_out(rule, OomMoment.GRAPHS, settings, 8)
    assert not runs_out(rule, OomMoment.WEIGHTS, settings, 16)
    assert not runs_out(rule, OomMoment.GRAPHS, launch(mem_fraction_static=0.8).settings, 16)


def test_ranks_take_the_gpus_that_they_are_given() -> None:
    assert gpu_indices(launch(), {}) == tuple(range(8))
    assert gpu_indices(launch(tp_size=2), {"CUDA_VISIBLE_DEVICES": "6,7"}) == (6, 7)
    assert gpu_indices(launch(tp_size=2, base_gpu_id=4, gpu_id_step=2), {}) == (4, 6)


@pytest.mark.parametrize(
    ("version", "init", "weights", "kv", "graphs"),
    [
        ("0.5.4", "Init torch distributed ends. mem usage=0.60 GB", "type=Kimi",
         "#tokens", "Capture cuda graph begin. This can take up to several minutes."),
        ("0.5.12", "Init torch distributed ends. elapsed=1.00 s, mem", "elapsed=2.00 s, type",
         "#tokens", "Capture cuda graph begin. This can take up to several minutes."),
        ("0.5.15", "Init torch distributed ends. elapsed=1.00 s, mem", "elapsed=2.00 s, type",
         "dtype: torch.bfloat16, #tokens",
         "Capture target verify CUDA graph begin. backend=full, num_tokens_per_bs=8, bs=[1, 2],"),
        ("0.5.23", "Init parallel ends. elapsed=1.00 s", "elapsed=2.00 s, type",
         "dtype: torch.bfloat16, #tokens",
         "Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=8, avail"),
    ],
)  # fmt: skip
def test_lines_have_the_form_of_the_version(
    version: str, init: str, weights: str, kv: str, graphs: str
) -> None:
    lines, what = PhaseLines(version), Graphs((1, 2), 8, 0.1, speculates=True)
    assert lines.init_end(1.0, 0.6).startswith(init)
    assert lines.weights_end(2.0, 22.0, 72.0).startswith(f"Load weight end. {weights}")
    assert lines.kv_cache(9, 1.0).startswith(f"KV Cache is allocated. {kv}")
    assert lines.graphs_begin(what, 11.0)[0].startswith(graphs)
    named = "cuda-graph-max-bs-decode" in lines.capture_failed("CUDA out of memory")
    assert named is ("target" in graphs)


def answer(capsys: pytest.CaptureFixture[str], path: Path, *argv: str) -> list[str]:
    environment = {"EMULATED_HOST_FOLDER": str(path), "EMULATED_GPUS": "2"}
    assert smi.main(argv, environment) == 0
    return capsys.readouterr().out.splitlines()


def test_the_smi_answers_queries(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: HostFolder
) -> None:
    folder.hold(holding(os.getpid(), 1, 8 * GIB))
    query = "--query-gpu=index,name,memory.total,memory.used,utilization.gpu"
    head, first, second = answer(capsys, tmp_path, query, "--format=csv")
    assert head == "index, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%]"
    assert first == f"0, EMULATED {TRUTH.gpu.name}, 97249 MiB, 4 MiB, [N/A]"
    assert second.endswith(", 8196 MiB, [N/A]")
    bare = answer(capsys, tmp_path, "--query-gpu=memory.used", "--format=csv,noheader,nounits")
    assert bare == ["4", "8196"]
    apps = "--query-compute-apps=pid,used_memory"
    assert answer(capsys, tmp_path, apps) == [
        "pid, used_gpu_memory [MiB]",
        f"{os.getpid()}, 8192 MiB",
    ]
    table = answer(capsys, tmp_path)
    assert "EMULATED" in table[0]
    assert any(str(os.getpid()) in line for line in table)


def test_the_smi_refuses_what_it_does_not_know(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    environment = {"EMULATED_HOST_FOLDER": str(tmp_path)}
    assert smi.main(["--query-gpu=colour"], environment) == 2
    assert smi.main(["--query-gpu=index", "--format=xml"], environment) == 2
    assert smi.main([], {}) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in ('"colour"', "--format=xml", "EMULATED_HOST_FOLDER"))


@pytest.mark.slow
def test_a_second_server_finds_no_memory_and_a_later_one_warm_caches(tmp_path: Path) -> None:
    path = str(tmp_path)
    view = EmulatedGpuView(HostFolder(tmp_path), TRUTH.gpu, 8)
    with serve(scale=2000, EMULATED_HOST_FOLDER=path) as first:
        first.wait_ready()
        held = view.gpu_processes()
        pids = {process.pid for process in held}
        assert [process.gpu_index for process in held] == list(range(8))
        assert len(pids - {first.process.pid}) == 8
        with serve(scale=2000, EMULATED_HOST_FOLDER=path) as second:
            assert second.process.wait(LIMIT_S) == -signal.SIGKILL
            assert "torch.OutOfMemoryError: CUDA out of memory." in second.log()
            assert any(f"Process {pid} has " in second.log() for pid in pids)
        assert view.gpu_processes() == held
        wait_for(lambda: any((tmp_path / "kernels").iterdir()), "the note of the kernels")
        first.process.kill()
        wait_for(lambda: view.gpu_processes() == (), "the release")
        cold_s = weights_s(first.log())
    with serve(
        "--tp-size", "2", "--base-gpu-id", "6", scale=2000, EMULATED_HOST_FOLDER=path
    ) as third:
        third.wait_ready()
        assert [process.gpu_index for process in view.gpu_processes()] == [6, 7]
        assert 2 * weights_s(third.log()) < cold_s


def weights_s(log: str) -> float:
    found = re.search(r"Load weight end. elapsed=([\d.]+) s", log)
    assert found is not None
    return float(found[1])
