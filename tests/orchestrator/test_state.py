"""Where a sweep lies, who may write there, and that no name leads elsewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.files import Spool, write_json
from orchestrator.spool import RESULT, result_record
from orchestrator.state import OutsideStateError, State, StateUnusableError, new_sweep_id
from tests.orchestrator.disks import read_only_disk
from tests.sweeps.makers import plain, result

OUTSIDE = ["..", ".", "", "../x", "a/b", "/etc", "a/../../b", "a\0b", "..\\x", ".hidden", "a\nb"]


@pytest.fixture
def state(tmp_path: Path) -> State:
    """Return a state folder with the sweeps `a` and `b`."""
    state = State(tmp_path / "state")
    for name in ("a", "b"):
        state.write_card(name, {"name": name, "created_at": "2026-01-01"})
    return state


@pytest.mark.parametrize("name", OUTSIDE)
def test_names_do_not_lead_out_of_the_folder(state: State, name: str) -> None:
    write_json(state.root.parent / "x" / "sweep.json", {"name": "stolen"})
    for locate in (state.sweep_folder, state.host_folder, state.outbox_path):
        with pytest.raises(OutsideStateError, match="does not name a folder"):
            locate(name)
    with pytest.raises(OutsideStateError):
        state.write_card(name, {})
    assert (state.card(name), state.results(name)) == ({}, [])


def test_links_do_not_lead_out_of_the_folder(state: State, tmp_path: Path) -> None:
    write_json(tmp_path / "elsewhere" / "sweep.json", {"name": "stolen"})
    (state.root / "sweeps" / "link").symlink_to(tmp_path / "elsewhere")
    assert state.sweep_ids() == ["a", "b"]
    assert state.card("link") == {}
    with pytest.raises(OutsideStateError):
        state.write_card("link", {"name": "overwritten"})


@pytest.mark.parametrize(
    "name", ["ngram", "../../etc/passwd", "a b/c", "...", "ü" * 300, "", "-rf"]
)
def test_ids_of_sweeps_are_names_of_folders(tmp_path: Path, name: str) -> None:
    sweep_id = new_sweep_id(name)
    assert re.fullmatch(r"[A-Za-z0-9_][\w.-]*-\d{8}-\d{6}-[0-9a-f]{4}", sweep_id)
    folder = State(tmp_path).sweep_folder(sweep_id)
    folder.mkdir(parents=True)
    assert folder.resolve().parent == (tmp_path / "sweeps").resolve()


def test_a_clock_that_was_set_back_does_not_reorder_sweeps(state: State) -> None:
    state.write_card("c", {"created_at": "1999-01-01"})
    assert state.sweep_ids() == ["a", "b", "c"]
    state.write_card("a", {"created_at": "2026-01-01", "status": "finished"})
    assert state.sweep_ids() == ["a", "b", "c"]


def test_a_result_that_only_the_spool_holds_counts(state: State) -> None:
    ends = [result(number, plain(), 10.0 + number) for number in range(3)]
    for end in ends[:2]:
        spool = Spool(state.trial_folder("a", end.number) / "spool.jsonl")
        spool.append(RESULT, result_record(end))
        spool.close()
    write_json(state.trial_folder("a", 1) / "result.json", ends[1].as_data())
    write_json(state.trial_folder("a", 2) / "result.json", ends[2].as_data())
    Spool(state.trial_folder("a", 3) / "spool.jsonl").close()
    assert state.results("a") == ends
    assert state.unended("a") == [state.trial_folder("a", 3)]


def test_a_new_folder_is_private(tmp_path: Path) -> None:
    state = State(tmp_path / "deep" / "state")
    with state.lock("a"):
        assert state.root.stat().st_mode & 0o777 == 0o700


def test_a_state_folder_that_others_could_read_is_closed(state: State) -> None:
    state.root.chmod(0o755)
    with state.lock("a"):
        assert state.root.stat().st_mode & 0o777 == 0o700


def test_a_folder_with_other_things_stays_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    (home / "notes.txt").write_text("mine")
    with State(home).lock("a"):
        assert home.stat().st_mode & 0o777 == 0o755
    assert "can be read by others" in caplog.text


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that nobody can write to, whoever runs this."""
    with read_only_disk(tmp_path / "disk") as folder:
        yield folder


@pytest.mark.parametrize("below", ["", "state"])
def test_a_read_only_folder_is_one_clear_message(read_only: Path, below: str) -> None:
    with (
        pytest.raises(StateUnusableError, match=r"^it cannot be written: (Read-only|Perm)"),
        State(read_only / below).lock("a"),
    ):
        pass


def test_unsent_outboxes_are_found_oldest_first(state: State) -> None:
    for name in ("b", "a"):
        state.outbox_path(name).write_text("")
    assert state.unsent_outboxes() == [state.outbox_path("a"), state.outbox_path("b")]
    assert state.unsent_outboxes(but="a") == [state.outbox_path("b")]
