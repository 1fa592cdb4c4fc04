"""What others plant beside a file that is written leads nowhere: no link is followed."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from infra import whole_file
from infra.own_wheel import file_hash
from infra.whole_file import name_beside, write_whole
from orchestrator.files import write_json, write_text
from orchestrator.journal import DiskError
from orchestrator.remote import listing, notes
from orchestrator.remote.laying_out import _copy
from orchestrator.remote.place import Place
from tests.attacks import attack
from tests.infra.ssh.loopback import Sshd, sshd

__all__ = ["sshd"]

DRAWN = "0123456789abcdef"
Write = Callable[[Path], object]


def _copied(path: Path) -> None:
    source = path.with_name("source")
    source.write_text("new")
    _copy(source, path)


WRITERS: dict[str, Write] = {
    "write_whole": lambda path: write_whole(path, b"new"),
    "write_text": lambda path: write_text(path, "new", 0o600),
    "write_json": lambda path: write_json(path, {"new": 1}),
    "a note of a run": lambda path: notes.write_object(path, {"new": 1}),
    "a file that was sent": _copied,
}


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "victim"
    path.write_text("untouched")
    path.chmod(0o640)
    yield path
    assert path.read_text() == "untouched"
    assert path.stat().st_mode & 0o777 == 0o640


@attack("10: a link planted beside a file that is written")
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("is_hard", [False, True])
def test_a_link_beside_a_file_is_not_followed_even_where_its_name_was_guessed(
    tmp_path: Path, victim: Path, name: str, is_hard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    monkeypatch.setattr("infra.whole_file.secrets.token_hex", lambda _: DRAWN)
    planted = path.with_name(f".{path.name}.{DRAWN}")
    if is_hard:
        planted.hardlink_to(victim)
    else:
        planted.symlink_to(victim)
    with pytest.raises((FileExistsError, DiskError)):
        WRITERS[name](path)
    assert not path.exists()


@attack("10: a link planted in the place of a file that is written")
@pytest.mark.parametrize("name", WRITERS)
def test_a_link_at_the_place_itself_is_replaced(tmp_path: Path, victim: Path, name: str) -> None:
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    path.symlink_to(victim)
    # Names that earlier versions took, which anybody could foresee.
    for old in (
        f".file.{os.getpid()}",
        *(f".file.{os.getpid()}.{n}" for n in range(50)),
        "file.part",
    ):
        path.with_name(old).symlink_to(victim)
    WRITERS[name](path)
    assert not path.is_symlink()
    assert "new" in path.read_text()


def test_names_are_drawn_each_time(tmp_path: Path) -> None:
    assert len({name_beside(tmp_path / "x") for _ in range(1000)}) == 1000


def test_what_is_not_written_to_its_end_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(RuntimeError), whole_file.replacing(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "before"


@attack("10: a link planted beside a copy of a database")
def test_a_copy_of_a_database_follows_no_link(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path / "root")
    place.snapshots.mkdir(parents=True)
    shutil.copy(_database(tmp_path), place.state / "study.db")
    monkeypatch.setattr("infra.whole_file.secrets.token_hex", lambda _: DRAWN)
    (place.snapshots / f".study.db.{DRAWN}").symlink_to(victim)
    with pytest.raises(FileExistsError):
        listing.snapshot(place, "study.db")


def _database(folder: Path) -> Path:
    import sqlite3

    with closing(sqlite3.connect(folder / "db")) as made, made:
        made.execute("CREATE TABLE t (x)")
    return folder / "db"


@attack("10: a link planted for a file that is fetched")
def test_a_fetched_part_that_is_a_link_is_not_continued(
    tmp_path: Path, victim: Path, sshd: Sshd
) -> None:
    source, target = tmp_path / "source", tmp_path / "here" / "file"
    source.write_text("new" * 1000)
    target.parent.mkdir()
    part = target.with_name(f".file.{file_hash(source)[:16]}.part")
    part.symlink_to(victim)
    with closing(sshd.remote()) as remote:
        remote.get(str(source), target)
    assert target.read_text() == source.read_text()


@attack("10: a link planted on a host for a file that is sent")
@pytest.mark.slow
def test_a_sent_part_that_is_a_link_there_is_not_continued(
    tmp_path: Path, victim: Path, sshd: Sshd
) -> None:
    source, target = tmp_path / "source", tmp_path / "there" / "file"
    source.write_text("new" * 1000)
    target.parent.mkdir()
    target.with_name(f".file.{file_hash(source)[:16]}.part").symlink_to(victim)
    with closing(sshd.remote()) as remote:
        assert remote.put(source, str(target))
        remote.write(str(target.with_name("small")), b"new")
    assert target.read_text() == source.read_text()
    assert sorted(one.name for one in target.parent.iterdir()) == ["file", "small"]
