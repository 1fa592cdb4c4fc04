"""What is sent with a space file: all that is the user's own, and nothing else."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from orchestrator.choices import HostChoice, Sent
from orchestrator.remote.imports import local_modules
from orchestrator.remote.laying_out import lay_out, missing
from orchestrator.remote.parcel import pack
from orchestrator.remote.place import Place
from orchestrator.space_file import as_sent, load_sweep, prepare
from sweeps import EngineName, HostSpec
from sweeps.problems import BadInputError

SPACE = """
import json, numpy
from mine import shared
from mine.deep import axes
from sweeps import *
import search_spaces.speculation

sweep = Sweep(name="own", model=Model("/models/big"),
              axes=[Choice("speculative_algorithm", [None, "NGRAM"])],
              workload=Workload(prompts="file:{prompts}"), hosts=[HostSpec({host})])
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Lend a folder of a user's own with two packages, in which commands are typed."""
    folder = tmp_path / "project"
    files = {
        "mine/__init__.py": "",
        "mine/shared.py": "from .deep import axes\nimport mine.unused_name_of_nothing if 0 else 0",
        "mine/deep/__init__.py": "from ..other import NAME",
        "mine/deep/axes.py": "import importlib\nraise RuntimeError('never run by the packer')",
        "mine/other.py": "NAME = 1",
        "mine/stranger.py": "",
        "asked.jsonl": '{"prompt": "one"}\n',
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("import mine.unused_name_of_nothing if 0 else 0", ""))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "mine"]:
        del sys.modules[name]


def write(folder: Path, prompts: str = "asked.jsonl", host: str = "") -> Path:
    path = folder / "spaces/own.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(SPACE.format(prompts=prompts, host=host))
    return path


def test_own_modules_are_found_through_packages_and_never_run(here: Path) -> None:
    found = local_modules(write(here))
    own = {str(place) for place in found if place.parts[0] == "mine"}
    assert own == {
        "mine/__init__.py", "mine/shared.py", "mine/deep/__init__.py", "mine/deep/axes.py",
        "mine/other.py",
    }  # fmt: skip
    others = {place.parts[0] for place in found} - {"mine"}
    assert others == {"search_spaces"}  # not numpy, json, or sweeps, which the host has
    assert all(path.is_file() for path in found.values())


def test_files_keep_their_places_and_those_from_outside_get_one(here: Path, tmp_path: Path) -> None:
    (here / "mine/deep/axes.py").write_text("")
    outside = tmp_path / "more.jsonl"
    outside.write_text('{"prompt": "two"}\n')
    scenario = here / "wrong.toml"
    scenario.write_text("")
    extra = here / "data/table.csv"
    extra.parent.mkdir()
    extra.write_text("1")
    path = write(here, str(outside), "scenario='wrong.toml'")
    parcel = pack(path, load_sweep(path), here, more=[Path("data")])
    assert parcel.space == PurePosixPath("spaces/own.py")
    places = set(map(str, parcel.files))
    assert {"spaces/own.py", "mine/other.py", "wrong.toml", "data/table.csv"} <= places
    assert set(parcel.moved) == {str(outside)}
    assert parcel.files[PurePosixPath(parcel.moved[str(outside)])] == outside
    assert not any("models" in place for place in places)


def test_a_file_that_is_not_there_is_bad_input(here: Path) -> None:
    (here / "mine/deep/axes.py").write_text("")
    path = write(here, "nowhere.jsonl")
    with pytest.raises(BadInputError, match="no such file here to send"):
        pack(path, load_sweep(path), here)


def test_what_was_laid_out_loads_there_as_here(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "mine/deep/axes.py").write_text("")
    outside = tmp_path / "more.jsonl"
    outside.write_text("".join(f'{{"prompt": "ask {n}"}}\n' for n in range(80)))
    path = write(here, str(outside), "version='0.5.10', env={'NCCL_DEBUG': 'WARN'}")
    sweep = load_sweep(path)
    parcel = pack(path, sweep, here)
    place = Place(tmp_path / "host")
    place.blobs.mkdir(parents=True)
    hashes = parcel.hashes()
    assert set(missing(place, list(hashes.values()))) == set(hashes.values())
    for at, digest in hashes.items():
        (place.blobs / digest).write_bytes(parcel.files[at].read_bytes())
    assert missing(place, list(hashes.values())) == []
    files = {str(at): digest for at, digest in hashes.items()}
    folder = lay_out(place, parcel.name, files, {})
    monkeypatch.chdir(folder)
    outside.unlink()
    gpu1 = HostSpec("gpu1", EngineName.EMULATED, env={"NCCL_PROTO": "LL"}, truth="S")
    there = folder / parcel.space
    made = prepare(load_sweep(there), there, HostChoice(sent=Sent(gpu1, parcel.moved)))
    assert made.workload.file is not None
    assert made.workload.file.is_relative_to(folder)
    assert (made.hosts[0].name, made.hosts[0].truth) == ("gpu1", "S")
    assert made.hosts[0].version == "0.5.10"
    assert made.hosts[0].env == {"NCCL_DEBUG": "WARN", "NCCL_PROTO": "LL"}


def test_the_inventory_says_what_a_host_is_and_auto_leaves_it_to_the_file(here: Path) -> None:
    (here / "mine/deep/axes.py").write_text("")
    sweep = load_sweep(write(here, host="engine=EngineName.SGLANG, python='/opt/py', gpus=2"))
    made = as_sent(sweep, Sent(HostSpec("gpu1", gpus=8))).hosts[0]
    assert (made.engine, made.python, made.gpus) == (EngineName.SGLANG, "/opt/py", 8)
    emulated = HostSpec("gpu1", EngineName.EMULATED, python="/usr/py")
    made = as_sent(sweep, Sent(emulated)).hosts[0]
    assert (made.engine, made.python) == (EngineName.EMULATED, "/usr/py")


def test_only_what_an_earlier_time_laid_out_is_removed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.blobs.mkdir(parents=True)
    (place.blobs / "one").write_text("1")
    folder = lay_out(place, "own", {"a/b.py": "one", "c.py": "one"}, {"typed": []})
    (folder / "theirs.txt").write_text("kept")
    lay_out(place, "own", {"c.py": "one"}, {"typed": []})
    assert {p.name for p in folder.rglob("*") if p.is_file()} == {
        "c.py", "theirs.txt", ".laid.json", ".sent.json",
    }  # fmt: skip


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", ""])
def test_nothing_is_laid_out_elsewhere(tmp_path: Path, path: str) -> None:
    place = Place(tmp_path)
    place.blobs.mkdir(parents=True)
    (place.blobs / "one").write_text("1")
    with pytest.raises(ValueError, match="leads out"):
        lay_out(place, "own", {path: "one"}, {})
    with pytest.raises(ValueError, match="names no file"):
        lay_out(place, "..", {}, {})


def test_imports_inside_functions_count_too(here: Path) -> None:
    path = here / "late.py"
    path.write_text(
        textwrap.dedent("""
        def later():
            from mine.other import NAME
    """)
    )
    assert "mine/other.py" in set(map(str, local_modules(path)))
