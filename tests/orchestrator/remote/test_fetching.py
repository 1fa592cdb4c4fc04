"""What is fetched: only what is new, each file whole, whatever breaks, and nowhere else."""

import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from infra.remote import Completed, LinkLostError, Remote, TransferError
from orchestrator.remote import fetching
from orchestrator.remote.calling import There
from orchestrator.remote.fetching import fetch
from orchestrator.remote.listing import frames
from orchestrator.remote.place import Place
from orchestrator.remote.there import ASKING


@dataclass
class Near:
    """A host that is a folder of this machine; its connection may be lost at some call."""

    place: Place
    lost_at: int = -1
    busy: tuple[str, ...] = ()
    """Large files that never stand still."""
    calls: list[str] = field(default_factory=list)
    name: str = "gpu1"

    def run(self, argv: Sequence[str], *, stdin: bytes, **_: object) -> Completed:
        verb, asked = argv[3], json.loads(stdin)
        self._count(verb)
        if verb == "frames":
            parts = frames(self.place.state, asked["paths"])
            out = b"".join(json.dumps(head).encode() + b"\n" + data for head, data in parts)
        else:
            out = json.dumps(ASKING[verb](self.place, asked)).encode()
        return Completed(tuple(argv), 0, out, b"")

    def get(self, path: str, local: Path) -> None:
        self._count(f"get {Path(path).name}")
        if Path(path).name in self.busy:
            raise TransferError("it changed while it was fetched")
        local.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, local)

    def _count(self, what: str) -> None:
        if len(self.calls) == self.lost_at:
            raise LinkLostError("the link ended")
        self.calls.append(what)


@pytest.fixture
def near(tmp_path: Path) -> Near:
    """Lend a host with three files and a store."""
    state = Place(tmp_path / "host").state
    for name in ("sweeps/a/sweep.json", "sweeps/a/trials/0000/result.json", "study.txt"):
        path = state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    with closing(sqlite3.connect(state / "mlflow.db")) as store, store:
        store.execute("CREATE TABLE runs (artifact_uri)")
        store.execute("INSERT INTO runs VALUES (?)", (f"file://{state}/artifacts/1",))
    return Near(Place(tmp_path / "host"))


def there(near: Near) -> There:
    return There(cast(Remote, near), "/py", near.place)


def test_only_what_is_new_comes_and_comes_once(near: Near, tmp_path: Path) -> None:
    here = tmp_path / "here"
    first = fetch(there(near), here)
    assert (first.files, first.unchanged) == (4, 0)
    assert (here / "sweeps/a/trials/0000/result.json").read_text().endswith("result.json")
    near.calls.clear()
    second = fetch(there(near), here)
    assert (second.files, second.size_bytes, second.unchanged) == (0, 0, 4)
    assert near.calls == ["manifest"]
    (near.place.state / "sweeps/a/sweep.json").write_text("other")
    third = fetch(there(near), here)
    assert (third.files, third.size_bytes, third.unchanged) == (1, 5, 3)
    assert (here / "sweeps/a/sweep.json").read_text() == "other"


def test_the_store_points_to_artifacts_here(near: Near, tmp_path: Path) -> None:
    here = tmp_path / "here"
    fetch(there(near), here)
    with closing(sqlite3.connect(here / "mlflow.db")) as store:
        assert store.execute("SELECT artifact_uri FROM runs").fetchall() == [
            (f"file://{here}/artifacts/1",)
        ]


def test_what_came_before_a_lost_link_is_not_brought_again(
    near: Near, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_BATCH_BYTES", 1)
    here = tmp_path / "here"
    near.lost_at = 2
    with pytest.raises(LinkLostError):
        fetch(there(near), here)
    came = {path.name for path in here.rglob("*") if path.is_file()}
    assert len(came) == 1
    near.lost_at = -1
    rest = fetch(there(near), here)
    assert (rest.files, rest.unchanged) == (3, 1)


def test_a_large_file_that_never_stands_still_costs_nothing_but_itself(
    near: Near, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_SMALL_BYTES", 10)
    near.busy = ("sweep.json",)
    found = fetch(there(near), tmp_path / "here")
    assert found.left == ("sweeps/a/sweep.json",)
    assert found.files == 3
    near.busy = ()
    assert fetch(there(near), tmp_path / "here").files == 1


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil"])
def test_a_host_cannot_make_us_write_elsewhere(
    near: Near, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ASKING, "manifest", lambda _place, _asked: {"files": {name: [4, 1]}})
    with pytest.raises(TransferError, match="leads out of the folder"):
        fetch(there(near), tmp_path / "here")
    assert not list(tmp_path.rglob("evil"))
