"""A copied state folder holds the ids of sweeps that may run from the original: they are spared."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from infra import reaper
from infra.leftovers import LeftoverKind, find_leftovers
from infra.reservation import records
from infra.runtime_folder import RuntimeFolder
from orchestrator.cluster.hands import Hands
from orchestrator.refusals import locked
from orchestrator.state import State
from orchestrator.upkeep import clean_up
from tests.attacks import attack
from tests.infra.runtime import runtime
from tests.infra.trees import fresh_sweep, python, wait_until

__all__ = ["runtime"]
pytestmark = pytest.mark.usefixtures("runtime")

_REST = "import signal; print('up', flush=True); signal.pause()"


@pytest.fixture
def sweep() -> Iterator[str]:
    with fresh_sweep() as name:
        yield name
        wait_until(lambda: not reaper.find_tagged(name), "the end of all processes")


def a_state(path: Path, sweep: str) -> State:
    """Make a state folder that knows a sweep."""
    state = State(path)
    state.write_card(sweep, {"status": "running"})
    assert state.sweep_ids() == [sweep]
    return state


@contextmanager
def a_server(sweep: str, state: State | None) -> Iterator[subprocess.Popen[bytes]]:
    """Run what a sweep of a state folder starts; None: as an earlier version started it."""
    with ExitStack() as stack:
        if state is not None:
            stack.enter_context(reaper.working_for(state.identity()))
        tags = reaper.tags(sweep, f"{sweep}-0001")
    with subprocess.Popen(python(_REST), stdout=subprocess.PIPE, env=tags) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


@attack("12: `clean` in a copied state folder, at a live sweep of the same id")
@pytest.mark.parametrize("how", ["copied", "fetched", "restored"])
def test_clean_in_a_copy_spares_the_live_sweep_of_the_original(
    tmp_path: Path, sweep: str, how: str
) -> None:
    original = a_state(tmp_path / "original", sweep)
    place = tmp_path / ("original/fetched/rack1" if how == "fetched" else "copy")
    shutil.copytree(original.root, place, copy_function=shutil.copy2)
    copy = State(place)
    assert copy.sweep_ids() == original.sweep_ids()
    if how == "restored":  # from a backup, at the very place
        shutil.rmtree(tmp_path / "gone", ignore_errors=True)
        running = original.identity()
        original.root.rename(tmp_path / "gone")
        place.rename(original.root)
        copy = State(original.root)
        assert copy.identity() != running
        original = State(tmp_path / "gone")
    with a_server(sweep, original) as server:
        clean_up(copy.root)
        assert server.poll() is None
        with locked(copy, "a sweep that goes on in the copy"):
            assert reaper.find_tagged(sweep) == []
            assert reaper.reap(sweep) == 0
        assert server.poll() is None
        # In its own folder, it is what a dead driver left.
        assert any(sweep in left.what for left in clean_up(original.root))
        assert server.wait(60) != 0


def test_what_an_earlier_version_started_is_still_cleaned(tmp_path: Path, sweep: str) -> None:
    state = a_state(tmp_path / "state", sweep)
    with a_server(sweep, None) as server:
        clean_up(state.root)
        assert server.wait(60) != 0


def test_a_folder_that_was_moved_is_the_same(tmp_path: Path, sweep: str) -> None:
    state = a_state(tmp_path / "state", sweep)
    with a_server(sweep, state) as server:
        moved = state.root.rename(tmp_path / "moved")
        (tmp_path / "link").symlink_to(moved)
        clean_up(tmp_path / "link")
        assert server.wait(60) != 0


@attack("12: two drivers with sweeps of one id at one host")
def test_a_host_of_a_cluster_spares_what_another_driver_started(tmp_path: Path, sweep: str) -> None:
    original, copy = a_state(tmp_path / "a", sweep), a_state(tmp_path / "b", sweep)
    with a_server(sweep, original) as server:
        assert Hands().clear([sweep], copy.identity()) == []
        assert Hands().reap(sweep, None, copy.identity()) == 0
        assert server.poll() is None
        assert Hands().reap(sweep, None, original.identity()) == 1


def test_a_process_works_for_one_folder_at_a_time(tmp_path: Path, sweep: str) -> None:
    state = a_state(tmp_path / "state", sweep)
    before = os.environ.get(reaper.STATE_TAG)
    with locked(state, "x"):
        assert reaper.works_for() == state.identity()
        assert reaper.tags("s", "t")[reaper.STATE_TAG] == state.identity()
        with reaper.working_for(""):
            assert reaper.STATE_TAG not in reaper.tags("s", "t")
        assert reaper.works_for() == state.identity()
    assert os.environ.get(reaper.STATE_TAG) == before


def test_both_sweeps_of_one_id_are_seen_by_whoever_asks_for_all(
    tmp_path: Path, sweep: str, runtime: RuntimeFolder
) -> None:
    original, copy = a_state(tmp_path / "a", sweep), a_state(tmp_path / "b", sweep)
    with a_server(sweep, original), a_server(sweep, copy) as second:
        assert reaper.all_tags()[sweep] == 2
        with reaper.working_for(copy.identity()):
            (found,) = [
                left
                for left in find_leftovers([sweep], runtime)
                if left.kind is LeftoverKind.PROCESSES and left.sweep == sweep
            ]
            assert (found.count, str(second.pid) in found.what) == (1, True)
            assert reaper.reap(sweep) == 1
        assert second.wait(60) != 0
        assert reaper.all_tags()[sweep] == 1


def test_a_dead_trial_of_another_folder_is_cleaned_by_what_is_seen_of_it(
    tmp_path: Path, sweep: str, runtime: RuntimeFolder
) -> None:
    """Its reservation is held by nobody, whichever folder it is of."""
    other, mine = a_state(tmp_path / "a", sweep), State(tmp_path / "b")
    trial = f"{sweep}-0001"
    folder = runtime.trials / "0123abcd"
    (folder / "tmp").mkdir(parents=True)
    record = {"sweep": sweep, "trial": trial, "process": 1, "ports": [], "segments": []}
    (folder / "record.json").write_text(json.dumps(record))
    assert [one.trial for one in records(runtime)] == [trial]
    with a_server(sweep, other) as server:
        clean_up(mine.root)
        assert server.wait(60) != 0
