"""GPUs are counted where there is a driver, and the count is zero where there is none."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from infra.gpus import Gpu, count_gpus, list_gpus


class FakeError(Exception):
    """What the library raises."""


class FakeDriver(ModuleType):
    """A driver with one sound GPU, one without its own memory, and one that fell off the bus."""

    NVMLError = FakeError
    opened = 0

    def nvmlInit(self) -> None:  # noqa: N802 - the library's name
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802 - the library's name
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - the library's name
        return 3

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802 - the library's name
        if index == 2:
            raise FakeError("lost")
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802 - the library's name
        return f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802 - the library's name
        return "H200"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802 - as above
        if handle == 1:
            raise FakeError("not supported")
        return SimpleNamespace(total=100, used=7)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the driver's library be found, wherever the test runs."""
    monkeypatch.setattr("infra.gpus._is_installed", lambda: True)


@pytest.mark.usefixtures("installed")
def test_reads_what_the_driver_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver("pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    assert list_gpus() == (
        Gpu(0, "GPU-0", "H200", 100, 7),
        Gpu(1, "GPU-1", "H200", None, None),
    )
    assert count_gpus() == 2
    assert driver.opened == 0


@pytest.mark.usefixtures("installed")
def test_no_driver_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver("pynvml")

    def refuse() -> None:
        raise FakeError("no driver")

    monkeypatch.setattr(driver, "nvmlInit", refuse)
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    assert (count_gpus(), list_gpus()) == (0, ())


@pytest.mark.usefixtures("installed")
def test_no_library_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert count_gpus() == 0


def test_without_the_library_of_the_driver_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = FakeDriver("pynvml")
    monkeypatch.setattr("infra.gpus._is_installed", lambda: False)
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    assert list_gpus() == ()
    assert driver.opened == 0


def test_this_machine_can_be_asked() -> None:
    assert count_gpus() == len(list_gpus()) >= 0
