"""Locks of GPUs that all users of a machine share: races for a stale one, hostile neighbours."""

import fcntl
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from infra import file_lock, host_lock, runtime_folder
from infra.file_lock import FileLock, LockFileError
from infra.host import HostError
from infra.host_lock import HostInUseError, held_locks, lock_path
from infra.process_id import ProcessId
from infra.runtime_folder import RuntimeFolderError
from orchestrator.cluster.hands import Hands
from orchestrator.host_locks import hosts_locked
from sweeps.problems import BadInputError
from tests.attacks import attack
from tests.orchestrator.test_host_locks import FACTS, REAL

GPU = "GPU-a"
TAKERS = 3
ROUNDS = 1000


@contextmanager
def stale_lock(folder: Path) -> Iterator[None]:
    """Leave the lock of a dead process whose child still holds the file."""
    process = {**ProcessId.own().as_data(), "started_ticks": 1}
    text = json.dumps({"name": GPU, "owner": "the dead", "since": "then", "process": process})
    fd = os.open(lock_path(folder, GPU), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.pwrite(fd, text.encode(), 0)
        yield
    finally:
        os.close(fd)


def takers(folder: Path, count: int) -> tuple[int, int]:
    """Let several take one GPU at once; return how many got it, and how many had it together."""
    got: list[int] = []
    together: list[int] = []
    held, done = [0], threading.Barrier(count)
    count_lock = threading.Lock()

    def take(number: int) -> None:
        try:
            with host_lock.host_lock([GPU], f"taker {number}", folder):
                with count_lock:
                    held[0] += 1
                    together.append(held[0])
                got.append(number)
                done.wait(60)
                with count_lock:
                    held[0] -= 1
        except HostInUseError:
            done.wait(60)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return len(got), max(together, default=0)


@attack("5: two sweeps judge one stale GPU lock at once")
def test_two_that_judge_one_stale_lock_do_not_both_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hold everybody where the stale lock was judged, until all are there or none can come."""
    meet = threading.Barrier(2)
    judge = host_lock._read

    def judged(text: str) -> host_lock.HeldLock | None:
        found = judge(text)
        if found is not None and found.stale:
            with suppress(threading.BrokenBarrierError):
                meet.wait(1.0)
        return found

    monkeypatch.setattr(host_lock, "_read", judged)
    with stale_lock(tmp_path):
        assert takers(tmp_path, 2) == (1, 1)
    # The second never came to judge the same lock.
    assert meet.broken


@attack("5: a thousand random interleavings at one GPU lock")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_thousand_random_interleavings_give_one_gpu_to_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(5)
    monkeypatch.setattr(host_lock, "PATIENCE_S", 0.0)
    for module, name in (
        (file_lock, "_open"), (file_lock, "_is_at"), (file_lock, "holder"), (host_lock, "_read"),
        (host_lock, "lock_path"), (file_lock, "_refuse_others"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, _delayed(getattr(module, name), rng))
    unlink = Path.unlink
    monkeypatch.setattr(Path, "unlink", _delayed(unlink, rng))
    for number in range(ROUNDS):
        with ExitStack() as stack:
            if number % 4:
                stack.enter_context(stale_lock(tmp_path))
            assert takers(tmp_path, TAKERS) == (1, 1), f"round {number}"
        assert list(tmp_path.iterdir()) == []


def _delayed(call: Callable[..., Any], rng: random.Random) -> Callable[..., Any]:
    """Let others go on before and after a call, for a while that is drawn."""

    def delayed(*args: Any, **kwargs: Any) -> Any:
        time.sleep(rng.choice((0.0, 0.0, 0.0002, 0.001)))
        try:
            return call(*args, **kwargs)
        finally:
            time.sleep(rng.choice((0.0, 0.0, 0.0005)))

    return delayed


def test_a_child_that_ends_does_not_remove_the_lock_that_was_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = FileLock.take(path, "first")
    assert first is not None
    path.unlink()
    second = FileLock.take(path, "second")
    assert second is not None
    first.release()
    assert path.read_text() == "second"
    second.release()


@pytest.fixture
def common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lend a folder that all users of the machine share."""
    folder = tmp_path / "common"
    monkeypatch.delenv(runtime_folder.VARIABLE, raising=False)
    monkeypatch.setattr(host_lock, "COMMON_FOLDER", folder)
    monkeypatch.setattr(host_lock, "_MODE_S", 0.2)
    monkeypatch.setattr(file_lock, "_MODE_S", 0.2)
    return host_lock.common_folder()


def take(folder: Path | None = None) -> None:
    with host_lock.host_lock([GPU], "ours", folder):
        pass


@attack("11: a FIFO, link or folder in the place of a lock")
@pytest.mark.parametrize("planted", ["fifo", "link", "folder", "socket", "device"])
def test_what_a_neighbour_plants_at_a_lock_hangs_nobody(common: Path, planted: str) -> None:
    path = lock_path(common, GPU)
    victim = common.parent / "victim"
    victim.write_text("untouched")
    if planted == "fifo":
        os.mkfifo(path, 0o666)
    elif planted == "link":
        path.symlink_to(victim)
    elif planted == "folder":
        path.mkdir()
    elif planted == "socket":
        _plant_socket(path)
    else:
        path.symlink_to("/dev/tty")
    assert held_locks() == []
    with pytest.raises(LockFileError, match="belongs to"):
        take()
    assert victim.read_text() == "untouched"


def _plant_socket(path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as made:
        at = os.open(path.parent, os.O_RDONLY)
        try:
            made.bind(f"/proc/self/fd/{at}/{path.name}")
        finally:
            os.close(at)


RECORDS = (
    "null", "[]", '"text"', "{}", "[" * 60_000, "\0" * 100, "7",
    '{"name": null, "owner": null, "since": null, "process": null}',
    '{"name": 1, "owner": "x", "since": "y", "process": {}}',
    json.dumps({"name": "GPU-a", "owner": "x", "since": "y", "process": {
        "pid": None, "started_ticks": None, "boot_id": None, "machine": None, "namespace": None}}),
    json.dumps({"name": "GPU-a", "owner": "x", "since": "y", "process": {
        "pid": True, "started_ticks": 1, "boot_id": "", "machine": "", "namespace": ""}}),
)  # fmt: skip


@attack("11: a null or deep record in a lock")
@pytest.mark.parametrize("text", RECORDS)
def test_what_a_neighbour_writes_into_a_lock_stops_no_command(common: Path, text: str) -> None:
    path = lock_path(common, GPU)
    other = lock_path(common, "GPU-b")
    with ExitStack() as stack:
        for place, written in ((path, text), (other, host_lock._text("GPU-b", "a real one"))):
            file = stack.enter_context(place.open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(written)
            file.flush()
        assert [lock.owner for lock in held_locks()] == ["a real one"]
        with pytest.raises(HostInUseError, match="another sweep"):
            take()
    take()


@attack("11: escape sequences in the record of a lock")
def test_what_a_lock_says_is_shown_without_escapes_and_in_short(common: Path) -> None:
    owner = "\x1b[2J\n" + "x" * 10_000
    with host_lock.host_lock([GPU], owner):
        (lock,) = held_locks()
        assert lock.owner.startswith("?[2J?xx")
        assert len(str(lock)) < 700


@attack("11: the moment between making and opening the lock folder")
def test_a_folder_is_waited_for_until_whoever_makes_it_has_opened_it(
    common: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_lock, "_MODE_S", 30.0)
    common.chmod(0o755)
    opener = threading.Timer(0.3, common.chmod, (0o1777,))
    opener.start()
    take()
    opener.join()


@pytest.mark.parametrize("trouble", ["link", "file", "mode"])
def test_a_folder_that_is_none_is_refused_by_name(
    common: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trouble == "mode":
        common.chmod(0o777)
    else:
        common.rmdir()
        elsewhere = common.parent / "elsewhere"
        elsewhere.mkdir()
        elsewhere.chmod(0o1777)
        if trouble == "link":
            common.symlink_to(elsewhere)
        else:
            common.touch()
    with pytest.raises(RuntimeFolderError, match=r"install -d -m 1777"):
        take()


@attack("11: a lock folder of another user")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_a_folder_of_another_user_is_refused(common: Path) -> None:
    os.chown(common, 65534, 65534)
    with pytest.raises(RuntimeFolderError, match="belongs to another user"):
        take()


@attack("11: lock files that are closed to us")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_files_of_another_user_that_are_closed_to_us_are_named(common: Path) -> None:
    """A stale lock, or one that its maker was killed over, cannot be removed by others."""
    common.parent.chmod(0o755)
    for parent in common.parents:
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    closed = lock_path(common, GPU)
    closed.touch(mode=0o600)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:  # as nobody: nothing but the attempt
        try:
            os.setgid(65534)
            os.setuid(65534)
            take()
            told = "taken"
        except (OSError, HostError) as error:
            told = f"{type(error).__name__}: {error}"
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    told = os.read(reading, 4096).decode()
    os.close(reading)
    os.waitpid(pid, 0)
    assert told == f"LockFileError: {closed} belongs to root, and it is closed to us"


def test_a_sweep_is_told_in_one_error(common: Path) -> None:
    os.mkfifo(lock_path(common, "GPU-3"))
    with pytest.raises(BadInputError, match=r"it is no file.*Have its owner or root remove it"):
        hosts_locked(REAL, FACTS, "ours").__enter__()
    with pytest.raises(HostError, match="cannot be locked"):
        Hands().take(["GPU-3"], "one that came over Ray")
