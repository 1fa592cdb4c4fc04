"""`hosts prepare`: our environment on a host, once for each version, and gone without a trace."""

import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from infra.inventory import HostEntry
from infra.ours import interpreter_on, ours_on
from infra.own_wheel import own_version
from infra.remote import RemoteError
from infra.ssh.remote import SshRemote
from infra.wheelhouse import Lock, Target, WheelhouseError
from orchestrator.choices import WheelSource
from orchestrator.hosts import preparing
from orchestrator.hosts.preparing import prepare, remove
from sweeps.problems import BadInputError
from tests.attacks import attack
from tests.infra.ssh.lan import Lan
from tests.infra.trees import wait_until

pytestmark = pytest.mark.slow

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lend a lock of one small package, and its wheel in place of a registry."""
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    info = "tiny-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny.py", "SIZE = 1\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel_text = "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", wheel_text)
        archive.writestr(f"{info}/RECORD", f"tiny.py,,\n{info}/METADATA,,\n{info}/RECORD,,\n")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    folder = tmp_path / "requirements"
    folder.mkdir()
    (folder / f"py{PYTHON}.txt").write_text(f"tiny==1.0 --hash=sha256:{digest}\n")

    def fetched(lock: Lock, target: Target, cache: Path) -> list[Path]:
        assert lock.python == target.python == PYTHON
        return [wheel]

    monkeypatch.setattr(preparing, "download", fetched)
    return folder


@pytest.fixture
def host(lan: Lan, tmp_path: Path) -> HostEntry:
    """Lend a host on which nothing of ours is."""
    folder = str(tmp_path / "there")
    return lan["gpu1"].entry(python=None, base_python=sys.executable, folder=folder)


@pytest.fixture
def remote(lan: Lan) -> Iterator[SshRemote]:
    """Lend a way to it."""
    inventory = lan.inventory()
    with closing(SshRemote.to(inventory.host("gpu1"), inventory, Path("/dev/null"))) as made:
        yield made


def test_ours_is_put_there_once_used_and_removed(
    remote: SshRemote, host: HostEntry, locks: Path, tmp_path: Path
) -> None:
    # What an interrupted call left is made anew.
    half = Path(ours_on(remote, host).environment(Lock.of(PYTHON, locks).version)) / "bin"
    half.mkdir(parents=True)
    (half / "python").write_text("half")
    told: list[str] = []
    first = prepare(remote, host, told.append, source=WheelSource.SEND, locks=locks)
    assert not first.was_there
    assert own_version() in first.version
    assert "wheel 1 of 1: tiny-1.0-py3-none-any.whl" in told
    code = "import tiny, infra.own_wheel as w; print(tiny.SIZE, w.own_version(), w.__file__)"
    done = remote.run([interpreter_on(remote, host), "-c", code], cwd="/")
    words = done.text.split()
    assert words[:2] == ["1", own_version()], done
    assert words[2].startswith(f"{tmp_path}/there/current/")
    assert remote.run([first.interpreter.replace("/python", "/orchestrator"), "--help"]).code != 127

    told.clear()
    again = prepare(remote, host, told.append, source=WheelSource.SEND, locks=locks)
    assert again.was_there
    assert told == []

    # Another lock is another version: the link moves on, and what nobody uses is removed.
    lock = locks / f"py{PYTHON}.txt"
    lock.write_text(f"# changed\n{lock.read_text()}")
    other = prepare(remote, host, told.append, source=WheelSource.SEND, locks=locks)
    assert other.version != first.version
    assert Path(ours_on(remote, host).current).resolve().name == other.version
    assert not Path(first.interpreter).exists()

    state = Path(ours_on(remote, host).state)
    state.mkdir()
    (state / "result").write_text("precious")
    log = tmp_path / "log"
    words = [other.interpreter, "-c", "import time; print('up', flush=True); time.sleep(600)"]
    running = remote.start(words, log_path=str(log))
    wait_until(log.read_text, "the program")
    with pytest.raises(RemoteError, match=f"processes {running.pid} run by ours"):
        remove(remote, host)
    remote.signal(running, 9)
    wait_until(lambda: not remote.is_running(running), "its end")
    assert remove(remote, host)
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["state"]
    assert remove(remote, host, with_state=True)
    assert not (tmp_path / "there").exists()
    assert not remove(remote, host)


@attack("16: another wheel than the locked one for `hosts prepare`")
def test_a_wheel_that_is_not_the_locked_one_is_refused(
    remote: SshRemote, host: HostEntry, locks: Path
) -> None:
    lock = locks / f"py{PYTHON}.txt"
    lock.write_text(f"tiny==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(RemoteError, match=r"gpu1: python"):
        prepare(remote, host, lambda _: None, source=WheelSource.SEND, locks=locks)
    assert remote.run(["test", "-e", ours_on(remote, host).current]).code != 0


@attack("16: a source distribution in `hosts prepare`")
def test_a_source_distribution_runs_nothing_there(
    remote: SshRemote, host: HostEntry, locks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the right hash as well: what it holds is a program."""
    mark, source = tmp_path / "ran", tmp_path / "tiny-1.0.tar.gz"
    program = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n"
    with tarfile.open(source, "w:gz") as archive:
        for name, text in (("setup.py", program), ("PKG-INFO", "Name: tiny\nVersion: 1.0\n")):
            info = tarfile.TarInfo(f"tiny-1.0/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    (locks / f"py{PYTHON}.txt").write_text(f"tiny==1.0 --hash=sha256:{digest}\n")
    monkeypatch.setattr(preparing, "download", lambda *_: [source])
    with pytest.raises(RemoteError, match="No matching distribution"):
        prepare(remote, host, lambda _: None, source=WheelSource.SEND, locks=locks)
    assert not mark.exists()


def test_what_cannot_be_prepared_is_told(remote: SshRemote, lan: Lan, tmp_path: Path) -> None:
    node = lan["gpu1"]
    with pytest.raises(BadInputError, match="Remove `python`"):
        prepare(remote, node.entry(), print)
    with pytest.raises(RemoteError, match=r"tried /bin/sh\).*No login shell.*`base_python`"):
        prepare(remote, node.entry(python=None, base_python="/bin/sh"), print)
    with pytest.raises(WheelhouseError, match="from a checkout"):
        Lock.of(PYTHON, tmp_path)


def test_wheels_are_chosen_for_the_hosts_own_platform() -> None:
    tags = Target("3.11", "aarch64", "2.31").platforms()
    assert tags[0] == "manylinux_2_31_aarch64"
    assert "manylinux_2_17_aarch64" in tags
    assert not [tag for tag in tags if "2_34" in tag or "x86" in tag]


def test_the_real_locks_are_there() -> None:
    assert {Lock.of(python).path.name for python in ("3.11", "3.12")} == {
        "py3.11.txt",
        "py3.12.txt",
    }
    assert subprocess.run([sys.executable, "-m", "pip", "--version"], timeout=60).returncode == 0
