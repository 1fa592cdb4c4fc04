"""Two sweeps, whatever their state folders, never have the same GPUs or ports."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from infra import file_lock, runtime_folder
from infra.file_lock import FileLock
from infra.host import HostError, Reservation
from infra.host_lock import HostInUseError, host_lock, lock_path, owner_text
from infra.local_host import LocalHost
from infra.reservation import DERIVED_PORTS, records
from infra.runtime_folder import RuntimeFolder, RuntimeFolderError
from tests.infra.trees import open_fds, wait_until

ROOT = Path(__file__).parents[2]
RANGE = (29000, 29299)

_OWNER = """
import sys
from pathlib import Path
from infra.host_lock import host_lock, owner_text
with host_lock(["GPU-a", "GPU-b"], owner_text("theirs", Path("/some/state"))):
    print("held", flush=True)
    sys.stdin.read()
"""
_RESERVE = """
import sys
from infra.local_host import LocalHost
with LocalHost((29000, 29299)).reserve("theirs", "t1") as reserved:
    print(*reserved.ports, flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_process(code: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a program until its first line, which is lent, too."""
    argv = [sys.executable, "-c", code]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


def test_a_gpu_that_another_sweep_has_is_refused_by_its_owners_name(runtime: RuntimeFolder) -> None:
    ours = owner_text("ours", Path("state"))
    with other_process(_OWNER) as (process, _):
        with (
            pytest.raises(HostInUseError, match=r"GPU-b is in use by sweep theirs") as refused,
            host_lock(["GPU-c", "GPU-b"], ours),
        ):
            pytest.fail("two sweeps have one GPU")
        assert f"process {process.pid}, state folder /some/state" in str(refused.value)
        # Other GPUs of the machine are free, that of the refused attempt among them.
        with host_lock(["GPU-c"], ours):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        with host_lock(["GPU-a", "GPU-b"], ours):
            assert file_lock.holder(lock_path(runtime.hosts, "GPU-a")) == f"GPU-a: {ours}"
    assert list(runtime.hosts.iterdir()) == []


def test_an_emulated_host_is_locked_where_its_servers_meet(tmp_path: Path) -> None:
    with host_lock(["local"], "one", tmp_path):
        with pytest.raises(HostInUseError, match="local is in use by one"):
            host_lock(["local"], "two", tmp_path).__enter__()
        with host_lock(["local"], "three", tmp_path / os.pardir):
            pass


def test_a_reservation_is_ours_alone_and_ends_with_it(runtime: RuntimeFolder) -> None:
    before = open_fds()
    host = LocalHost(RANGE)
    with ExitStack() as held:
        lent = [held.enter_context(host.reserve("s", f"t{n}")) for n in range(4)]
        ports = [port for one in lent for port in one.ports]
        assert len(set(ports)) == len(ports) == 4 * (2 + len(DERIVED_PORTS))
        assert all(host.is_port_free(port) for port in ports)
        assert not {host.free_port() for _ in range(300)} & set(ports)
        for one in lent:
            assert one.temp_folder.stat().st_mode & 0o777 == 0o700
            # SGLang names its sockets tmp and eight letters; an address has 107 bytes.
            assert len(str(one.temp_folder)) < 64
    assert open_fds() <= before
    assert list(runtime.ports.iterdir()) == list(runtime.trials.iterdir()) == []


def _reserve_all(host: LocalHost, held: ExitStack) -> list[Reservation]:
    found = []
    try:
        while True:
            found.append(held.enter_context(host.reserve("ours", "t1")))
    except HostError:
        return found


def _ports(reservations: list[Reservation]) -> set[int]:
    return {port for one in reservations for port in one.ports}


def test_two_processes_never_get_the_same_port(runtime: RuntimeFolder) -> None:
    with other_process(_RESERVE) as (process, line), ExitStack() as held:
        theirs = {int(port) for port in line.split()}
        ours = _ports(_reserve_all(LocalHost(RANGE), held))
        assert len(ours) > 200
        assert not ours & theirs
        process.kill()
        process.wait()
        # The lock died with its owner, and the record can be told from those of the living.
        assert sorted({record.sweep for record in records(runtime) if record.held}) == ["ours"]
        assert [record.sweep for record in records(runtime) if not record.held] == ["theirs"]
        assert _ports(_reserve_all(LocalHost(RANGE), held)) & theirs


def test_a_derived_port_in_use_moves_the_reservation_on(runtime: RuntimeFolder) -> None:
    taken = 29100 + DERIVED_PORTS[3]
    with socket.create_server(("127.0.0.1", taken)), ExitStack() as held:
        found = _reserve_all(LocalHost((29100, 29107)), held)
        assert found
        assert 29100 not in [one.port for one in found]
        assert taken not in _ports(found)


def test_a_full_range_is_told(runtime: RuntimeFolder) -> None:
    with pytest.raises(HostError, match="no free port from 29000 to 29000"):
        LocalHost((29000, 29000)).reserve("s", "t").__enter__()


def test_a_lock_file_that_is_removed_meanwhile_is_taken_anew(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = FileLock.take(path, "first")
    assert first is not None
    assert FileLock.take(path, "second") is None
    assert file_lock.holder(path) == "first"
    first.release()
    assert file_lock.holder(path) is None
    second = FileLock.take(path, "second")
    assert second is not None
    assert path.read_text() == "second"
    second.release(keep_file=True)
    assert path.read_text() == "second"
    assert file_lock.holder(path) is None


def test_who_looks_is_not_taken_for_the_owner(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    code = (
        "import sys; from infra import file_lock; from pathlib import Path\n"
        "print('up', flush=True)\nwhile True: file_lock.holder(Path(sys.argv[1]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    ) as looker:  # fmt: skip
        try:
            assert looker.stdout is not None
            looker.stdout.readline()
            for _ in range(50):
                lock = FileLock.take(path, "us", patience_s=5.0)
                assert lock is not None
                lock.release(keep_file=True)
        finally:
            looker.kill()


@pytest.mark.parametrize("trouble", ["long", "open", "link", "file"])
def test_a_runtime_folder_that_others_could_use_is_refused(
    trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: RuntimeFolder
) -> None:
    path = runtime.path / "x"
    if trouble == "long":
        path = tmp_path / ("x" * 60)
    elif trouble == "open":
        path.mkdir()
        path.chmod(0o777)
    elif trouble == "link":
        path.symlink_to(tmp_path)
    else:
        path.touch()
    monkeypatch.setenv(runtime_folder.VARIABLE, str(path))
    with pytest.raises(RuntimeFolderError, match=str(path)):
        RuntimeFolder.of_user()
    with pytest.raises(HostError, match=str(path)):
        LocalHost().reserve("s", "t").__enter__()


def test_the_lock_of_a_dead_process_is_free_at_once(runtime: RuntimeFolder) -> None:
    with other_process(_RESERVE) as (process, line):
        path = runtime.ports / line.split()[0]
        assert file_lock.holder(path) == f"process {process.pid}"
        process.kill()
        process.wait()
        wait_until(lambda: file_lock.holder(path) is None, "the end of the lock")
