"""A stop is proved: processes, ports, GPU memory, shared memory and files, each by itself."""

import mmap
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from infra import clean_proof, reaper, shared_memory
from infra.clean_proof import LocalPremises
from infra.clock import Clock, ScaledClock, SimulatedClock
from infra.emulated.life.gpu_view import EmulatedGpuView
from infra.emulated.life.host_folder import HostFolder
from infra.emulated.truth import TRUTHS
from infra.gpu_floor import STILL_BYTES, TOLERANCE_BYTES, own_gpus
from infra.gpus import Gpu, GpuProcess, GpuView
from infra.host import CleanReport, Command, Reservation
from infra.local_host import LocalHost
from infra.runtime_folder import RuntimeFolder
from sweeps.hosts import HostSpec
from tests.infra.runtime import segment
from tests.infra.trees import python, tree_command, wait_ready, wait_until
from tests.ports import own_range

GIB = 2**30
pytestmark = pytest.mark.usefixtures("runtime")


@dataclass(slots=True)
class ScriptedGpus:
    """One device that holds so much at each look; the last value stays."""

    used_bytes: list[int | None]
    processes: tuple[GpuProcess, ...] = ()
    looks: int = field(default=0)

    def list_gpus(self) -> tuple[Gpu, ...]:
        """Return the device as it is now."""
        now = self.used_bytes[min(self.looks, len(self.used_bytes) - 1)]
        return (Gpu(0, "GPU-x", "some GPU", 80 * GIB, now),)

    def gpu_processes(self) -> tuple[GpuProcess, ...]:
        """Return who is on it."""
        return self.processes


class TickingClock(SimulatedClock):
    """Each sleep moves the scripted device on."""

    def __init__(self, gpus: ScriptedGpus) -> None:
        super().__init__()
        self._gpus = gpus

    def sleep_s(self, duration_s: float) -> None:
        """Move both on."""
        self._gpus.looks += 1
        super().sleep_s(duration_s)


class NoGpus:
    """A machine without a driver."""

    def list_gpus(self) -> tuple[Gpu, ...]:
        """Return none."""
        return ()

    def gpu_processes(self) -> tuple[GpuProcess, ...]:
        """Return none."""
        return ()


def premises(gpus: GpuView, clock: Clock | None = None) -> LocalPremises:
    return LocalPremises(LocalHost(own_range()), gpus, clock or ScaledClock())


def prove_memory(
    folder: Path, before: int | None, after: list[int | None], deadline_s: float = 60.0
) -> tuple[CleanReport, ScriptedGpus]:
    """Reserve while a device holds `before`, and prove while it holds `after`, look by look."""
    gpus = ScriptedGpus([before])
    clock = TickingClock(gpus)
    place = LocalPremises(LocalHost(own_range()), gpus, clock)
    with place.reserve("s", str(uuid.uuid4()), folder) as reservation:
        gpus.used_bytes, gpus.looks = after, 0
        return place.prove_clean(reservation, deadline_s), gpus


def test_memory_must_be_at_its_floor_twice_in_a_row(tmp_path: Path) -> None:
    report, gpus = prove_memory(tmp_path, GIB, [70 * GIB, 9 * GIB, GIB + 99, GIB])
    assert report.clean
    assert gpus.looks == 3
    assert 0 < report.waited_s < 60


def test_memory_that_still_moves_below_the_limit_is_not_stable(tmp_path: Path) -> None:
    shaky: list[int | None] = [GIB + n * 2 * STILL_BYTES for n in (5, 4, 3, 2, 1)]
    _, gpus = prove_memory(tmp_path, GIB, shaky)
    assert gpus.looks == 5


def test_memory_that_never_comes_back_is_named(tmp_path: Path) -> None:
    report, gpus = prove_memory(tmp_path, 0, [30 * GIB])
    assert not report.clean
    assert 60 <= report.waited_s < 66
    assert report.left == (
        f"GPU 0 holds 30.0 GiB ({30 * GIB} bytes) above its floor, though no process is on it",
    )
    # The pauses grow: nobody polls.
    assert gpus.looks < 30
    assert "not clean after 6" in str(report)


def test_the_process_that_holds_the_memory_is_named(tmp_path: Path) -> None:
    gpus = ScriptedGpus([0], processes=(GpuProcess(4711, 0, None),))
    place = premises(gpus, TickingClock(gpus))
    with place.reserve("s", "t", tmp_path) as reservation:
        gpus.used_bytes = [GIB]
        assert "with processes [4711] on it" in str(place.prove_clean(reservation, 1.0))


def test_memory_that_comes_down_at_the_deadline_gets_its_second_look(tmp_path: Path) -> None:
    report, _ = prove_memory(tmp_path, 0, [*[9 * GIB] * 3, 0], deadline_s=0.4)
    assert report.clean


def test_memory_that_never_rests_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    shaky: list[int | None] = [n % 2 * TOLERANCE_BYTES for n in range(100)]
    report, _ = prove_memory(tmp_path, 0, shaky, deadline_s=10.0)
    assert report.left == ("GPU memory does not come to rest",)


def test_own_gpus_are_those_that_the_server_sees(tmp_path: Path) -> None:
    view = EmulatedGpuView(HostFolder(tmp_path), TRUTHS[HostSpec().truth].gpu, 4)

    def indices(named: str | None, count: int = 8) -> list[int]:
        variables = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
        return [gpu.index for gpu in own_gpus(view, variables, count)]

    assert indices(None) == [0, 1, 2, 3]
    assert indices(None, 2) == [0, 1]
    assert indices("3, 1") == [1, 3]
    assert indices(view.list_gpus()[2].uuid) == [2]
    assert own_gpus(NoGpus(), {}, 8) == ()


def test_what_a_neighbour_takes_is_within_the_tolerance(tmp_path: Path) -> None:
    report, _ = prove_memory(tmp_path, GIB, [GIB + TOLERANCE_BYTES])
    assert report.clean
    report, _ = prove_memory(tmp_path, GIB, [GIB + TOLERANCE_BYTES + 1])
    assert not report.clean


def test_memory_that_nobody_tells_is_skipped_and_said(tmp_path: Path) -> None:
    report, _ = prove_memory(tmp_path, None, [None])
    assert report.clean
    assert report.skipped[0] == "GPU 0: the memory in use is not known"


def test_gpus_of_others_are_not_judged(tmp_path: Path) -> None:
    gpus = ScriptedGpus([0])
    clock = TickingClock(gpus)
    place = LocalPremises(LocalHost(own_range()), gpus, clock, gpu_indices=(1, 2))
    with place.reserve("s", "t", tmp_path) as reservation:
        gpus.used_bytes = [50 * GIB]
        assert place.prove_clean(reservation, 60.0).clean


def test_the_floor_is_that_of_the_sweeps_first_server(tmp_path: Path) -> None:
    gpus = ScriptedGpus([GIB])
    with premises(gpus).reserve("s", "t1", tmp_path):
        pass
    # A new process finds memory that the last trial still holds; it must not be taken for idle.
    gpus.used_bytes = [40 * GIB]
    with premises(gpus).reserve("s", "t2", tmp_path) as second:
        assert second.floors_bytes == {"GPU-x": GIB}
    gpus.used_bytes = [4]
    with premises(gpus).reserve("s", "t3", tmp_path) as third:
        assert third.floors_bytes == {"GPU-x": 4}


@pytest.mark.slow
@pytest.mark.parametrize(("release_s", "clean"), [(40.0, True), (1e6, False)])
def test_an_emulated_host_that_releases_late_is_waited_for(
    release_s: float, clean: bool, sweep: str, tmp_path: Path
) -> None:
    scale = 200.0
    scenario = tmp_path / "world.toml"
    scenario.write_text(f"[processes]\nrelease_memory_s = {release_s}\n")
    folder = HostFolder(tmp_path / "host")
    gpus = EmulatedGpuView(folder, TRUTHS[HostSpec().truth].gpu, 2)
    clock = ScaledClock(scale)
    place = LocalPremises(LocalHost(own_range()), gpus, clock)
    with place.reserve(sweep, "t1", tmp_path) as reservation:
        env = {
            "EMULATED_TIME_SCALE": f"{scale:g}",
            "EMULATED_SCENARIO": str(scenario),
            "EMULATED_HOST_FOLDER": str(tmp_path / "host"),
            "EMULATED_GPUS": "2",
        }
        argv = (
            sys.executable, "-m", "infra.emulated", "--model-path", "m", "--tp-size", "2",
            "--port", str(reservation.port), "--nccl-port", str(reservation.rendezvous_port),
        )  # fmt: skip
        root = Path(__file__).parents[2]
        command = Command(argv, env, tmp_path / "log", sweep, "t1", cwd=root)
        process = LocalHost().start(command)
        try:
            wait_until(lambda: process.listens_on(reservation.port), "an open port")
            held = gpus.list_gpus()[1].memory_used_bytes
            assert held is not None
            assert held > GIB
        finally:
            assert process.stop(0.1).clean
        report = place.prove_clean(reservation, 120.0)
    assert report.clean is clean, report
    assert report.waited_s >= min(release_s, 120.0) - 1.0
    if not clean:
        assert [left.split(" holds ")[0] for left in report.left] == ["GPU 0", "GPU 1"]


@contextmanager
def tagged(sweep: str, trial: str, code: str, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that carries a tag and has no guard."""
    with subprocess.Popen(
        python(code, *args), stdout=subprocess.PIPE, env=reaper.tags(sweep, trial)
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


_LISTEN = """
import signal, socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
signal.pause()
"""


@pytest.mark.slow
def test_a_process_of_the_trial_that_was_missed_is_ended(sweep: str, tmp_path: Path) -> None:
    place = premises(NoGpus())
    with (
        place.reserve(sweep, "t1", tmp_path) as reservation,
        tagged(sweep, "t1", _LISTEN, str(reservation.rendezvous_port)) as missed,
        tagged(sweep, "t2", _LISTEN, "0") as other,
    ):
        report = place.prove_clean(reservation, 10.0)
        assert (report.clean, report.killed) == (True, 1)
        assert missed.wait(timeout=10) == -9
        assert other.poll() is None


@pytest.mark.slow
def test_a_port_that_stays_held_is_named_with_its_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_proof, "LEAST_WAIT_WALL_S", 0.3)
    place = premises(NoGpus())
    with place.reserve("s", "t", tmp_path) as reservation:
        port = reservation.rendezvous_port
        with socket.create_server(("127.0.0.1", port)):
            report = place.prove_clean(reservation, 0.1)
        (left,) = report.left
        assert left.startswith(f"port {port} is held by process {os.getpid()} (")
        assert reservation.disputed
    # So that `clean` finds what was left.
    assert reservation.temp_folder.parent.exists()


@pytest.mark.slow
def test_a_process_that_cannot_be_killed_is_named(
    sweep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_proof, "LEAST_WAIT_WALL_S", 0.2)
    place = premises(NoGpus())
    with (
        place.reserve(sweep, "t1", tmp_path) as reservation,
        tagged(sweep, "t1", _LISTEN, "0") as deaf,
    ):
        with monkeypatch.context() as powerless:
            powerless.setattr(reaper, "_kill", lambda process: None)
            report = place.prove_clean(reservation, 0.1)
        (left,) = report.left
        assert left.startswith(f"process {deaf.pid} (")
        assert left.endswith(") outlived SIGKILL")


def test_temporary_files_are_removed(tmp_path: Path) -> None:
    place = premises(NoGpus())
    with place.reserve("s", "t", tmp_path) as reservation:
        folder = reservation.temp_folder
        (folder / "deep").mkdir()
        (folder / "deep" / "tmpabcd").touch()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / ("x" * (107 - len(str(folder)) - 1))))
        assert place.prove_clean(reservation, 1.0).clean
        assert not folder.exists()
    assert not folder.parent.exists()


def _prove(reservation: Reservation) -> None:
    assert premises(NoGpus()).prove_clean(reservation, 1.0).clean


@pytest.mark.parametrize(
    "name",
    ["nccl-a1", "cuda.shm.0.1", "sgl_shm_1", "sglang_loads_1", "multi_tokenizer_args_1", "psm_1",
     "sem.mp-1"],
)  # fmt: skip
def test_only_shared_memory_of_the_trial_is_removed(name: str, shm: Path, tmp_path: Path) -> None:
    old, foreign = segment(shm, f"{name}_old"), segment(shm, "somebody_elses")
    replaced = segment(shm, f"{name}_again")
    with premises(NoGpus()).reserve("s", "t", tmp_path) as reservation:
        # Another inode under a name that was there before.
        segment(shm, "beside").replace(replaced)
        left, late = segment(shm, f"{name}_left"), segment(shm, "later")
        used, opened = segment(shm, f"{name}_used"), segment(shm, f"{name}_open")
        with used.open("r+b") as file:
            mapped = mmap.mmap(file.fileno(), 4096)
        with opened.open("rb"):
            _prove(reservation)
        mapped.close()
        assert set(shm.iterdir()) == {old, foreign, late, used, opened}
        assert not left.exists()
        # Its users are gone now.
        _prove(reservation)
        assert set(shm.iterdir()) == {old, foreign, late}


def test_segments_of_another_user_or_seen_by_others_are_left(
    shm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = segment(shm, "nccl-abc")
    assert path in shared_memory.unused(())
    with monkeypatch.context() as hidden:
        hidden.setattr(shared_memory, "is_overseen", lambda: False)
        assert shared_memory.unused(()) == []
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert path not in shared_memory.unused(())


@pytest.mark.slow
def test_the_report_of_a_whole_trial(sweep: str, tmp_path: Path, shm: Path) -> None:
    place, host = premises(NoGpus()), LocalHost()
    with place.reserve(sweep, "t1", tmp_path) as reservation:
        process = host.start(tree_command("setsid", sweep, tmp_path / "log"))
        wait_ready(tmp_path / "log")
        left = segment(shm, "nccl-abc")
        assert process.stop().clean
        report = place.prove_clean(reservation, 30.0)
        assert (report.clean, report.killed) == (True, 0)
        assert not left.exists()


def test_the_runtime_folder_is_empty_after_it_all(runtime: RuntimeFolder, tmp_path: Path) -> None:
    with premises(NoGpus()).reserve("s", "t", tmp_path):
        assert len(list(runtime.trials.iterdir())) == 1
    assert list(runtime.trials.iterdir()) == list(runtime.ports.iterdir()) == []


def test_a_stranger_on_a_derived_port_is_no_leftover() -> None:
    host, clock = LocalHost(own_range()), ScaledClock(1.0)
    with host.reserve("s", "t") as lent, socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", lent.derived_ports[0]))
        stranger.listen()
        assert clean_proof.prove_clean(lent, host, NoGpus(), clock, 1.0).clean
