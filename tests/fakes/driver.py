"""A stand-in for NVIDIA's driver library, with two GPUs of which the first may be in use."""

from types import ModuleType, SimpleNamespace


class FakeDriverError(Exception):
    """What the library raises."""


class FakeDriver(ModuleType):
    """Sound GPUs; `broken` ones have fallen off the bus, `shared` ones have no memory of their own.

    `processes` maps a GPU to the pids on it and the bytes that each holds, None if not told.
    """

    NVMLError = FakeDriverError

    def __init__(self, name: str, *, gpus: int = 2, total_bytes: int = 100) -> None:
        super().__init__(name)
        self.opened = 0
        self.gpus = gpus
        self.total_bytes = total_bytes
        self.broken: set[int] = set()
        self.shared: set[int] = set()
        self.processes: dict[int, list[tuple[int, int | None]]] = {}

    def nvmlInit(self) -> None:  # noqa: N802 - the library's name
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802 - the library's name
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - the library's name
        return self.gpus

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802 - the library's name
        if index in self.broken:
            raise FakeDriverError("lost")
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802 - the library's name
        return f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802 - the library's name
        return "H200"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802 - as above
        if handle in self.shared:
            raise FakeDriverError("not supported")
        held = sum(held or 0 for _, held in self.processes.get(handle, []))
        return SimpleNamespace(total=self.total_bytes, used=7 + held)

    def nvmlDeviceGetComputeRunningProcesses(  # noqa: N802 - the library's name
        self, handle: int
    ) -> list[SimpleNamespace]:
        found = self.processes.get(handle, [])
        return [SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in found]
