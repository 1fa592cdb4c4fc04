"""GPUs are counted where there is a driver, and the count is zero where there is none."""

import sys

import pytest

from infra.gpus import Gpu, GpuProcess, NvmlView, count_gpus, list_gpus
from tests.fakes.driver import FakeDriver, FakeDriverError


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """Install a driver, wherever the test runs."""
    fake = FakeDriver("pynvml", gpus=3)
    monkeypatch.setattr("infra.gpus._is_installed", lambda: True)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def test_reads_what_the_driver_tells(driver: FakeDriver) -> None:
    driver.shared, driver.broken = {1}, {2}
    assert list_gpus() == (
        Gpu(0, "GPU-0", "H200", 100, 7),
        Gpu(1, "GPU-1", "H200", None, None),
    )
    assert count_gpus() == 2
    assert driver.opened == 0


def test_processes_of_sound_gpus_are_listed_even_if_their_memory_is_not_told(
    driver: FakeDriver,
) -> None:
    driver.processes = {0: [(12, None), (11, 5)], 1: [(11, 6)], 2: [(13, 7)]}
    driver.broken = {2}
    assert NvmlView().gpu_processes() == (
        GpuProcess(11, 0, 5),
        GpuProcess(12, 0, None),
        GpuProcess(11, 1, 6),
    )
    assert driver.opened == 0


def test_no_driver_is_no_gpu(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise FakeDriverError("no driver")

    monkeypatch.setattr(driver, "nvmlInit", refuse)
    assert (count_gpus(), list_gpus(), NvmlView().gpu_processes()) == (0, (), ())


@pytest.mark.usefixtures("driver")
def test_no_library_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert count_gpus() == 0


def test_without_the_library_of_the_driver_nothing_is_asked(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.gpus._is_installed", lambda: False)
    assert list_gpus() == ()
    assert driver.opened == 0


def test_this_machine_can_be_asked() -> None:
    assert count_gpus() == len(list_gpus()) >= 0
