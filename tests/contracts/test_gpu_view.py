"""What every view of GPUs promises, run over NVIDIA's driver (a stand-in) and the emulated host."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.emulated.life.gpu_view import EmulatedGpuView
from infra.emulated.life.host_folder import Holding, HostFolder
from infra.emulated.truth import GpuModel
from infra.gpus import GpuView, NvmlView
from infra.process_id import started_ticks
from tests.fakes.driver import FakeDriver

TOTAL_GIB = 96
HELD_BYTES = 7 * 2**30
KINDS = ("nvml", "emulated")


@pytest.fixture(params=KINDS)
def view(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GpuView]:
    """Lend two GPUs of which the first is used, by this process."""
    if request.param == "nvml":
        driver = FakeDriver("pynvml", total_bytes=TOTAL_GIB * 2**30)
        driver.processes = {0: [(os.getpid(), HELD_BYTES)]}
        monkeypatch.setattr("infra.gpus._is_installed", lambda: True)
        monkeypatch.setitem(sys.modules, "pynvml", driver)
        yield NvmlView()
        assert driver.opened == 0
    else:
        folder = HostFolder(tmp_path)
        ticks = started_ticks(os.getpid())
        assert ticks is not None
        folder.hold(Holding(os.getpid(), ticks, 0, HELD_BYTES))
        yield EmulatedGpuView(folder, GpuModel("H200", TOTAL_GIB, 1.0), 2)


def test_gpus_come_by_index_with_a_name_and_an_id_of_their_own(view: GpuView) -> None:
    gpus = view.list_gpus()
    assert [gpu.index for gpu in gpus] == [0, 1]
    assert len({gpu.uuid for gpu in gpus}) == 2
    assert all("H200" in gpu.name for gpu in gpus)
    assert [gpu.memory_total_bytes for gpu in gpus] == [TOTAL_GIB * 2**30] * 2


def test_what_a_process_holds_is_in_use(view: GpuView) -> None:
    busy, idle = view.list_gpus()
    assert busy.memory_used_bytes is not None
    assert idle.memory_used_bytes is not None
    assert busy.memory_used_bytes - idle.memory_used_bytes >= HELD_BYTES


def test_the_process_is_named_with_its_gpu_and_memory(view: GpuView) -> None:
    [process] = view.gpu_processes()
    assert (process.pid, process.gpu_index, process.used_bytes) == (os.getpid(), 0, HELD_BYTES)


def test_looking_twice_sees_the_same(view: GpuView) -> None:
    assert view.list_gpus() == view.list_gpus()
    assert view.gpu_processes() == view.gpu_processes()
