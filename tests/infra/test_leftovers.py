"""What dead sweeps leave is found and removed; what a living one has is not touched."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra import guard, reaper
from infra.leftovers import Leftover, LeftoverKind, clear, find_leftovers, remove
from infra.local_host import LocalHost
from infra.reaper import find_tagged
from infra.runtime_folder import RuntimeFolder
from tests.infra.runtime import segment
from tests.infra.trees import (
    SIZE,
    fresh_sweep,
    guard_pid,
    python,
    wait_ready,
    wait_until,
)

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("runtime")]

_OWNER = """
import sys, time
from contextlib import nullcontext
from pathlib import Path
from infra.host_lock import host_lock
from infra.local_host import LocalHost
from tests.infra.trees import tree_command
sweep, log, reserves = sys.argv[1:]
host = LocalHost()
with host_lock(["GPU-left"], sweep), host.reserve(sweep, "t1") if reserves else nullcontext():
    server = host.start(tree_command("setsid", sweep, Path(log), lease_s=600))
    time.sleep(600)
"""


@contextmanager
def owner(sweep: str, log_path: Path, *, reserves: bool = True) -> Iterator[tuple[int, int]]:
    """Run a process that owns a tree, with all that a trial has; yield its pid and the root's."""
    argv = [sys.executable, "-c", _OWNER, sweep, str(log_path), "yes" if reserves else ""]
    with subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        try:
            wait_ready(log_path)
            # The detached one leads no session: it is a child of the one that did.
            (root,) = [
                found.pid
                for found in find_tagged(sweep)
                if os.getsid(found.pid) == found.pid
                and reaper.GUARD_TAG not in Path(f"/proc/{found.pid}/environ").read_text()
            ]
            yield process.pid, root
        finally:
            process.kill()


@pytest.fixture
def sweep() -> Iterator[str]:
    """Lend a sweep id; the guards of killed owners get the time to end their trees."""
    with fresh_sweep() as name:
        yield name
        wait_until(lambda: not find_tagged(name), "the end of all trees")


def _of(sweep: str, kind: LeftoverKind) -> list[Leftover]:
    return [left for left in find_leftovers() if left.sweep == sweep and left.kind is kind]


def _kill_both(owner_pid: int, root: int) -> None:
    guard = guard_pid(root)
    os.kill(guard, signal.SIGKILL)
    os.kill(owner_pid, signal.SIGKILL)


@pytest.mark.parametrize("reserves", [True, False], ids=["reserved", "unreserved"])
def test_a_living_sweep_is_not_touched(reserves: bool, sweep: str, tmp_path: Path) -> None:
    with owner(sweep, tmp_path / "log", reserves=reserves):
        before = find_tagged(sweep)
        assert [left for left in find_leftovers() if left.sweep == sweep] == []
        assert clear() == []
        assert find_tagged(sweep) == before
        assert len(before) == SIZE + 1
        # Unless whoever holds its state folder says that its driver is dead.
        (found,) = [left for left in find_leftovers([sweep]) if left.kind is LeftoverKind.PROCESSES]
        assert found.count == SIZE + 1
        assert remove(found)
        assert find_tagged(sweep) == []


def test_when_driver_and_guard_are_killed_the_next_start_ends_the_rest(
    sweep: str, tmp_path: Path, runtime: RuntimeFolder, shm: Path
) -> None:
    with owner(sweep, tmp_path / "log") as (pid, root):
        left_segment = segment(shm, "sgl_shm_1")
        _kill_both(pid, root)
        wait_until(lambda: len(find_tagged(sweep)) == 1, "the end of all but the detached one")
        wait_until(lambda: _of(sweep, LeftoverKind.TRIAL_FOLDER), "the death of the owner")
        survivor = find_tagged(sweep)[0].pid
        (found,) = _of(sweep, LeftoverKind.PROCESSES)
        assert found.what.startswith(f"processes {survivor} (")
        assert (found.count, found.trial) == (1, "t1")
        kinds = {left.kind for left in find_leftovers()}
        assert kinds == set(LeftoverKind)
        # Looking has changed nothing.
        assert len(find_tagged(sweep)) == 1
        assert left_segment.exists()
        assert clear() == []
        assert find_tagged(sweep) == []
        assert not left_segment.exists()
        assert [path for part in runtime.path.iterdir() for path in part.iterdir()] == []
        assert find_leftovers() == []


def test_the_segments_of_a_dead_trial_are_kept_while_somebody_uses_them(
    sweep: str, tmp_path: Path, shm: Path
) -> None:
    with owner(sweep, tmp_path / "log") as (pid, root):
        path = segment(shm, "sgl_shm_1")
        _kill_both(pid, root)
        wait_until(lambda: _of(sweep, LeftoverKind.SHARED_MEMORY), "the death of the owner")
        found = _of(sweep, LeftoverKind.SHARED_MEMORY)
        assert path in [left.path for left in found]
        code = "import signal, sys; f = open(sys.argv[1]); print('up', flush=True); signal.pause()"
        with subprocess.Popen(python(code, str(path)), stdout=subprocess.PIPE) as user:
            assert user.stdout is not None
            user.stdout.readline()
            # It has come to life between the look and the removal.
            assert [remove(left) for left in found if left.path == path] == [False]
            assert path.exists()
            user.kill()
        clear()
        assert not path.exists()


def test_a_trial_that_somebody_took_up_meanwhile_is_not_ended(sweep: str, tmp_path: Path) -> None:
    gone = Leftover(LeftoverKind.PROCESSES, "seen before", sweep, "t1")
    with owner(sweep, tmp_path / "log"):
        assert not remove(gone)
        assert len(find_tagged(sweep)) == SIZE + 1


def test_what_has_no_record_here_is_a_strangers(sweep: str, tmp_path: Path) -> None:
    with owner(sweep, tmp_path / "log", reserves=False) as (pid, root):
        _kill_both(pid, root)
        wait_until(lambda: len(find_tagged(sweep)) == 1, "the end of all but the detached one")
        assert [left.kind for left in find_leftovers()] == [LeftoverKind.LOCK]
        assert clear() == []
        assert len(find_tagged(sweep)) == 1
        # Its own state folder knows it.
        assert clear([sweep]) == []
        assert find_tagged(sweep) == []


def test_an_owner_that_still_deals_with_a_lost_guard_is_left_to_it(
    sweep: str, tmp_path: Path
) -> None:
    with owner(sweep, tmp_path / "log") as (_, root):
        os.kill(guard_pid(root), signal.SIGKILL)
        wait_until(lambda: len(find_tagged(sweep)) == 1, "the end of all but the detached one")
        assert _of(sweep, LeftoverKind.PROCESSES) == []
    wait_until(lambda: _of(sweep, LeftoverKind.PROCESSES), "the death of the owner")
    assert clear() == []


def test_locks_of_the_living_stay(runtime: RuntimeFolder) -> None:
    stale = runtime.ports / "31000"
    stale.touch()
    with LocalHost().reserve("s", "t") as held:
        assert [left.path for left in find_leftovers()] == [stale]
        assert clear() == []
        assert {int(path.name) for path in runtime.ports.iterdir()} == set(held.ports)


def test_a_lock_that_was_taken_meanwhile_stays(runtime: RuntimeFolder) -> None:
    with LocalHost().reserve("s", "t") as held:
        path = runtime.ports / str(held.port)
        assert not remove(Leftover(LeftoverKind.LOCK, "seen before", path=path))
        assert path.exists()


@pytest.mark.parametrize("record", [None, "{", '{"sweep": 1}'])
def test_a_folder_that_was_never_finished_is_kept_for_a_while(
    record: str | None, runtime: RuntimeFolder
) -> None:
    folder = runtime.trials / "abcd1234"
    folder.mkdir()
    if record is not None:
        (folder / "record.json").write_text(record)
    assert find_leftovers() == []
    os.utime(folder, (0, 0))
    assert [left.path for left in find_leftovers()] == [folder]
    assert clear() == []
    assert not folder.exists()


def test_a_guard_that_lives_by_its_lease_is_not_touched(sweep: str, tmp_path: Path) -> None:
    spec = guard.Spec(
        python("import signal; signal.pause()"), reaper.tags(sweep, "t1"), str(tmp_path),
        str(tmp_path / "log"), grace_s=1.0, lease_s=600.0,
    )  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-I", "-S", guard.__file__, guard.LEASE_ONLY],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**reaper.tags(sweep, "t1"), reaper.GUARD_TAG: "1"},
    ) as launcher:  # fmt: skip
        assert launcher.stdin is not None
        assert launcher.stdout is not None
        launcher.stdin.write(guard.spec_line(spec))
        launcher.stdin.flush()
        assert launcher.stdout.readline().startswith(b"started ")
        launcher.stdin.close()
    assert _of(sweep, LeftoverKind.PROCESSES) == []
    assert clear() == []
    assert len(find_tagged(sweep)) == 2
    (found,) = [left for left in find_leftovers([sweep]) if left.sweep == sweep]
    assert remove(found)
