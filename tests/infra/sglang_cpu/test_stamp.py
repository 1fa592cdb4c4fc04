"""Stamps and digests: a partial build is never taken for a whole one."""

import subprocess
import sys
from pathlib import Path

import pytest

from infra.sglang_cpu.errors import BuildBusyError, ForeignDirectoryError
from infra.sglang_cpu.stamp import (
    BuildState,
    Stamp,
    begin,
    digest_of,
    exclusive,
    is_whole,
    read_stamp,
    write_stamp,
)


def _files(root: Path, **contents: str) -> list[Path]:
    for name, content in contents.items():
        (root / name).write_text(content)
    return [root / name for name in contents]


def test_a_digest_does_not_depend_on_order_or_place(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    first = digest_of(_files(here, a="1", b="2"), root=here, facts=["3.11"])
    assert digest_of(reversed(_files(there, a="1", b="2")), root=there, facts=["3.11"]) == first


@pytest.mark.parametrize(
    ("contents", "fact"),
    [
        ({"a": "2", "b": "1"}, "3.11"),
        ({"a": "12", "b": ""}, "3.11"),
        ({"a": "1", "c": "2"}, "3.11"),
        ({"a": "1"}, "3.11"),
        ({"a": "1", "b": "2"}, "3.12"),
    ],
)
def test_a_digest_changes_with_any_part(
    tmp_path: Path, contents: dict[str, str], fact: str
) -> None:
    before = digest_of(_files(tmp_path, a="1", b="2"), root=tmp_path, facts=["3.11"])
    assert digest_of(_files(tmp_path, **contents), root=tmp_path, facts=[fact]) != before


def test_only_a_finished_build_of_the_same_digest_is_whole(tmp_path: Path) -> None:
    begin(tmp_path / "env", "d1")
    assert not is_whole(tmp_path / "env", "d1")
    write_stamp(tmp_path / "env", Stamp(BuildState.WHOLE, "d1"))
    assert is_whole(tmp_path / "env", "d1")
    assert not is_whole(tmp_path / "env", "d2")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"state": "odd", "digest": ""}'])
def test_a_damaged_stamp_is_no_stamp(tmp_path: Path, content: str) -> None:
    write_stamp(tmp_path, Stamp(BuildState.WHOLE, "d1"))
    (stamp_file,) = tmp_path.iterdir()
    stamp_file.write_text(content)
    assert read_stamp(tmp_path) is None


def test_a_new_build_starts_from_nothing(tmp_path: Path) -> None:
    begin(tmp_path / "env", "d1")
    (tmp_path / "env" / "half").mkdir()
    begin(tmp_path / "env", "d2")
    assert read_stamp(tmp_path / "env") == Stamp(BuildState.BUILDING, "d2")
    assert len(list((tmp_path / "env").iterdir())) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["env"]


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ForeignDirectoryError, match="is not empty"):
        begin(tmp_path, "d1")
    with pytest.raises(ForeignDirectoryError):
        begin(tmp_path / "thesis.txt", "d1")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_builds_of_a_directory_exclude_each_other(tmp_path: Path) -> None:
    with exclusive(tmp_path / "env", deadline_s=0):
        with (
            pytest.raises(BuildBusyError, match="still building"),
            exclusive(tmp_path / "env", deadline_s=0),
        ):
            pass
        with exclusive(tmp_path / "model", deadline_s=0):
            pass
    with exclusive(tmp_path / "env", deadline_s=0):
        pass


def test_a_dead_builder_holds_nothing(tmp_path: Path) -> None:
    holder = (
        "import sys, time; from pathlib import Path; from infra.sglang_cpu.stamp import exclusive\n"
        "with exclusive(Path(sys.argv[1]), deadline_s=0): print('held', flush=True); time.sleep(60)"
    )
    argv = [sys.executable, "-c", holder, str(tmp_path / "env")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(BuildBusyError), exclusive(tmp_path / "env", deadline_s=0):
            pass
        process.kill()
        process.wait()
    with exclusive(tmp_path / "env", deadline_s=0):
        pass
