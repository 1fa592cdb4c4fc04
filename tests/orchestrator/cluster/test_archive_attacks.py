"""An archive that a host sends is hostile until checked: nothing of it lands elsewhere."""

import gzip
import io
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.remote import RemoteError
from orchestrator.cluster import hands
from orchestrator.cluster.hands import ArchiveError, pack, unpack
from tests.attacks import attack

Fill = Callable[[tarfile.TarFile, Path], None]


def add(archive: tarfile.TarFile, name: str, kind: bytes = tarfile.REGTYPE, **more: object) -> None:
    info = tarfile.TarInfo(name)
    info.type = kind
    for field, value in more.items():
        setattr(info, field, value)
    content = b"bad" if kind in (tarfile.REGTYPE, tarfile.AREGTYPE) else b""
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def _link_then_file(archive: tarfile.TarFile, victim: Path) -> None:
    add(archive, "way", tarfile.SYMTYPE, linkname=str(victim.parent))
    add(archive, f"way/{victim.name}")


def _long_path_link(archive: tarfile.TarFile, victim: Path) -> None:
    """Lead out by a link whose real path is longer than what is looked at (CVE-2025-4517)."""
    part, way = "d" * 247, ""
    for step in "abcdefghijklmnop":
        add(archive, f"{way}{part}", tarfile.DIRTYPE)
        add(archive, f"{way}{step}", tarfile.SYMTYPE, linkname=part)
        way += f"{step}/"
    add(archive, f"{way}{'l' * 254}", tarfile.SYMTYPE, linkname="../" * 16)
    out = os.path.relpath(victim.parent, "/")
    add(archive, "escape", tarfile.SYMTYPE, linkname=f"{way}{'l' * 254}/../../../../../{out}")
    add(archive, f"escape/{victim.name}")


ATTACKS: dict[str, Fill] = {
    "absolute": lambda archive, victim: add(archive, str(victim)),
    "upwards": lambda archive, victim: add(archive, f"../{victim.name}"),
    "upwards inside": lambda archive, victim: add(archive, f"a/../../{victim.name}"),
    "a link": lambda archive, victim: add(archive, "x", tarfile.SYMTYPE, linkname=str(victim)),
    "a link, then through it": _link_then_file,
    "a hard link": lambda archive, victim: add(archive, "x", tarfile.LNKTYPE, linkname=str(victim)),
    "a long path of links": _long_path_link,
    "a pipe": lambda archive, _: add(archive, "x", tarfile.FIFOTYPE),
    "a device": lambda archive, _: add(archive, "x", tarfile.CHRTYPE, devmajor=1, devminor=3),
    "a folder": lambda archive, _: add(archive, "x", tarfile.DIRTYPE),
    "a NUL": lambda archive, _: add(archive, "x\n\x1b[2J"),
    "an empty name": lambda archive, _: add(archive, "."),
    "twice": lambda archive, _: add(archive, "result.json"),
    "a file as a folder": lambda archive, _: add(archive, "result.json/x"),
}


@attack("4: links, devices and paths out of the folder in an archive of a host")
@pytest.mark.parametrize("name", ATTACKS)
def test_an_archive_that_pack_does_not_make_writes_nothing(tmp_path: Path, name: str) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "a" / "here"
    victim.write_text("untouched")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        add(archive, "result.json")
        ATTACKS[name](archive, victim)
    with pytest.raises(ArchiveError):
        unpack(buffer.getvalue(), folder)
    assert victim.read_text() == "untouched"
    assert not folder.exists()


@attack("4: a link that lies where an archive of a host is unpacked")
def test_a_link_that_lies_there_already_is_not_followed(tmp_path: Path) -> None:
    there, here, elsewhere = tmp_path / "there", tmp_path / "here", tmp_path / "elsewhere"
    (there / "evidence").mkdir(parents=True)
    (there / "evidence" / "x").write_text("bad")
    here.mkdir()
    elsewhere.mkdir()
    (here / "evidence").symlink_to(elsewhere)
    with pytest.raises(RemoteError, match="is a link"):
        unpack(pack(there), here)
    assert list(elsewhere.iterdir()) == []


@attack("4: a small archive that unpacks to very much")
def test_a_small_archive_of_very_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hands, "_MOST_BYTES", 1 << 20)
    monkeypatch.setattr(hands, "_MOST_FILES", 50)
    many, large, header = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=many, mode="w:gz") as archive:
        for number in range(51):
            add(archive, str(number))
    with tarfile.open(fileobj=large, mode="w:gz") as archive:
        for number in range(9):
            info = tarfile.TarInfo(str(number))
            info.size = 1 << 17
            archive.addfile(info, io.BytesIO(b"\0" * info.size))
    with tarfile.open(fileobj=header, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        add(archive, "x", pax_headers={"comment": "c" * (2 << 20)})
    claimed = tarfile.TarInfo("x")
    claimed.size = 1 << 40
    lie = gzip.compress(claimed.tobuf() + b"\0" * 1024)
    for data in (many.getvalue(), large.getvalue(), header.getvalue(), lie):
        with pytest.raises(ArchiveError, match=r"too large|more than|broken"):
            unpack(data, tmp_path / "here")
    assert not (tmp_path / "here").exists()


@attack("4: a corrupt archive of a host")
def test_a_broken_archive_is_one_error(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "result.json").write_text("{}" * 500)
    (there / "server.log").write_bytes(random.Random(1).randbytes(5000))
    whole = pack(there)
    rng = random.Random(2)
    cases = [b"", b"no archive", gzip.compress(b"x" * 700), whole[: len(whole) // 2]]
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        cases.append(bytes(data))
    refused = 0
    for number, case in enumerate(cases):
        try:
            unpack(case, tmp_path / f"here{number}")
        except RemoteError:
            refused += 1
    assert refused > len(cases) / 2
