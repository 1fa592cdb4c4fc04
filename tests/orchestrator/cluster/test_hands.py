"""What comes back from a host: all files of a trial, and nothing outside its folder."""

import io
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.choices import AS_WRITTEN
from orchestrator.cluster import hands
from orchestrator.cluster.hands import Hands, pack, unpack
from sweeps.hosts import EngineName, HostSpec


def test_all_files_come_back_as_they_were(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "evidence").mkdir(parents=True)
    (there / "result.json").write_text('{"trial": 1}')
    (there / "evidence" / "stacks.txt").write_bytes(b"\x00\xff" * 1000)
    (there / "link").symlink_to("/etc/passwd")
    unpack(pack(there), here)
    found = {p.relative_to(here).as_posix() for p in here.rglob("*") if p.is_file()}
    assert found == {"result.json", "evidence/stacks.txt"}
    assert (here / "evidence" / "stacks.txt").read_bytes() == b"\x00\xff" * 1000


def test_of_a_long_log_the_end_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hands, "MOST_FILE_BYTES", 10)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "server.log").write_text("early " * 100 + "the end")
    unpack(pack(tmp_path / "there"), tmp_path / "here")
    assert (tmp_path / "here" / "server.log").read_text() == "ly the end"


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside-of-all"])
def test_an_archive_writes_nowhere_else(tmp_path: Path, name: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = 3
        archive.addfile(info, io.BytesIO(b"bad"))
    folder = tmp_path / "here"
    with suppress(tarfile.TarError):
        unpack(buffer.getvalue(), folder)
    written = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert all(folder in p.parents for p in written)
    assert not Path("/tmp/outside-of-all").exists()


@pytest.mark.slow
def test_a_home_is_that_of_the_machine_where_the_hands_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    there = Hands()
    there.write_order("~/state/trials/0001/stop.json", {"kind": "bound"})
    assert (tmp_path / "state/trials/0001/stop.json").is_file()
    unpack(there.pack("~/state/trials/0001"), tmp_path / "here")
    assert (tmp_path / "here" / "stop.json").is_file()
    spec, _ = there.probe(HostSpec(), AS_WRITTEN, "~/state/hosts/a", None)
    assert spec.engine is EngineName.EMULATED, "no GPU is found there"
    assert spec.folder == str(tmp_path / "state/hosts/a")
