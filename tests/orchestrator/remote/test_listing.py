"""What is fetched of a state folder, and databases as they are at one moment."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.remote.listing import frames, manifest, snapshot
from orchestrator.remote.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Lend a host with a state folder."""
    made = Place(tmp_path)
    names = (
        "sweeps/a/sweep.json",
        "sweeps/a/.sweep.json.12",
        "lock",
        "ray/x",
        "artifacts/1/x.json",
    )
    for name in names:
        path = made.state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (made.state / "link").symlink_to("/etc/passwd")
    return made


def test_only_what_is_whole_and_of_use_elsewhere_is_listed(place: Place) -> None:
    listed = manifest(place)
    assert set(listed) == {"sweeps/a/sweep.json", "artifacts/1/x.json"}
    found = (place.state / "artifacts/1/x.json").stat()
    assert listed["artifacts/1/x.json"] == [found.st_size, found.st_mtime_ns]


def test_a_database_is_copied_under_its_writer_and_its_stamp_tells_writes(place: Place) -> None:
    with closing(sqlite3.connect(place.state / "mlflow.db")) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE t (x)")
        writer.commit()
        before = manifest(place)
        assert "mlflow.db-wal" not in before
        writer.execute("INSERT INTO t VALUES (1)")
        writer.commit()
        assert manifest(place)["mlflow.db"] != before["mlflow.db"]
        writer.execute("INSERT INTO t VALUES (2)")  # not committed: no part of any moment yet
        copy = snapshot(place, "mlflow.db")
    with closing(sqlite3.connect(copy)) as read:
        assert read.execute("SELECT x FROM t").fetchall() == [(1,)]


def test_only_databases_of_the_state_folder_are_copied(place: Place) -> None:
    with pytest.raises(ValueError, match="no database"):
        snapshot(place, "../x.db")


def test_a_file_that_vanished_is_left_out_of_the_frames(place: Place) -> None:
    found = list(frames(place.state, ["sweeps/a/sweep.json", "gone"]))
    assert [(head["path"], data) for head, data in found] == [
        ("sweeps/a/sweep.json", b"sweeps/a/sweep.json")
    ]
