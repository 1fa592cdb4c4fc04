"""Two sweeps, whatever their state folders, never have the same GPUs or ports."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from infra import file_lock, runtime_folder
from infra.file_lock import FileLock
from infra.host import HostError, Reservation
from infra.host_lock import HostInUseError, held_locks, host_lock, owner_text
from infra.local_host import LocalHost
from infra.reservation import DERIVED_PORTS, records
from infra.runtime_folder import RuntimeFolder, RuntimeFolderError
from tests.infra.trees import open_fds, wait_until
from tests.ports import own_range

ROOT = Path(__file__).parents[2]

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
with LocalHost((int(sys.argv[1]), int(sys.argv[2]))).reserve("theirs", "t1") as reserved:
    print(*reserved.ports, flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_process(code: str, *words: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a program until its first line, which is lent, too."""
    argv = [sys.executable, "-c", code, *map(str, words)]
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
        assert f"process {process.pid} of " in str(refused.value)
        assert ", state folder /some/state, since 20" in str(refused.value)
        assert [(lock.name, lock.stale) for lock in held_locks()] == [
            ("GPU-a", False), ("GPU-b", False),
        ]  # fmt: skip
        # Other GPUs of the machine are free, that of the refused attempt among them.
        with host_lock(["GPU-c"], ours):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        with host_lock(["GPU-a", "GPU-b"], ours):
            assert {lock.owner for lock in held_locks()} == {ours}
    assert list(runtime.hosts.iterdir()) == []


_FORKED = """
import os, sys, time
from infra.host_lock import host_lock, owner_text
with host_lock(["GPU-a"], "the dead"):
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
"""


def test_a_lock_of_a_dead_process_counts_for_nothing(runtime: RuntimeFolder) -> None:
    with other_process(_FORKED) as (process, child):
        process.wait()
        try:
            # A child that lives on holds the file, and the owner cannot give it back any more.
            (stale,) = held_locks()
            assert stale.stale
            assert str(stale).endswith("that process has ended")
            with host_lock(["GPU-a"], "the living"):
                assert [lock.owner for lock in held_locks()] == ["the living"]
        finally:
            os.kill(int(child), signal.SIGKILL)


def test_a_lock_of_an_earlier_boot_counts_for_nothing(
    runtime: RuntimeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with host_lock(["GPU-a"], "before"):
        assert not held_locks()[0].stale
        monkeypatch.setattr("infra.process_id.boot_id", lambda: "another boot")
        assert held_locks()[0].stale
        # Whoever has it on another machine, by a common file system, may well be alive.
        monkeypatch.setattr("infra.process_id.platform.node", lambda: "another machine")
        assert not held_locks()[0].stale


def test_users_of_a_machine_meet_in_one_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(runtime_folder.VARIABLE, raising=False)
    monkeypatch.setattr("infra.host_lock.COMMON_FOLDER", tmp_path / "common")
    with host_lock(["GPU-a"], "mine"):
        (path,) = (tmp_path / "common").iterdir()
        assert path.stat().st_mode & 0o777 == 0o666
        assert (tmp_path / "common").stat().st_mode & 0o7777 == 0o1777
    (tmp_path / "common").chmod(0o755)
    with pytest.raises(RuntimeFolderError, match="mode 1777"):
        host_lock(["GPU-a"], "mine").__enter__()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_users_gpu_is_refused_and_taken_after_its_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.delenv(runtime_folder.VARIABLE, raising=False)
    common = Path(tempfile.mkdtemp(dir="/tmp")) / "common"
    common.parent.chmod(0o755)
    monkeypatch.setattr("infra.host_lock.COMMON_FOLDER", common)
    code = f"""
import os, sys, time
from pathlib import Path
from infra import host_lock
host_lock.COMMON_FOLDER = Path({str(common)!r})
host_lock.common_folder()
os.setuid(65534)
with host_lock.host_lock(["GPU-a"], host_lock.owner_text("theirs", Path("/s"))):
    print("held", flush=True)
    time.sleep(600)
"""
    with other_process(code) as (process, _):
        with pytest.raises(HostInUseError, match="of nobody, state folder /s"):
            host_lock(["GPU-a"], "mine").__enter__()
        process.kill()
        process.wait()
        # The file stays theirs; the lock is ours all the same.
        with host_lock(["GPU-a"], "mine"):
            assert [lock.owner for lock in held_locks()] == ["mine"]
    shutil.rmtree(common.parent)


def test_an_emulated_host_is_locked_where_its_servers_meet(tmp_path: Path) -> None:
    with host_lock(["local"], "one", tmp_path):
        with pytest.raises(HostInUseError, match="local is in use by one"):
            host_lock(["local"], "two", tmp_path).__enter__()
        with host_lock(["local"], "three", tmp_path / os.pardir):
            pass


def test_a_reservation_is_ours_alone_and_ends_with_it(runtime: RuntimeFolder) -> None:
    host = LocalHost(own_range())
    with host.reserve("s", "what is opened once for all"):
        pass
    before = open_fds()
    with ExitStack() as held:
        lent = [held.enter_context(host.reserve("s", f"t{n}")) for n in range(4)]
        ports = [port for one in lent for port in one.ports]
        assert len(set(ports)) == len(ports) == 4 * (2 + len(DERIVED_PORTS))
        assert all(host.is_port_free(port) for port in ports)
        assert not {host.free_port() for _ in range(150)} & set(ports)
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


@pytest.mark.slow
def test_two_processes_never_get_the_same_port(runtime: RuntimeFolder) -> None:
    with other_process(_RESERVE, *own_range()) as (process, line), ExitStack() as held:
        theirs = {int(port) for port in line.split()}
        ours = _ports(_reserve_all(LocalHost(own_range()), held))
        assert len(ours) > 100
        assert not ours & theirs
        process.kill()
        process.wait()
        # The lock died with its owner, and the record can be told from those of the living.
        assert sorted({record.sweep for record in records(runtime) if record.held}) == ["ours"]
        assert [record.sweep for record in records(runtime) if not record.held] == ["theirs"]
        assert _ports(_reserve_all(LocalHost(own_range()), held)) & theirs


def test_a_derived_port_in_use_moves_the_reservation_on(runtime: RuntimeFolder) -> None:
    first, _ = own_range()
    taken = first + DERIVED_PORTS[3]
    with socket.create_server(("127.0.0.1", taken)), ExitStack() as held:
        found = _reserve_all(LocalHost((first, first + 7)), held)
        assert found
        assert first not in [one.port for one in found]
        assert taken not in _ports(found)


def test_a_full_range_is_told(runtime: RuntimeFolder) -> None:
    first, _ = own_range()
    with pytest.raises(HostError, match=f"no free port from {first} to {first}"):
        LocalHost((first, first)).reserve("s", "t").__enter__()


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
    with other_process(_RESERVE, *own_range()) as (process, line):
        path = runtime.ports / line.split()[0]
        assert file_lock.holder(path) == f"process {process.pid}"
        process.kill()
        process.wait()
        wait_until(lambda: file_lock.holder(path) is None, "the end of the lock")
