"""Ray of a sweep on one machine: others reach neither its files nor its ports."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from infra import runtime_folder
from infra.cluster import head, node_watch
from infra.cluster.words import RAY_FOLDER, node_words
from infra.host import Command
from infra.runtime_folder import RuntimeFolder, RuntimeFolderError
from tests.attacks import attack
from tests.infra.runtime import runtime

__all__ = ["runtime"]

ROOT = Path(__file__).parents[2]
_RAY = """
import json, os, psutil
from orchestrator import ray_driver
from sweeps.hosts import HostSpec
import ray
ray_driver._init_here([HostSpec()])
@ray.remote
def there(): return os.getpid()
ray.get(there.remote())
found = []
for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
    for link in process.net_connections("inet"):
        if link.status == "LISTEN":
            found.append([process.name(), link.laddr.ip])
folder = ray._private.worker._global_node.get_session_dir_path()
print(json.dumps({"listening": found, "folder": folder}), flush=True)
input()
ray.shutdown()
"""


@attack("1, 2: Ray's files and ports of a local sweep, by another user and from another machine")
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_nobody_else_reaches_ray_by_its_ports_or_its_files(runtime: RuntimeFolder) -> None:
    # One that the user made, and that is open to readers.
    runtime.path.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(
        [sys.executable, "-c", _RAY], env=env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            assert line, process.stderr and process.stderr.read()
            told = json.loads(line)
            folder = Path(told["folder"])
            assert folder.is_relative_to(runtime.path)
            assert len(str(folder / "sockets" / "plasma_store")) <= 107
            closed = runtime.path / "r"
            assert stat.S_IMODE(closed.stat().st_mode) == 0o700
            # What Ray makes is open by itself, which is why it needs a closed one around it.
            assert stat.S_IMODE((closed / "r").stat().st_mode) == 0o777
            _refused_to_others(folder)
            names = {name for name, _ in told["listening"]}
            assert len(names) >= 3, "its parts listen somewhere"
            strangers = [one for one in told["listening"] if not _is_loopback(one[1])]
            assert strangers == []
        finally:
            process.communicate("\n", timeout=200)


def _is_loopback(address: str) -> bool:
    return address.removeprefix("::ffff:").startswith("127.") or address == "::1"


def _refused_to_others(folder: Path) -> None:
    """Look at the folder as another user, if we may become one."""
    if os.getuid() != 0:
        return
    code = "import os, sys; os.setgid(65534); os.setuid(65534); os.listdir(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(folder)], capture_output=True, text=True
    )
    assert "PermissionError" in done.stderr


@attack("1: a folder for Ray that others made or opened")
@pytest.mark.parametrize("planted", ["link", "file", "open"])
def test_a_folder_for_ray_that_others_made_or_opened_is_not_used_as_it_is(
    runtime: RuntimeFolder, tmp_path: Path, planted: str
) -> None:
    closed = runtime.path / "r"
    if planted == "open":
        closed.mkdir()
        closed.chmod(0o777)
    elif planted == "file":
        closed.touch()
    else:
        closed.symlink_to(tmp_path)
    with pytest.raises(RuntimeFolderError, match=r"/r"):
        runtime.for_ray()


def test_the_longest_runtime_folder_leaves_room_for_rays_sockets(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = Path("/tmp") / ("o" * (runtime_folder.LONGEST_PATH - len("/tmp/")))
    monkeypatch.setenv(runtime_folder.VARIABLE, str(folder))
    session = "session_2026-01-31_23-59-59_123456_4194304"
    try:
        socket = RuntimeFolder.of_user().for_ray() / session / "sockets" / "plasma_store"
        assert len(os.fsencode(socket)) <= 107
    finally:
        subprocess.run(["rm", "-rf", "--", str(folder)], check=True)
    monkeypatch.setenv(runtime_folder.VARIABLE, f"{folder}o")
    with pytest.raises(RuntimeFolderError, match="longer than"):
        RuntimeFolder.of_user()


@attack("1: the folder of Ray on a host of a cluster")
def test_a_node_gets_a_folder_in_a_closed_one_of_its_own_host(
    runtime: RuntimeFolder, tmp_path: Path
) -> None:
    words = node_words("py", "127.0.0.1:1", "127.0.0.1", "gpu1", 8, RAY_FOLDER)
    assert words[words.index("--temp-dir") + 1] == RAY_FOLDER
    told = tmp_path / "told"
    code = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    node_watch.main(["127.0.0.1:1", sys.executable, "-c", code, str(told), RAY_FOLDER])
    folder = Path(told.read_text())
    assert folder == runtime.path / "r" / "r"
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


class _CaughtError(Exception):
    """Carries the command that would have been started."""

    def __init__(self, command: Command) -> None:
        self.command = command
        at = command.argv.index("--temp-dir") + 1
        self.folder = Path(command.argv[at])
        self.mode = stat.S_IMODE(self.folder.parent.stat().st_mode)


class _Host:
    def start(self, command: Command) -> None:
        raise _CaughtError(command)


@attack("1: the folder of Ray's head")
def test_the_head_gets_a_folder_in_a_closed_one(tmp_path: Path) -> None:
    with pytest.raises(_CaughtError) as caught:
        head.head_here(_Host(), "127.0.0.1", ["10.0.0.1"], "s", tmp_path / "log").__enter__()  # type: ignore[arg-type]
    assert caught.value.mode == 0o700
    assert not caught.value.folder.exists()
